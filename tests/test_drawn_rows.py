"""Reading a journal question by question: the same rows and results, however little is held."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from benchmarks.journals import read_journal
from pipeline.records import question_blocks
from pipeline.records.journal import QUESTION_KEY, ByQuestion
from pipeline.records.question_blocks import journal_by_question
from pipeline.records.segments import Epoch, write_segment
from pipeline.records.trajectory import SCHEMA, Row
from pipeline.store.storage import Folder

SIZES = [1, 20_000, 2**26]
EPOCH = Epoch(attempt=1, token="0a1b2c", phase=0, slot="a", life=0)


def row(key: tuple[str, str, str], number: int, error: str | None) -> Row:
    """A completion, or a failure, of one of three requests of a question."""
    at = {"pool": "main", "chain": 0, "round": number % 3, "sample": 0, "request_digest": "d"}
    fields = {"run": "r", "attempt": 1, "seed": number, "text": "x" * 500, "error": error}
    asked = dict(zip(QUESTION_KEY, key, strict=True))
    return {**dict.fromkeys(SCHEMA.names), **asked, **at, **fields}


KEYS = [(s, b, f"q{n}") for s in "st" for b in "bc" for n in range(9)]
ROWS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from([None, None, "e: x"])), max_size=40
)


@settings(max_examples=15, deadline=None)
@given(
    segments=st.lists(ROWS, max_size=5),
    torn=st.none() | st.integers(0, 4),
    order=st.permutations(KEYS),
    part=st.sampled_from(SIZES),
    held=st.sampled_from(SIZES),
)
def test_questions_have_the_rows_that_the_whole_journal_has_of_them(
    tmp_path_factory: pytest.TempPathFactory,
    segments: list[Any],
    torn: int | None,
    order: list[tuple[str, str, str]],
    part: int,
    held: int,
) -> None:
    """Of every question, named before or not, in the same order, without torn segments and without
    failures that were tried again, for any size of what is held."""
    folder = tmp_path_factory.mktemp("journal")
    numbers = iter(range(1_000))
    for sequence, rows in enumerate(segments):
        made = [row(key, next(numbers), error) for key, error in rows]
        name = write_segment(Folder(str(folder)), EPOCH, sequence, made)
        if sequence == torn:
            (folder / name).write_bytes(b"torn")
    whole = ByQuestion(read_journal(Folder(str(folder))).table)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(question_blocks, "_PART_BYTES", part)
        patched.setattr(question_blocks, "_HELD_BYTES", held)
        with journal_by_question(Folder(str(folder)), order[:20]) as drawn:
            found = {key: drawn.rows(key) for key in drawn.keys}

    assert {key: rows for key, rows in found.items() if rows} == dict(whole)
    assert all(drawn_key in found for drawn_key in whole)
