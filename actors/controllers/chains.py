"""*Chains*: drives questions through a strategy, one coroutine each, thousands on one event loop.

Ray-free: engines, journal, recordings and grading are given. `actors.controllers.controller` hosts
it in Ray Data; benchmarks and tests run it in process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable

from actors.cluster.concurrency_limit import Limit
from actors.controllers.chain_types import (
    Check,
    Counters,
    Ended,
    Grade,
    Journal,
    Lost,
    RunIdentity,
    Work,
)
from actors.controllers.completion_source import CompletionSource
from actors.controllers.journal_writer import JournalError
from actors.routing.calls import EnginePool
from pipeline.answers.answer_rules import RULES, AnswerRule, Rule
from pipeline.core.protocol import Failure, Observation, Stop, StopReason, decisions
from pipeline.planning.admission import held_tokens
from pipeline.records.journal import QuestionKey, Resumed
from pipeline.records.outcome import counted_verdict, outcome_of
from pipeline.records.trajectory import Row

logger = logging.getLogger(__name__)


def tune_gc() -> None:
    """Make full garbage collections rare in a process that holds thousands of live chains.

    Chains are not garbage, yet each full collection walks all of them: with 10,000 in flight the
    event loop stood still for up to 3.7 s (`benchmarks.control_plane`).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 1_000)


