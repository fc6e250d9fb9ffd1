"""Tokens that a journal holds, and how busy the engines were."""

from typing import Any

import pytest

from benchmarks.journals import read_journal
from pipeline.core.decoding import Decoding
from pipeline.core.protocol import Completion, Failure, Question
from pipeline.records.journal import journaled_tokens
from pipeline.records.segments import Epoch, listed, write_segment
from pipeline.records.trajectory import row_of
from pipeline.report.usage import pool_report
from pipeline.store.storage import Folder
from pipeline.strategies.sequential import MRThinking
from tests.generators import first_requests

QUESTION = Question(benchmark="arithmetic", question_id="1", text="1+1?", seed=7)
(REQUEST,) = first_requests(MRThinking(decoding=Decoding(max_tokens=8)), QUESTION)


def life(number, attempt=1):
    return Epoch(attempt, "00000a", 0, "a", number)


def row(tokens, attempt=1, error=None, wasted=0, judge=0):
    observation = (
        Completion(text="x", score=0.5, completion_tokens=tokens, judge_tokens=judge)
        if error is None
        else Failure(error=error, completion_tokens=tokens)
    )
    return row_of(
        run="r",
        attempt=attempt,
        strategy="s",
        question=QUESTION,
        request=REQUEST,
        observation=observation,
        wasted_tokens=wasted,
    )


@pytest.fixture
def journal(tmp_path):
    return Folder(str(tmp_path))


def test_everything_in_the_journal_is_counted_once(journal):
    """Failures, lost tries, the judge and rows that do not count are in; a torn segment is not."""
    write_segment(journal, life(1), 0, [row(6, wasted=3, judge=4)])
    base = listed(journal.names())
    write_segment(journal, life(2), 0, [row(5, error="engine: no"), row(None, error="x: y")], base)
    write_segment(journal, life(1), 1, [row(7)])  # the first life woke up
    journal.write(f"{life(1).name}-000002-{'0' * 16}.parquet", b"torn")
    journal.write("notes.txt", b"hello")

    assert journaled_tokens(journal) == 25


def test_late_rows_and_failures_that_were_tried_again_are_discarded(journal):
    """They are in the journal's account and never in its table."""
    write_segment(journal, life(1), 0, [row(5, error="engine: no")])
    write_segment(journal, life(1, 2), 0, [row(9, attempt=2)], listed(journal.names()))
    write_segment(journal, life(1), 1, [row(7)])
    read = read_journal(journal)

    assert read.table["completion_tokens"].to_pylist() == [9]
    assert sorted(read.discarded["completion_tokens"].to_pylist()) == [5, 7]
    assert read.names == [n for n in journal.names() if not n.startswith(f"{life(1).name}-000001")]


def stats(replica: str = "g0", *, up: float, slot: float, **fields: Any) -> dict[str, Any]:
    """What a replica counts of itself; `up` and `slot` in seconds."""
    tokens = {"prompt_tokens": 1_000, "completion_tokens": 2_000}
    known = {"kv_usage": 0.5, "preemptions": 0, "requests": 100, **tokens}
    return {"replica": replica, "up_s": up, "slot_s": slot, **known, **fields}


def test_pools_add_up_over_replicas_and_lives() -> None:
    """Slot time over all replicas, and of the least and most used one; a replica whose figures
    begin anew has died, and both of its lives count."""
    rows = [
        [stats(up=10, slot=9), stats("g1", up=10, slot=10)],
        [stats(up=20, slot=18), stats("g1", up=5, slot=5, kv_usage=0.7, preemptions=1)],
    ]

    assert pool_report([{"engines": {"generator": found}} for found in rows]) == {
        "generator": {
            "replicas": 2,
            "up_s": 35,
            "slot_s": 33,
            "used": 33 / 35,
            "least_used": 0.9,
            "most_used": 1.0,
            "kv_usage_peak": 0.7,
            "preemptions": 1,
            "requests": 300,
            "prompt_tokens": 3_000,
            "completion_tokens": 6_000,
        },
        "verifier": None,
    }
    assert pool_report([{"engines": {"generator": []}}, {}]) is None
