"""Chains under the caps of a run: what starts, what waits, and what a cut-off leaves."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors.controllers.chain_types import Check, Checked, RunIdentity, Work
from actors.controllers.chains import Chains
from actors.controllers.completion_source import CompletionGate, Expected
from actors.controllers.journal_writer import JournalWriter
from actors.routing.calls import Generated, Scored
from benchmarks.journals import read_journal
from pipeline.core.decoding import Decoding
from pipeline.core.protocol import Completion, Question
from pipeline.planning.phase_work import Forecast
from pipeline.planning.run_caps import TokenLeases
from pipeline.store.storage import Folder
from pipeline.strategies.self_consistency import SelfConsistency
from pipeline.strategies.sequential import MRThinking

TOKENS = 10


class Generator:
    """Takes a moment for each completion of ten tokens; notes who was served, and how many at
    once."""

    def __init__(self) -> None:
        self.served: Counter[str] = Counter()
        self.at_work = self.most = 0

    async def call(self, call: Any) -> Any:
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        try:
            await asyncio.sleep(0.005)
        finally:
            self.at_work -= 1
        self.served[call.session] += 1
        return Generated(
            text="so \\boxed{1}",
            finish_reason="stop",
            prompt_tokens=1,
            cached_prompt_tokens=0,
            completion_tokens=TOKENS,
            thinking_tokens=0,
        )


class Verifier:
    """Takes as long, so that chains are often in neither."""

    async def call(self, call: Any) -> Any:
        await asyncio.sleep(0.005)
        return Scored(step_scores=(0.5,), score=0.5, tokens=1, truncated=False)


class Capped:
    """Chains of one controller under a cap."""

    def __init__(
        self, folder: Path, cap: float, in_flight: int = 64, check: Check | None = None
    ) -> None:
        self.allotment = TokenLeases(1, cap)
        self.wanted = asyncio.Event()
        self.gate = CompletionGate(self.wanted.set)
        self.generator = Generator()
        self.folder = Folder(str(folder))
        self.journal = JournalWriter(self.folder, flush_s=0.01)
        self.chains = Chains(
            identity=RunIdentity(run="r", attempt=1),
            pools={"generator": self.gate.guarding(self.generator), "verifier": Verifier()},
            journal=self.journal,
            grade=grade,
            recording_of=lambda work: None,
            in_flight=in_flight,
            gate=self.gate,
            check=check,
        )
        self.keeping = asyncio.create_task(self.keep())

    async def keep(self) -> None:
        """What a controller and its monitor say to each other."""
        while True:
            await self.wanted.wait()
            self.wanted.clear()
            gate, allotment = self.gate, self.allotment
            held = gate.release()
            allotted = allotment.renew("c", gate.spent, held, wanting=gate.wanting)
            gate.allot(allotted, allotment.left)
            await asyncio.sleep(0.002)

    async def until_still(self) -> None:
        """Until nothing is in flight and nothing starts any more."""
        still = 0
        while still < 20:
            await asyncio.sleep(0.005)
            still = 0 if self.generator.at_work else still + 1


async def grade(gold: str, completion: Completion, *_: object) -> str:
    return "right"


def work(name: str, n: int, kind: type = MRThinking, forecast: int | None = None) -> Work:
    return Work(
        label="s",
        phase="p",
        strategy=kind(n=n, decoding=Decoding(max_tokens=8)),
        question=Question(benchmark="b", question_id=name, text="?"),
        gold="1",
        forecast=Forecast(completions=forecast or n, tokens_each=TOKENS),
    )


async def test_without_a_cap_nearby_nothing_waits(tmp_path: Path) -> None:
    """All chains end, and as many completions are at work as there are chains."""
    run = Capped(tmp_path, cap=10_000)
    rows = await asyncio.gather(*(run.chains.run(work(str(i), 4)) for i in range(30)))

    assert [row["completions"] for row in rows if row] == [4] * 30
    assert run.gate.spent == 30 * 4 * TOKENS
    assert run.generator.most == 30


async def test_what_is_left_goes_to_whole_chains(tmp_path: Path) -> None:
    """Forty chains of four rounds and room for ten: about as many end, and hardly any other has
    begun; what is over is less than what was in flight. The rest is cut off without an outcome, and
    what it drew is in the journal."""
    run = Capped(tmp_path, cap=10 * 4 * TOKENS)
    running = [asyncio.create_task(run.chains.run(work(str(i), 4))) for i in range(40)]
    await run.until_still()
    await asyncio.wait_for(run.chains.wind_down(60), 5)
    rows = await asyncio.gather(*running)
    await run.journal.close()
    drawn = Counter(run.generator.served.values())

    assert 8 <= drawn[4] <= 10
    assert sum(drawn.values()) <= 12
    assert 400 <= run.gate.spent < 400 + run.generator.most * TOKENS
    assert [row["completions"] for row in rows if row] == [4] * drawn[4]
    assert read_journal(run.folder).table.num_rows * TOKENS == run.gate.spent


async def test_what_a_judge_takes_is_spent(tmp_path: Path) -> None:
    """Where the judge takes as much as the generator, half as many completions fit the cap."""

    async def check(work: Work, completion: Completion, *, feedback: bool) -> Checked:
        return Checked("right", judge_tokens=TOKENS)

    run = Capped(tmp_path, cap=16 * TOKENS, check=check)
    running = [asyncio.create_task(run.chains.run(work(str(i), 4))) for i in range(10)]
    await run.until_still()
    await asyncio.wait_for(run.chains.wind_down(60), 5)
    await asyncio.gather(*running)

    assert run.gate.spent == 2 * TOKENS * run.generator.served.total()
    assert 16 * TOKENS <= run.gate.spent < (16 + 2 * run.generator.most) * TOKENS
    assert run.chains.counters.judge_tokens == run.gate.spent / 2


async def test_samples_side_by_side_pass_the_gate_one_by_one(tmp_path: Path) -> None:
    """A chain that asks for eight at once is cut off in the middle, and ends without an outcome."""
    run = Capped(tmp_path, cap=3 * TOKENS, in_flight=2)
    running = asyncio.create_task(run.chains.run(work("1", 8, SelfConsistency)))
    await run.until_still()
    await asyncio.wait_for(run.chains.wind_down(60), 5)

    assert await running is None
    assert 3 <= run.generator.served["s/b/1"] <= 4


async def test_a_chain_that_is_cancelled_while_it_waits_leaves_no_trace() -> None:
    """Its place is free, and the next one goes on."""
    gate = CompletionGate(lambda: None)
    gate.register("a", Expected(1, 10.0, "g", begun=False))
    gate.register("b", Expected(2, 20.0, "g", begun=False))
    first = asyncio.create_task(gate.start("a"))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.forget("a")
    gate.allot(10, 10)
    await asyncio.wait_for(gate.start("b"), 1)

    assert gate.to_come == 20.0
    gate.close()
    with pytest.raises(asyncio.CancelledError):
        await gate.start("b")


async def test_samples_of_spared_chains_do_not_stand_in_the_way_of_others(tmp_path: Path) -> None:
    """Two requests may be out at once, and the samples of a chain that is spared come first: those
    of the one that fits what is left go on all the same."""
    run = Capped(tmp_path, cap=6 * TOKENS, in_flight=2)
    large = asyncio.create_task(run.chains.run(work("large", 16, SelfConsistency)))
    await asyncio.sleep(0)
    small = asyncio.create_task(run.chains.run(work("small", 4, SelfConsistency)))
    try:
        row = await asyncio.wait_for(small, 5)
    finally:
        run.chains.drain()
        await asyncio.gather(large)

    assert row is not None
    assert row["completions"] == 4


@pytest.mark.parametrize("seed", [0, 3, 6, 10, 16, 18, 45])
async def test_nothing_stands_still_below_the_cap(tmp_path: Path, seed: int) -> None:
    """Chains and samples in any mix, forecast well or badly: it comes to rest only where all have
    ended or the cap is reached, which is passed by less than what is in flight."""
    rng = random.Random(seed)
    in_flight = rng.randint(1, 6)
    works = [
        work(
            str(i),
            rng.choice([1, 2, 4, 8, 16]),
            rng.choice([MRThinking, SelfConsistency]),
            forecast=rng.choice([None, None, 1, 3]),
        )
        for i in range(rng.randint(2, 12))
    ]
    cap = rng.randint(1, sum(each.strategy.n for each in works)) * TOKENS
    run = Capped(tmp_path, cap=cap, in_flight=in_flight)
    running = [asyncio.create_task(run.chains.run(each)) for each in works]
    async with asyncio.timeout(20):
        while run.gate.spent < cap and not all(task.done() for task in running):
            await asyncio.sleep(0.005)
    await asyncio.wait_for(run.chains.wind_down(5), 10)
    await asyncio.gather(*running)

    assert run.gate.spent < cap + 2 * in_flight * TOKENS
