"""Faults inside one controller, with scripted engines behind the real client: who pays for them."""

import asyncio
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import ray

from actors.controllers.chain_types import RunIdentity, Work
from actors.controllers.chains import Chains
from actors.controllers.controller import Controller
from actors.controllers.journal_writer import JournalError, JournalWriter
from actors.routing.client import EngineClient
from benchmarks.in_process import InProcess
from benchmarks.journals import read_journal
from pipeline.benchmarks.generated import questions
from pipeline.config.runtime import RequestConfig
from pipeline.core.decoding import Decoding
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import Question
from pipeline.store.storage import Folder
from pipeline.strategies.self_consistency import SelfConsistency
from pipeline.strategies.sequential import MRThinking
from tests.generators import first_requests

STRATEGY = MRThinking(
    n=3,
    decoding=Decoding(max_tokens=256),
    prompts=Prompts(first="{question}", revise="{question} was {answer}"),
)
SETTINGS = RequestConfig(
    deadline_s=0.3, score_deadline_s=0.3, attempts=2, backoff_s=0.0, no_replica_timeout_s=1
)
QUESTIONS = [
    Question(benchmark="arithmetic", question_id=i, text=t, seed=number)
    for number, (i, t, _) in enumerate(questions("arithmetic", 8, split="test", seed=0))
]
ILL = QUESTIONS[3]


def client(role, **script):
    return EngineClient(InProcess(role, **script), SETTINGS, role)


def make_chains(folder, flush_s=0.02, **script):
    journal = JournalWriter(Folder(str(folder)), flush_s=flush_s)
    chains = Chains(
        identity=RunIdentity(run="r", attempt=1),
        pools={role: client(role, **script) for role in ("generator", "verifier")},
        journal=journal,
        grade=_grade,
        recording_of=lambda work: None,
        in_flight=8,
    )
    return chains, journal


async def _grade(gold, completion, *_: object):
    return "wrong"


def work(question):
    return Work(label="s", phase="p", strategy=STRATEGY, question=question, gold="1")


async def ended(folder, **script):
    """Outcomes by question, without times."""
    chains, journal = make_chains(folder, **script)
    rows = await asyncio.gather(*(chains.run(work(q)) for q in QUESTIONS))
    await journal.close()
    return {
        row["question_id"]: {
            k: v for k, v in row.items() if k not in ("seconds", "epoch", "sequence")
        }
        for row in rows
    }


async def test_tries_whose_tokens_nobody_knows_are_counted_in_the_row_and_the_journal(tmp_path):
    """A round that came at the second try says that one try's tokens are unknown: never 0."""
    rows = await ended(tmp_path, faults={ILL.text: "dead"}, fault_times=1)
    journal = read_journal(Folder(str(tmp_path))).table.to_pylist()

    assert rows[ILL.question_id]["error"] is None
    assert rows[ILL.question_id]["tokens_unknown"] == 1
    assert [r["unknown_tries"] for r in journal if r["question_id"] == ILL.question_id] == [1, 0, 0]


async def test_a_question_given_twice_is_run_once(tmp_path):
    """Ray may send a task again to the same actor: both get the same row, and each round is drawn
    once."""
    chains, journal = make_chains(tmp_path)
    first, second = await asyncio.gather(chains.run(work(ILL)), chains.run(work(ILL)))
    await journal.close()

    assert first == second
    assert read_journal(Folder(str(tmp_path))).table["round"].to_pylist() == [0, 1, 2]


async def test_winding_down_lets_finish_what_is_in_flight(tmp_path):
    """Within the grace a completion ends and is journaled; no further one is asked for."""
    chains, journal = make_chains(tmp_path, tokens_per_s=1_000.0)
    running = [asyncio.create_task(chains.run(work(q))) for q in QUESTIONS]
    engine = chains._samples._pools["generator"]._transport.engine
    while engine.stats().requests < len(QUESTIONS):
        await asyncio.sleep(0)
    await chains.wind_down(5.0)
    rows = await asyncio.gather(*running)
    await journal.close()
    durable = read_journal(Folder(str(tmp_path))).table

    assert rows == [None] * len(QUESTIONS)
    assert durable["round"].to_pylist() == [0] * len(QUESTIONS)
    assert engine.stats().aborted == 0


async def test_winding_down_cuts_what_takes_longer(tmp_path):
    """After the grace everything is cancelled in the engine, which says what that cost."""
    chains, journal = make_chains(tmp_path, tokens_per_s=100.0, tokens=1_000)
    running = [asyncio.create_task(chains.run(work(q))) for q in QUESTIONS]
    await asyncio.sleep(0.05)
    await chains.wind_down(0.05)
    rows = await asyncio.gather(*running)
    await journal.close()
    stats = chains._samples._pools["generator"]._transport.engine.stats()

    assert rows == [None] * len(QUESTIONS)
    assert (stats.aborted, stats.running) == (len(QUESTIONS), 0)
    assert stats.aborted_tokens == stats.completion_tokens > 0


PARALLEL = SelfConsistency(n=8, decoding=STRATEGY.decoding, prompts=STRATEGY.prompts)


async def parallel(folder, **script):
    """A chain of 8 samples of which 4 may be drawn at once, begun."""
    chains, journal = make_chains(folder, **script)
    chains.limit(4)
    running = asyncio.create_task(chains.run(replace(work(QUESTIONS[0]), strategy=PARALLEL)))
    while chains.counters.samples < 4:
        await asyncio.sleep(0)
    return chains, journal, running


