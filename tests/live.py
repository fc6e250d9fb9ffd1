"""A live run without Ray: the controller's own chains over scripted engines, phase by phase."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from actors.controllers.chain_types import RunIdentity, Work
from actors.controllers.chains import Chains
from actors.controllers.controller import Checker
from actors.controllers.grading import GradingPool
from actors.controllers.journal_writer import JournalWriter
from actors.engines.scripted import reply, rows
from actors.routing.calls import GenerateCall, Generated, ScoreCall, Scored
from benchmarks.journals import read_journal
from pipeline.answers import grade
from pipeline.answers.graders import MATH, GraderSettings
from pipeline.benchmarks import load
from pipeline.config.run import RunConfig
from pipeline.config.runtime import Script
from pipeline.config.strategies import rules_of, strategies_of
from pipeline.core import prm
from pipeline.core.protocol import Completion, Failure, Request, Strategy
from pipeline.planning.phase_work import (
    PREPARED,
    ByBenchmark,
    folded_statistics,
    phase_count,
    phase_work,
    prepared_statistics,
)
from pipeline.records.journal import ByQuestion, Resumed
from pipeline.records.outcome import schema_of
from pipeline.records.questions import question_of, questions_table
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.segments import Epoch, listed
from pipeline.records.trajectory import Row


class ScriptedGenerator:
    """`actors.engines.scripted` behind the controller's interface; counts what it is asked."""

    def __init__(self, script: Script, fail: tuple[str, ...] = ()) -> None:
        self._script, self._fail = script, fail
        self.served: list[Request] = []

    async def call(self, call: GenerateCall) -> Generated | Failure:
        request = call.request
        await asyncio.sleep(0)
        self.served.append(request)
        prompt = "\n".join(turn.content for turn in request.messages)
        if any(f"{call.session}#{request.round}" == place for place in self._fail):
            return Failure(error="engine: scripted", completion_tokens=3)
        text, tokens = reply(prompt, request.seed, self._script)
        return Generated(
            text=text,
            finish_reason="stop",
            prompt_tokens=len(prompt),
            cached_prompt_tokens=0,
            completion_tokens=tokens,
            thinking_tokens=0,
            replica="scripted",
        )


class ScriptedVerifier:
    """The scripted scores, aggregated as the engine does."""

    async def call(self, call: ScoreCall) -> Scored | Failure:
        made = rows(call.question, call.reply, None)
        scores = prm.step_scores(made, len(made))
        return Scored(
            step_scores=scores, score=prm.aggregate(scores, "mean"), tokens=9, truncated=False
        )


def config_of(runs: str, strategies: list[Any], size: int = 6, **science: Any) -> RunConfig:
    """A run over generated arithmetic with scripted engines."""
    return RunConfig.parse(
        {
            "science": {
                "benchmarks": [{"name": "arithmetic", "size": size}],
                "strategies": strategies,
                "prompts": {"first": "{question}", "revise": "{question} was {answer}"},
                "decoding": {"max_tokens": 256},
                "generator": {"model": "scripted"},
                "verifier": {"model": "scripted"},
                "priors": {"a": 0.05, "b": 0.3},
                **science,
            },
            "runtime": {"runs": runs, "scripted": {"p0": 0.5, "a": 0.1, "b": 0.3}},
        }
    )


def create(config: RunConfig, name: str = "run") -> RunDir:
    """A new run directory with its questions."""
    run = RunDir.create(config, name)
    write_questions(run, config)
    return run


def write_questions(run: RunDir, config: RunConfig) -> None:
    """The questions of the configuration's benchmarks."""
    items = [item for source in config.science.benchmarks for item in load(source).items]
    table = questions_table(items, config.science.seed, config.science.priors)
    run.folder.write_table("questions.parquet", table)


def work_of(
    row: Row,
    strategies: Mapping[str, Strategy],
    phase: int,
    known: Mapping[tuple[str, str], ByBenchmark],
    graders: Mapping[str, GraderSettings] | None = None,
) -> Work:
    """One question for one strategy in a phase, with what the phases before have learnt."""
    phases = strategies[row["strategy"]].phases()
    before = phases[phase - 1].name if phase else PREPARED
    return Work(
        label=row["strategy"],
        phase=phases[phase].name,
        strategy=phases[phase].strategy,
        question=question_of(row),
        gold=row["gold"],
        level=row["level"],
        statistics=known.get((row["strategy"], before), {}).get(row["benchmark"]),
        grader=(graders or {}).get(row["benchmark"], MATH),
    )


async def live(
    run: RunDir,
    generator: Any = None,
    verifier: Any = None,
    *,
    attempt: int = 1,
    judge: Any = None,
) -> ScriptedGenerator:
    """Take every question to its outcome; returns the generator."""
    config = run.config()
    strategies = strategies_of(config.science)
    questions = rows_of(run.folder.read_table("questions.parquet"))
    generator = generator or ScriptedGenerator(config.runtime.scripted or Script())
    known: dict[tuple[str, str], Any] = {}
    graders = {source.name: source.graded_by for source in config.science.benchmarks}
    checking = GradingPool()
    for label, strategy in strategies.items():
        known[(label, PREPARED)] = prepared_statistics(strategy, questions) or {}
    for phase in range(phase_count(strategies)):
        done = {
            (row["strategy"], row["phase"], row["benchmark"], row["question_id"])
            for row in rows_of(run.outcomes())
        }
        journal = read_journal(run.journal)
        recorded = ByQuestion(journal.table)
        writer = JournalWriter(
            run.journal,
            flush_s=0.01,
            epoch=Epoch(attempt, run.attempt(attempt).token, phase, "tests", 1),
            base=listed(journal.names),
        )
        chains = Chains(
            identity=RunIdentity(
                run=run.run_id, attempt=attempt, stop_flag=config.science.generator.stop_flag
            ),
            pools={"generator": generator, "verifier": verifier or ScriptedVerifier()},
            journal=writer,
            grade=_grade,
            recording_of=lambda work, found=recorded: Resumed(found.get(work.key, [])),
            in_flight=64,
            rules=rules_of(config.science),
            check=Checker({"judge": judge} if judge else {}, config.science.judge, checking),
        )
        left = phase_work(strategies, phase, questions, known, done)
        work = [work_of(row, strategies, phase, known, graders) for row in left]
        outcomes = await asyncio.gather(*(chains.run(one) for one in work))
        await writer.close()
        table = pa.Table.from_pylist(
            [row for row in outcomes if row], schema=schema_of(rules_of(config.science))
        )
        folder = run.folder.child("outcomes", f"attempt-{attempt}-phase-{phase}")
        folder.write_table("part-0.parquet", table)
        _fold(run, strategies, phase, questions, known)
    checking.close()
    return generator  # type: ignore[no-any-return]


def _fold(
    run: RunDir,
    strategies: dict[str, Any],
    phase: int,
    questions: list[dict[str, Any]],
    known: dict[tuple[str, str], Any],
) -> None:
    """Learn from a phase, once: what a run wrote down of it stands, as with the driver."""
    recorded = ByQuestion(read_journal(run.journal).table)
    for label, strategy in strategies.items():
        phases = strategy.phases()
        if phase < len(phases):
            before = known[(label, phases[phase - 1].name if phase else PREPARED)]
            name = phases[phase].name
            known[(label, name)] = run.statistics(label, name) or folded_statistics(
                label, strategy, phase, questions, lambda key: recorded.get(key, []), before
            )


async def _grade(gold: str, completion: Completion, *_: object) -> str:
    return grade(gold, completion.answer).value
