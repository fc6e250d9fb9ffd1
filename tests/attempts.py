"""Attempts of a run in this very process: the parts of `actors.driver.driver`, without Ray."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from actors.controllers.chain_types import RunIdentity, Work
from actors.controllers.chains import Chains
from actors.controllers.journal_writer import JournalWriter
from actors.engines.scripted import ScriptedGenerator, ScriptedVerifier
from actors.routing.calls import A, Call, GenerateCall
from benchmarks.journals import read_journal
from pipeline.benchmarks import load
from pipeline.config.run import RunConfig
from pipeline.config.strategies import strategies_of
from pipeline.core.protocol import Failure, Request
from pipeline.planning.phase_work import phase_work
from pipeline.records.journal import set_aside_corrupt
from pipeline.records.outcome import SCHEMA as OUTCOME_SCHEMA
from pipeline.records.question_blocks import RecordedWork, write_recorded
from pipeline.records.questions import question_of, questions_table
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.segments import Epoch


def config_of(runs: Path, *, size: int = 6, n: int = 4, **runtime: Any) -> RunConfig:
    """A run of one strategy on scripted engines."""
    return RunConfig.parse(
        {
            "name": "test",
            "science": {
                "benchmarks": [{"name": "arithmetic", "size": 200, "limit": size}],
                "strategies": ["mr_thinking"],
                "strategy": {"n": n},
                "prompts": {"first": "{question}", "revise": "{question} was {answer}"},
                "generator": {"model": "none"},
                "verifier": {"model": "none"},
            },
            "runtime": {"runs": str(runs), "scripted": {"in_process": True}, **runtime},
        }
    )


def write_questions(run: RunDir, config: RunConfig) -> None:
    """questions.parquet, as a job writes it."""
    items = [item for source in config.science.benchmarks for item in load(source).items]
    table = questions_table(items, config.science.seed, config.science.priors)
    run.folder.write_table("questions.parquet", table)


def new_run(config: RunConfig, name: str = "r") -> RunDir:
    """A run directory with its questions."""
    run = RunDir.create(config, name)
    write_questions(run, config)
    return run


@dataclass
class Engines:
    """Scripted engines, and what was asked of them."""

    script: dict[str, Any] = field(default_factory=dict)
    stop_after: int | None = None
    """How many completions are made before everything hangs."""
    served: list[Request] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    """Error by the seed of the request."""

    def __post_init__(self) -> None:
        self._generator = ScriptedGenerator(self.script)
        self._verifier = ScriptedVerifier(self.script)
        self.hanging = asyncio.Event()
        self._ids = itertools.count()

    async def call(self, call: Call[A]) -> A | Failure:
        if not isinstance(call, GenerateCall):
            return await self._verifier.serve(replace(call, request_id=f"v{next(self._ids)}"))  # type: ignore[arg-type,return-value]
        request = call.request
        if self.stop_after is not None and len(self.served) >= self.stop_after:
            self.hanging.set()
            await asyncio.get_running_loop().create_future()
        self.served.append(request)
        if request.seed in self.failures:
            return Failure(error=self.failures[request.seed], completion_tokens=11)
        return await self._generator.serve(replace(call, request_id=f"g{next(self._ids)}"))  # type: ignore[return-value]


async def attempt(run: RunDir, engines: Engines, number: int = 1) -> list[dict[str, Any]]:
    """What is left of a run's first phase, as attempt `number`; outcome rows are written.

    Where the engines hang, everything ends as a killed process would, except that rounds which
    were finished a flush ago are durable.
    """
    entry = run.attempt(number)
    strategies = strategies_of(entry.config.science)
    set_aside_corrupt(run.journal)
    read = read_journal(run.journal)
    retry_before = entry.retry_before or 0
    done = {
        (o["strategy"], o["phase"], o["benchmark"], o["question_id"])
        for o in rows_of(run.outcomes())
        if not (o["error"] is not None and o["attempt"] < retry_before)
    }
    questions = rows_of(run.folder.read_table("questions.parquet"))
    work = phase_work(strategies, 0, questions, {}, done)
    wanted = [(r["strategy"], r["benchmark"], r["question_id"]) for r in work]
    write_recorded(run, number, 0, read.names, wanted)
    epoch = Epoch(number, entry.token, 0, "test", 1)
    recorded = RecordedWork(run, epoch, retry_before=entry.retry_before)
    journal = JournalWriter(run.journal, flush_s=0.01, epoch=epoch, base=recorded.base)
    chains = Chains(
        identity=RunIdentity(run=run.run_id, attempt=number),
        pools={"generator": engines, "verifier": engines},
        journal=journal,
        grade=_grade,
        recording_of=lambda w: recorded.of(w.key),
        in_flight=4,
    )
    tasks = [asyncio.create_task(chains.run(_work(strategies, row))) for row in work]
    hung = asyncio.create_task(engines.hanging.wait())
    await asyncio.wait({hung, asyncio.gather(*tasks)}, return_when=asyncio.FIRST_COMPLETED)
    if engines.hanging.is_set():
        await asyncio.sleep(0.2)
        chains.drain()
    hung.cancel()
    outcomes = [row for row in await asyncio.gather(*tasks) if row is not None]
    await journal.close()
    folder = run.folder.child("outcomes", f"attempt-{number}-phase-0")
    folder.write_table("o.parquet", pa.Table.from_pylist(outcomes, schema=OUTCOME_SCHEMA))
    return outcomes


def outcomes_of(run: RunDir) -> dict[str, dict[str, Any]]:
    """Outcomes by question, without what tells who wrote them when."""
    gone = ("seconds", "epoch", "sequence", "attempt")
    return {
        row["question_id"]: {name: value for name, value in row.items() if name not in gone}
        for row in rows_of(run.outcomes())
    }


def _work(strategies: dict[str, Any], row: dict[str, Any]) -> Work:
    (phase,) = strategies[row["strategy"]].phases()
    return Work(
        label=row["strategy"],
        phase=phase.name,
        strategy=phase.strategy,
        question=question_of(row),
        gold=row["gold"],
    )


async def _grade(gold: str, completion: Any, *_: object) -> str:
    return "right" if completion.answer == gold else "wrong"
