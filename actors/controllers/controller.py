"""*Controller*: the Ray Data stage that drives chains, an async actor with a coroutine a question.

Ray Data runs `Controller.__call__` for many rows at once on one event loop of the actor. A question
that fails is a row with an error; the method itself never raises for a question's sake, since that
would cost the other rows of its block.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import ray

from actors.cluster.background import GIVE_UP_S, supervised, with_retries
from actors.cluster.process_guard import ProcessGuard
from actors.cluster.run_monitor import NAMESPACE, monitor_name
from actors.controllers.chain_types import Checked, RunIdentity, Work
from actors.controllers.chains import Chains, tune_gc
from actors.controllers.completion_source import Recordings
from actors.controllers.grading import GradingPool
from actors.controllers.journal_writer import JournalError, JournalWriter, no_memory
from actors.engines.chat_wire import unforged
from actors.engines.hosts import clients_of
from actors.routing.calls import JUDGE, EnginePool, GenerateCall
from actors.routing.transport import EnginesAddress
from pipeline.answers.graders import GraderSettings, verdict_of
from pipeline.answers.verdict import Verdict
from pipeline.config.models import JudgeModel
from pipeline.config.strategies import headlines_of, own_rules_of, rules_of, strategies_of
from pipeline.core.protocol import Completion, Failure, PhaseStats
from pipeline.core.thinking import after_thinking
from pipeline.planning.phase_work import Forecast
from pipeline.records.journal import QuestionKey, Resumed
from pipeline.records.question_blocks import RecordedWork
from pipeline.records.questions import question_of
from pipeline.records.run_dir import RunDir
from pipeline.records.segments import Epoch

logger = logging.getLogger(__name__)

_HANGS_LEAST_S = 30.0
_REPORT_EVERY_S = 1.0


class Controller:
    """Drives the questions of one phase of one attempt of a run.

    Args:
        address: the run directory.
        attempt: number of the attempt.
        phase: number of the phase.
        token: of the attempt.
        engines: where the engine pools are (`actors.engines.launch`).
    """

    def __init__(
        self, address: str, attempt: int, phase: int, token: str, engines: EnginesAddress
    ) -> None:
        self._run = with_retries(lambda: RunDir.open(address), "open the run directory")
        entry = with_retries(lambda: self._run.attempt(attempt), "read the attempt")
        self._config = entry.config
        self._phase, self._engines = phase, engines
        self._strategies = strategies_of(self._config.science)
        for rule in own_rules_of(self._config.science):
            rule.code()  # that it is not here is found before anything is drawn
        self._watch = ray.get_actor(monitor_name(self._run.run_id), namespace=NAMESPACE)
        slot = ray.get_runtime_context().get_actor_id()[:12]  # the same for every life of the actor
        life = ray.get(self._watch.register_writer.remote(slot))
        self._share: int | None = ray.get(self._watch.share.remote(slot))
        self._epoch = Epoch(attempt, token, phase, slot, life)
        self._recorded = with_retries(
            lambda: RecordedWork(self._run, self._epoch, retry_before=entry.retry_before),
            "read what is recorded",
        )
        self._met: set[QuestionKey] = set()
        self._known = with_retries(self._statistics, "read statistics")
        self._chains: Chains | None = None

    async def __call__(self, row: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Take one work row to its outcome row; none where the run drains before that."""
        chains = self._chains or self._start()
        try:
            outcome = await chains.run(self._work(row))
        except (JournalError, MemoryError) as error:
            logger.error("stopping: %r", error)
            self._fail(error)
            await self._send_report()  # the driver ends the run
            return
        if outcome is not None:
            yield outcome
        if chains.idle:
            await self._send_report()  # the actor may be gone before the next second

    def _start(self) -> Chains:
        """What needs the event loop; runs at the first row, before anything awaits."""
        tune_gc()
        runtime, science = self._config.runtime, self._config.science
        usual = max(1, self._engines.in_flight // runtime.controllers.actors)
        in_flight = self._share or usual
        self._journal = JournalWriter(
            self._run.journal,
            flush_s=runtime.journal_flush_s,
            # Ray Data counts chains that wait for the journal among those it has handed over, and
            # it hands over twice as many as work: short chains would starve the engines
            most_waiting=max(1, in_flight // 2),
            give_up_s=GIVE_UP_S,
            epoch=self._epoch,
            base=self._recorded.base,
            run=self._run.run_id,
        )
        self._journal.on_failure = self._fail
        self._grading = GradingPool(workers=runtime.grading_workers)
        self._graders = {source.name: source.graded_by for source in science.benchmarks}
        models = {role: model.model for role, model in science.models.items()}
        pools = clients_of(self._engines, runtime.requests)
        headline = headlines_of(science, self._phase)
        self._fatal: str | None = None
        self._lag_ms = 0.0
        self._reports = 0
        self._chains = Chains(
            identity=RunIdentity(
                run=self._run.run_id,
                attempt=self._epoch.attempt,
                models=models,
                stop_flag=science.generator.stop_flag,
            ),
            pools=pools,
            journal=self._journal,
            grade=self._grade,
            recording_of=Recordings(self._recording).of,
            in_flight=in_flight,
            rules=rules_of(science),
            headline=headline,
            check=Checker(pools, science.judge, self._grading),
        )
        self._tasks = [
            supervised(self._report, "the report of a controller"),
            supervised(self._drain_on_request, "the drain of a controller"),
        ]
        hangs_s = max(_HANGS_LEAST_S, runtime.generator.health_timeout_s)
        guard = ProcessGuard(hangs_s)  # Ray starts another controller
        self._tasks.append(supervised(guard.beat_for_ever, "the heartbeat of a controller"))
        return self._chains

    def _work(self, row: dict[str, Any]) -> Work:
        label, benchmark = row["strategy"], row["benchmark"]
        phases = self._strategies[label].phases()
        phase = phases[self._phase]
        known = self._known[label]
        return Work(
            label=label,
            phase=phase.name,
            strategy=phase.strategy,
            question=question_of(row),
            gold=row["gold"],
            grader=self._graders[benchmark],
            level=row["level"],
            statistics=known.get(benchmark),
            forecast=Forecast(
                completions=row["expected_completions"],
                tokens_each=row["expected_tokens"] / row["expected_completions"],
            ),
        )

    def _statistics(self) -> dict[str, dict[str, PhaseStats | None]]:
        """What is known before this phase, by label and benchmark."""
        known = {}
        for label, strategy in self._strategies.items():
            phases = strategy.phases()
            if self._phase < len(phases):
                before = phases[self._phase - 1].name if self._phase else "prepared"
                known[label] = self._run.statistics(label, before) or {}
        return known

    def _recording(self, work: Work) -> Resumed | None:
        """What is recorded of a question; in the thread that reads."""
        again = work.key in self._met  # Ray lost the answer of a task, and runs it once more
        self._met.add(work.key)
        find = self._recorded.again if again else self._recorded.of
        return with_retries(lambda: find(work.key), "read what is recorded")

    async def _grade(self, gold: str, completion: Completion, grader: GraderSettings) -> str:
        how = self._config.science.grader
        if how == "paper" and grader.kind == "math":
            return await self._grading.grade_reply(gold, completion.text, how)
        return await self._grading.grade(gold, completion.answer, how, grader)

    def _fail(self, error: JournalError | MemoryError) -> None:
        self._fatal = no_memory() if isinstance(error, MemoryError) else str(error)
        if self._chains is not None:
            self._chains.drain()

    async def _report(self) -> None:
        """Tell the watch every second how it goes."""
        assert self._chains is not None
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(_REPORT_EVERY_S)
            self._lag_ms = max(0.0, loop.time() - before - _REPORT_EVERY_S) * 1_000
            await self._send_report()

    async def _until_drain(self, heard: int) -> float:
        """As `RunMonitor.until_drain`; a connection that breaks meanwhile is made anew."""
        while True:
            with contextlib.suppress(ray.exceptions.ActorUnavailableError):
                grace_s: float = await self._watch.until_drain.remote(heard)
                return grace_s
            await asyncio.sleep(_REPORT_EVERY_S)

    async def _cut_on_request(self) -> None:
        """Drain sooner where the run is to stop while it drains."""
        assert self._chains is not None
        with contextlib.suppress(ray.exceptions.RayActorError):
            await asyncio.sleep(await self._until_drain(1))
            self._chains.drain()

    async def _drain_on_request(self) -> None:
        assert self._chains is not None
        try:
            grace_s = await self._until_drain(0)
            self._tasks.append(supervised(self._cut_on_request, "the cut of a controller"))
            await self._chains.wind_down(grace_s)
        except ray.exceptions.RayActorError:  # the driver is gone: nobody will take the outcomes
            logger.warning("the run's driver is gone, keeping what is finished")
            self._chains.drain()
        try:
            await self._journal.close()
        except JournalError as error:
            self._fail(error)
        await self._send_report()

    async def _send_report(self) -> None:
        """Report the counters, and take how many chains may be at work."""
        assert self._chains is not None
        own = {"loop_lag_ms": self._lag_ms, "trouble": self._journal.trouble}
        counters = {**self._chains.counters.as_dict(), **own}
        self._reports += 1
        number = self._reports
        with contextlib.suppress(ray.exceptions.RayActorError):
            share = await self._watch.report.remote(self._epoch.name, counters, self._fatal, number)
            if share is not None and number == self._reports:  # else a newer answer is on its way
                self._chains.limit(share)


_REMEMBERED = 8_192
_FIELD = re.compile(r"\{(question|gold|answer)\}")
_REMARK_CHARS = 2_000


class Checker:
    """Checks the answers of one controller while their chains go on: verdicts of a judge, feedback.

    Both are journaled with the completion, so that a resume and every replay read them there. The
    verdict is for the record alone; no strategy is shown it. Feedback is made without the gold
    answer.

    Args:
        pools: of engines, by role; a judge among them where a benchmark is graded by one.
        model: of the judge; None where there is none.
        grading: runs the commands that give feedback.
    """

    def __init__(
        self, pools: Mapping[str, EnginePool], model: JudgeModel | None, grading: GradingPool
    ) -> None:
        pool = pools.get(JUDGE)
        self._judge = None if pool is None or model is None else (pool, model)
        self._grading = grading
        self._known: dict[str, str] = {}
        """Replies of the judge, by its prompt."""

    async def __call__(self, work: Work, completion: Completion, *, feedback: bool) -> Checked:
        """What there is to say of an answer. Never raises for the judge's sake: without its reply
        the verdict is UNGRADED, and there is no remark."""
        answer = completion.answer
        verdict, remark, tokens = None, None, 0
        if work.grader.kind == "judge" and work.gold is not None:
            verdict, tokens = await self._verdict(work, work.gold, answer)
        if feedback and answer is not None:
            remark, more = await self._feedback(work, answer)
            tokens += more
        return Checked(verdict, remark, tokens)

    async def _verdict(self, work: Work, gold: str, answer: str | None) -> tuple[Verdict, int]:
        settled = work.grader.settled(gold, answer)
        if settled is not None or answer is None:
            return settled or Verdict.WRONG, 0
        if self._judge is None:
            return Verdict.UNGRADED, 0
        pool, model = self._judge
        reply, tokens = await self._ask(pool, model, work, model.prompt, gold=gold, answer=answer)
        return verdict_of(reply), tokens

    async def _feedback(self, work: Work, answer: str) -> tuple[str | None, int]:
        if work.grader.check or work.grader.runs_public_tests:
            request = self._grading.feedback(work.grader, work.question.text, answer)
            return await asyncio.wrap_future(request), 0
        if work.grader.kind != "judge" or self._judge is None:
            return None, 0
        pool, model = self._judge
        reply, tokens = await self._ask(pool, model, work, model.remark, answer=answer)
        return after_thinking(reply).strip()[:_REMARK_CHARS] or None, tokens

    async def _ask(
        self, pool: EnginePool, model: JudgeModel, work: Work, template: str, **fields: str
    ) -> tuple[str, int]:
        """The judge's reply and its tokens; one that is known costs nothing."""
        values = {"question": work.question.whole, **fields}
        prompt = _FIELD.sub(lambda field: unforged(values.get(field[1], field[0])), template)
        if prompt in self._known:
            return self._known[prompt], 0
        call = GenerateCall(model.request(prompt), session=work.session)
        made = await pool.call(call)
        if isinstance(made, Failure):
            logger.warning("the judge gave no reply: %s", made.error)
            return "", made.completion_tokens or 0
        while len(self._known) >= _REMEMBERED:
            self._known.pop(next(iter(self._known)))
        self._known[prompt] = made.text
        return made.text, made.prompt_tokens + made.completion_tokens