class Chains:
    """The chains of one controller.

    Args:
        identity: run, attempt and model names for the records.
        pools, journal: as `actors.controllers.completion_source.CompletionSource` takes them.
        grade: judges completions once their chain has stopped, off the critical path.
        recording_of: what is recorded of a question already (resume, earlier phases).
        in_flight: chains that work at once, and apart from that requests of chains that ask for
            several at once; `limit` changes it.
        rules: answer rules that outcomes are read by.
        headline: the one whose verdict is counted for progress, by label; strategies that are not
            named have no answer in this phase. None counts `last` of all.
        ended: called with each chain that stops, before its rounds are durable.
        check: checks answers when they are drawn.
    """

    def __init__(
        self,
        *,
        identity: RunIdentity,
        pools: Mapping[str, EnginePool],
        journal: Journal,
        grade: Grade,
        recording_of: Callable[[Work], Resumed | Awaitable[Resumed | None] | None],
        in_flight: int,
        rules: Sequence[Rule] = RULES,
        headline: Mapping[str, Rule] | None = None,
        ended: Callable[[Work, Ended], None] | None = None,
        check: Check | None = None,
    ) -> None:
        self.counters = Counters()
        self._identity = identity
        self._journal = journal
        self._grade = grade
        self._recording_of = recording_of
        self._admission = Limit(in_flight)
        self._samples = CompletionSource(
            identity=identity,
            pools=pools,
            journal=journal,
            counters=self.counters,
            at_once=in_flight,
            check=check,
        )
        self._rules = rules
        self._headline = headline
        self._ended = ended
        self._live: set[asyncio.Task[Ended]] = set()
        self._running: dict[QuestionKey, asyncio.Future[Row | None]] = {}

    @property
    def idle(self) -> bool:
        """Whether no chain is at work or waits for admission."""
        return self.counters.in_flight == 0 and self.counters.waiting == 0

    def limit(self, in_flight: int) -> None:
        """Let so many chains work at once from now on; none that works already is stopped."""
        self._admission.move(in_flight)
        self._samples.limit(in_flight)

    async def run(self, work: Work) -> Row | None:
        """Take a question to its stop; None where the run drains before that.

        Never raises for a question's sake: what goes wrong is an outcome with an error. A question
        that is given twice (Ray runs a task again where it lost the answer) is run once.

        Raises:
            JournalError: where rounds cannot be made durable any more, or cannot be read again.
            MemoryError: where this process has no memory left.
        """
        running = self._running.get(work.key)
        if running is not None:
            return await asyncio.shield(running)
        self._running[work.key] = asyncio.get_running_loop().create_future()
        try:
            row = await self._run(work)
        except (JournalError, MemoryError) as error:
            future = self._running.pop(work.key)
            future.set_exception(error)
            future.exception()  # seen, whether or not anyone else waits for it
            raise
        except BaseException:
            self._running.pop(work.key).cancel()
            raise
        self._running.pop(work.key).set_result(row)
        return row

    async def _run(self, work: Work) -> Row | None:
        self.counters.waiting += 1
        try:
            # Ray Data hands over more than may work, and not quite in the order of the work list
            await self._admission.take(work.urgency)
        finally:
            self.counters.waiting -= 1
        try:
            ended = await self._run_admitted(work)
        finally:
            self._admission.give_back()
        if ended is None:
            return None
        self.counters.held_s += ended.seconds
        self.counters.held_token_s += ended.held_tokens * ended.seconds
        if self._ended is not None:
            self._ended(work, ended)
        await self._journal.durable()
        row = await self._outcome(work, ended)
        self._count_outcome(work, row)
        return row

    async def _run_admitted(self, work: Work) -> Ended | None:
        """An admitted chain to its end; None where the run drains before that."""
        if self._samples.draining:
            return None
        task = asyncio.get_running_loop().create_task(self._chain(work))
        self._live.add(task)
        self.counters.in_flight += 1
        try:
            return await task
        except asyncio.CancelledError:
            if self._samples.draining:
                with suppress(JournalError):  # the writer reports it
                    await self._journal.durable()  # Ray may end this process once all have returned
                return None
            task.cancel()
            raise
        finally:
            self.counters.in_flight -= 1
            self._live.discard(task)

    async def wind_down(self, grace_s: float) -> None:
        """Ask engines for nothing more, wait for what they are at, and drain what is left then."""
        self._samples.draining = True
        if self._live:
            await asyncio.wait(self._live, timeout=grace_s)
        self.drain()

    def drain(self) -> None:
        """Stop asking engines: every chain ends where it is and can be resumed."""
        self._samples.draining = True
        for task in self._live:
            task.cancel()

    async def _chain(self, work: Work) -> Ended:
        started = time.monotonic()
        drawn: list[Observation] = []
        judged: list[str | None] = []
        lost, held, error = Lost(), 0, None
        found = self._recording_of(work)  # that it cannot be read is no failure of the question
        recording = await found if isawaitable(found) else found
        try:
            if recording is not None:
                lost += Lost(recording.retried_tokens, recording.retried_unknown)
            steps = decisions(work.strategy, work.question, work.statistics)
            requests = next(steps)
            while True:
                priority = 0.0 if work.forecast is None else -work.forecast.remaining(drawn)
                served = await self._samples.of(work, requests, recording, priority)
                observations = [each.observation for each in served]
                lost = sum((each.lost for each in served), lost)
                drawn += observations
                judged += [each.verdict for each in served]
                held = max(held, held_tokens(observations))
                requests = steps.send(observations)
        except StopIteration as end:
            stop: Stop = end.value
        except MemoryError:
            raise  # the process is at fault, not the question
        except Exception as broken:  # one question's fault must not cost another question anything
            logger.exception("chain %s broke", work.session)
            stop = Stop(reason=StopReason.FAILED, rounds=())
            error = f"{type(broken).__name__}: {broken}"
        return Ended(
            stop=stop,
            observations=tuple(drawn),
            judged=tuple(judged),
            lost=lost,
            seconds=time.monotonic() - started,
            held_tokens=held,
            error=error,
        )

    async def _outcome(self, work: Work, ended: Ended) -> Row:
        epoch, sequence = self._journal.reached
        drawn = zip(ended.observations, ended.judged, strict=True)
        verdicts = [await self._verdict(work, o, judged) for o, judged in drawn]
        return outcome_of(
            run=self._identity.run,
            attempt=self._identity.attempt,
            strategy=work.label,
            phase=work.phase,
            benchmark=work.question.benchmark,
            question_id=work.question.question_id,
            level=work.level,
            stop=ended.stop,
            observations=ended.observations,
            verdicts=verdicts,
            wasted_tokens=ended.lost.tokens,
            unknown_tries=ended.lost.unknown,
            seconds=ended.seconds,
            error=ended.error,
            epoch=epoch,
            sequence=sequence,
            rules=self._rules,
        )

    async def _verdict(
        self, work: Work, observation: Observation, judged: str | None
    ) -> str | None:
        """None for a failed request and for a question without gold."""
        if work.gold is None or isinstance(observation, Failure):
            return None
        if judged is not None:
            return judged
        return await self._grade(work.gold, observation, work.grader)

    def _count_outcome(self, work: Work, row: Row) -> None:
        self.counters.stops[row["stop_reason"]] += 1
        headline = self._headline
        rule = AnswerRule.LAST if headline is None else headline.get(work.label)
        if rule is not None:
            self.counters.verdicts[f"{work.label}/{counted_verdict(row, rule) or 'none'}"] += 1
