"""A live run without Ray: the controller's own chains over scripted engines, phase by phase."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from actors.controllers.chain_types import RunIdentity, Work
from actors.controllers.chains import Chains
from actors.controllers.controller import Checker
from actors.controllers.grading import GradingPool
from actors.controllers.journal_writer import JournalWriter
from actors.driver.run_phases import RunPhases
from actors.engines.scripted import reply, rows
from actors.routing.calls import GenerateCall, Generated, ScoreCall, Scored
from pipeline.answers import grade
from pipeline.answers.graders import MATH, GraderSettings
from pipeline.benchmarks import load
from pipeline.config.run import RunConfig
from pipeline.config.runtime import Script
from pipeline.config.strategies import headlines_of, rules_of, strategies_of
from pipeline.core import prm
from pipeline.core.protocol import Completion, Failure, Request, Strategy
from pipeline.planning.phase_work import PREPARED, ByBenchmark
from pipeline.records.outcome import schema_of
from pipeline.records.question_blocks import RecordedWork
from pipeline.records.questions import question_of, questions_table
from pipeline.records.run_dir import RunDir
from pipeline.records.segments import Epoch
from pipeline.records.trajectory import Row


class ScriptedGenerator:
    """`actors.engines.scripted` behind the controller's interface; counts what it is asked."""

    def __init__(self, script: Script, fail: tuple[str, ...] = ()) -> None:
        self._script, self._fail = script, fail
        self.served: list[Request] = []

    async def call(self, call: GenerateCall) -> Generated | Failure:
        request = call.request
        self.served.append(request)
        await asyncio.sleep(0)
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


class Engines(ScriptedGenerator):
    """Generator and verifier in one.

    Args:
        script: of the completions.
        stop_after: how many completions are made before everything hangs.
        failures: error by the seed of the request.
    """

    def __init__(
        self,
        script: dict[str, Any] | None = None,
        stop_after: int | None = None,
        failures: dict[int, str] | None = None,
    ) -> None:
        super().__init__(Script.model_validate(script or {}))
        self.stop_after, self.failures = stop_after, failures or {}
        self.hanging = asyncio.Event()

    async def call(self, call: Any) -> Any:
        if isinstance(call, ScoreCall):
            return await ScriptedVerifier().call(call)
        if self.stop_after is not None and len(self.served) >= self.stop_after:
            self.hanging.set()
            await asyncio.get_running_loop().create_future()
        if call.request.seed in self.failures:
            self.served.append(call.request)
            return Failure(error=self.failures[call.request.seed], completion_tokens=11)
        return await super().call(call)


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
    verdicts: Counter[str] | None = None,
) -> Any:
    """Take every question that is left to its outcome; returns the generator.

    Where engines hang (`Engines`), everything ends as a killed process would, except that rounds
    which were finished a flush ago are durable.

    Args:
        run: its directory, with questions.
        generator: that the chains ask; by default the scripted one of the configuration.
        verifier: that scores.
        attempt: which of the run's.
        judge: that grades, where the configuration has one.
        verdicts: collects those that the progress of a run counts.
    """
    entry = run.attempt(attempt)
    science = entry.config.science
    generator = generator or ScriptedGenerator(entry.config.runtime.scripted or Script())
    hanging = getattr(generator, "hanging", None) or asyncio.Event()
    strategies, rules = strategies_of(science), rules_of(science)
    graders = {source.name: source.graded_by for source in science.benchmarks}
    phases = RunPhases(run, entry.config, entry)
    phases.prepare()
    with GradingPool() as checking:
        for phase in range(phases.count):
            left = phases.work(phase)
            if not left:
                phases.fold(phase)
                continue
            epoch = Epoch(attempt, entry.token, phase, "tests", 1)
            recorded = RecordedWork(run, epoch, retry_before=entry.retry_before)
            writer = JournalWriter(run.journal, flush_s=0.01, epoch=epoch, base=recorded.base)
            chains = Chains(
                identity=RunIdentity(
                    run=run.run_id, attempt=attempt, stop_flag=science.generator.stop_flag
                ),
                pools={"generator": generator, "verifier": verifier or ScriptedVerifier()},
                journal=writer,
                grade=_grade,
                recording_of=lambda work, recorded=recorded: recorded.of(work.key),
                in_flight=64,
                rules=rules,
                headline=headlines_of(science, phase),
                check=Checker({"judge": judge} if judge else {}, science.judge, checking),
            )
            known = {
                (label, name): run.statistics(label, name) or {}
                for label, strategy in strategies.items()
                for name in (PREPARED, *(each.name for each in strategy.phases()))
            }
            work = [work_of(row, strategies, phase, known, graders) for row in left]
            ended = asyncio.gather(*(chains.run(one) for one in work))
            hung = asyncio.create_task(hanging.wait())
            await asyncio.wait({hung, ended}, return_when=asyncio.FIRST_COMPLETED)
            if hanging.is_set():
                await asyncio.sleep(0.2)
                chains.drain()
            hung.cancel()
            outcomes = [row for row in await ended if row is not None]
            await writer.close()
            table = pa.Table.from_pylist(outcomes, schema=schema_of(rules))
            folder = run.folder.child("outcomes", f"attempt-{attempt}-phase-{phase}")
            folder.write_table("part-0.parquet", table)
            if hanging.is_set():
                break
            phases.fold(phase)
            if verdicts is not None:
                verdicts.update(chains.counters.verdicts)
    return generator


async def _grade(gold: str, completion: Completion, *_: object) -> str:
    return grade(gold, completion.answer).value
