"""*CompletionSource*: answers requests of chains from what is recorded, else by the engines.

A completion of the engines is scored where the request asks for it, and journaled.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

from actors.cluster.concurrency_limit import Limit
from actors.controllers.chain_types import (
    Check,
    Checked,
    Counters,
    Journal,
    Lost,
    RunIdentity,
    Served,
    Work,
)
from actors.controllers.journal_writer import JournalError
from actors.routing.calls import GENERATOR, VERIFIER, EnginePool, GenerateCall, ScoreCall
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Completion, Failure, Observation, Request
from pipeline.core.text import encodable
from pipeline.records.journal import Resumed, as_requested
from pipeline.records.trajectory import observation_of, row_of

_PLACE_CHARS = 2_000
"""Longest reply that is read on the event loop; a thread lets go of it every few milliseconds."""


class CompletionSource:
    """Answers the requests of all chains of a controller.

    Args:
        identity: run, attempt and model names for the records.
        pools: of engines, by role; without a verifier nothing is scored.
        journal: where rounds are made durable.
        counters: of the controller.
        at_once: requests at work of chains that ask for several at once; `limit` changes it.
        check: checks answers when they are drawn; None leaves them unchecked.
    """

    def __init__(
        self,
        *,
        identity: RunIdentity,
        pools: Mapping[str, EnginePool],
        journal: Journal,
        counters: Counters,
        at_once: int,
        check: Check | None = None,
    ) -> None:
        self.draining = False
        """Whether engines get no more requests: what is not recorded is cancelled."""
        self._identity = identity
        self._pools = pools
        self._journal = journal
        self._counters = counters
        self._limit = Limit(at_once)
        self._check = check

    def limit(self, at_once: int) -> None:
        """Let so many requests work at once from now on; none that works already is stopped."""
        self._limit.move(at_once)

    async def of(
        self, work: Work, requests: Sequence[Request], recording: Resumed | None, priority: float
    ) -> list[Served]:
        """What became of each request, in their order, in whatever order they come."""
        if len(requests) == 1:  # a sequential chain: no task of its own for each round
            return [await self._one(work, requests[0], recording, priority)]
        loop = asyncio.get_running_loop()
        samples = [
            loop.create_task(self._sample(work, request, recording, priority))
            for request in requests
        ]
        try:
            # where the run drains, those that wait are cancelled, and those in flight may finish
            await asyncio.wait(samples, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for sample in samples:
                sample.cancel()
            await asyncio.wait(samples)  # until each is aborted in its engine
        broken = [s.exception() for s in samples if not s.cancelled()]
        if found := next(filter(None, broken), None):
            raise found
        return [sample.result() for sample in samples]

    async def _sample(
        self, work: Work, request: Request, recording: Resumed | None, priority: float
    ) -> Served:
        """One of several requests at once. They wait here and not in an engine's queue, where their
        deadline runs and where they would stand before the next rounds of sequential chains."""
        counters = self._counters
        counters.samples_waiting += 1
        try:
            await self._limit.take()
        finally:
            counters.samples_waiting -= 1
        counters.samples += 1
        try:
            return await self._one(work, request, recording, priority)
        finally:
            counters.samples -= 1
            self._limit.give_back()

    async def _one(
        self, work: Work, request: Request, recording: Resumed | None, priority: float
    ) -> Served:
        found = recording.find(request) if recording is not None else None
        if found is not None:
            self._counters.recorded += 1
            cost = Lost(found["wasted_tokens"] or 0, found["unknown_tries"] or 0)
            return Served(as_requested(observation_of(found), request), cost, found["verdict"])
        if self.draining:
            raise asyncio.CancelledError
        started = time.monotonic()
        observation, lost = await self._draw(work, request, priority)
        checked = Checked()
        if self._check is not None and isinstance(observation, Completion):
            checked = await self._check(work, observation, feedback=request.check)
            observation = replace(
                observation, judge_tokens=checked.judge_tokens, feedback=checked.feedback
            )
        self._journal.append(
            row_of(
                run=self._identity.run,
                attempt=self._identity.attempt,
                strategy=work.label,
                question=work.question,
                request=request,
                observation=observation,
                wasted_tokens=lost.tokens,
                unknown_tries=lost.unknown,
                generator=self._identity.models.get(GENERATOR),
                verifier=self._identity.models.get(VERIFIER) if request.score else None,
                seconds=time.monotonic() - started,
                verdict=checked.verdict,
            )
        )
        self._count_round(observation, lost.tokens)
        return Served(observation, lost, checked.verdict)

    async def _draw(
        self, work: Work, request: Request, priority: float
    ) -> tuple[Observation, Lost]:
        """One completion from the engines, scored if requested."""
        call = GenerateCall(request, session=work.session, priority=priority)
        made = await self._pools[GENERATOR].call(call)
        if isinstance(made, Failure):
            return made, Lost()
        lost = Lost(made.wasted_tokens, made.unknown_attempts)
        # one reply must not spoil the file of a thousand others; no engine takes NUL in a prompt
        text = encodable(made.text).replace("\0", "?")
        flag = self._identity.stop_flag
        cut = made.finish_reason == "length"
        if len(text) <= _PLACE_CHARS:
            answer = _answer_of(work, text, cut=cut)
        else:
            answer = await asyncio.to_thread(_answer_of, work, text, cut=cut)
        completion = Completion(
            text=text,
            answer=answer,
            finish_reason=made.finish_reason,
            prompt_tokens=made.prompt_tokens,
            cached_prompt_tokens=made.cached_prompt_tokens,
            completion_tokens=made.completion_tokens,
            thinking_tokens=made.thinking_tokens,
            says_stop=None if flag is None else re.search(flag, text) is not None,
            **({} if made.confidence is None else asdict(made.confidence)),
        )
        verifier = self._pools.get(VERIFIER)
        if not request.score or verifier is None:
            return completion, lost
        scored = await verifier.call(ScoreCall(work.question.whole, text, session=work.session))
        if isinstance(scored, Failure):
            return Failure.of(ErrorKind.VERIFIER, scored.error, made.completion_tokens), lost
        scored_completion = replace(
            completion,
            verifier_tokens=scored.tokens,
            step_scores=scored.step_scores,
            score=scored.score,
            prm_truncated=scored.truncated,
        )
        return scored_completion, lost

    def _count_round(self, observation: Observation, wasted: int) -> None:
        counters = self._counters
        counters.rounds += 1
        counters.wasted_tokens += wasted
        counters.completion_tokens += observation.completion_tokens or 0
        match observation:
            case Completion():
                counters.verifier_tokens += observation.verifier_tokens
                counters.judge_tokens += observation.judge_tokens
            case Failure():
                counters.last_error = observation.error


def _answer_of(work: Work, text: str, *, cut: bool) -> str | None:
    """The answer of a completion, by the form of its question's replies or else by its grader."""
    form = work.question.form
    answer = None if form is None else form.answer_of(text)
    if answer is not None or (form is not None and form.wants_json):
        return answer
    return work.grader.answer_of(text, work.question.text, cut=cut)


class Recordings:
    """Recordings of questions, read in a thread of their own.

    Args:
        find: what is recorded of a question; it reads files.
    """

    def __init__(self, find: Callable[[Work], Resumed | None]) -> None:
        self._find = find
        self._thread = ThreadPoolExecutor(1, "recordings")

    async def of(self, work: Work) -> Resumed | None:
        """What is recorded of a question; None where nothing is.

        Raises:
            JournalError: where it cannot be read, which is no failure of the question.
        """
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._find, work)
        except MemoryError:
            raise
        except Exception as error:
            raise JournalError(
                f"what is recorded of {work.session} must be readable, got {error}"
            ) from error