async def test_a_sample_that_breaks_its_chain_leaves_no_others_at_work(tmp_path, monkeypatch):
    """The chain fails with that error, and its other samples are aborted in the engine."""
    chains, journal, running = await parallel(tmp_path, tokens_per_s=100.0, tokens=1_000)
    monkeypatch.setattr(chains._samples, "_draw", None)  # the next sample that gets a place
    chains.limit(5)
    row = await running
    stats = chains._samples._pools["generator"]._transport.engine.stats()
    await journal.close()

    assert row["error"].startswith("TypeError: ")
    assert (stats.aborted, stats.running, chains.counters.samples) == (4, 0, 0)


async def test_a_controller_without_memory_blames_no_question(tmp_path, monkeypatch):
    """The error is the process's: it ends the run, by the controller, and makes no failed row."""

    async def none_left(*_):
        raise MemoryError

    chains, journal = make_chains(tmp_path)
    monkeypatch.setattr(chains._samples, "_draw", none_left)
    with pytest.raises(MemoryError):
        await chains.run(work(QUESTIONS[0]))
    await journal.close()

    assert chains.counters.stops == {}


async def test_a_journal_without_memory_says_so(tmp_path, monkeypatch):
    """No row is blamed for it."""

    def none_left(*_):
        raise MemoryError

    chains, journal = make_chains(tmp_path)
    monkeypatch.setattr(journal, "_write", none_left)
    with pytest.raises(
        JournalError, match=r"a controller on .* has no memory left: it needs fewer"
    ):
        await asyncio.wait_for(chains.run(work(QUESTIONS[0])), 30)


class Unsteady:
    """A run monitor to which the connection breaks once before each answer."""

    def __init__(self, **answers):
        self.calls = Counter()
        self._answers = answers

    def __getattr__(self, name):
        async def answer(*given):
            self.calls[name] += 1
            if self.calls[name] % 2:
                raise ray.exceptions.ActorUnavailableError("RpcError: Unavailable", None)
            return self._answers[name]

        return SimpleNamespace(remote=answer)


async def test_a_connection_that_breaks_is_no_end_of_the_run(monkeypatch):
    """Ray loses the call that waits for a drain; it is made again."""
    monkeypatch.setattr("actors.controllers.controller._REPORT_EVERY_S", 0.01)
    controller, done = Controller.__new__(Controller), []

    async def wind_down(grace_s):
        done.append(grace_s)

    async def nothing():
        pass

    controller._watch = Unsteady(until_drain=2.0)
    controller._tasks = []
    controller._chains = SimpleNamespace(wind_down=wind_down, drain=lambda: done.append("cut"))
    controller._journal = SimpleNamespace(close=nothing)
    controller._send_report = nothing
    await asyncio.wait_for(controller._drain_on_request(), 30)
    for task in controller._tasks:
        task.cancel()

    assert done == [2.0]


async def test_a_disk_that_is_full_for_a_while_loses_nothing(tmp_path):
    """Segments wait in memory until there is room, and nothing half-written is left behind."""
    import ctypes
    import os

    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ctypes.CDLL(None, use_errno=True).mount(
        b"tmpfs", str(disk).encode(), b"tmpfs", 0, b"size=256k"
    )
    if mounted != 0:
        pytest.skip(
            f"mounting a small file system is not allowed here ({os.strerror(ctypes.get_errno())})"
        )
    try:
        filler = disk / "filler"
        with pytest.raises(OSError, match="No space left"):
            filler.write_bytes(bytes(1 << 20))
        running = asyncio.create_task(ended(disk / "journal"))
        await asyncio.sleep(1.0)
        full = [p.name for p in (disk / "journal").glob("*")] if (disk / "journal").exists() else []
        filler.unlink()
        rows = await asyncio.wait_for(running, 30)
        left = [p.name for p in (disk / "journal").iterdir() if p.name.startswith(".")]

        assert not any(name.endswith(".parquet") for name in full)
        assert [row["completions"] for row in rows.values()] == [3] * len(QUESTIONS)
        assert read_journal(Folder(str(disk / "journal"))).table.num_rows == 3 * len(QUESTIONS)
        assert left == []
    finally:
        ctypes.CDLL(None).umount2(str(disk).encode(), 2)


async def test_text_that_no_file_can_hold_does_not_stop_the_journal(tmp_path):
    """A lone surrogate in an error is written as a question mark; others' rows are untouched."""
    from pipeline.core.protocol import Failure
    from pipeline.records.trajectory import row_of

    journal = JournalWriter(Folder(str(tmp_path)), flush_s=0.01)
    (request,) = first_requests(STRATEGY, ILL)
    for error in ("engine: \ud800", "engine: fine"):
        journal.append(
            row_of(
                run="r",
                attempt=1,
                strategy="s",
                question=ILL,
                request=request,
                observation=Failure(error=error),
            )
        )
    await asyncio.wait_for(journal.durable(), 10)
    read = read_journal(Folder(str(tmp_path)))

    assert {r["error"] for r in [*read.table.to_pylist(), *read.discarded.to_pylist()]} == {
        "engine: ?",
        "engine: fine",
    }
