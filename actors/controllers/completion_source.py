"""*CompletionSource*: answers requests of chains from what is recorded, else by the engines.

A completion of the engines is scored where the request asks for it, and journaled. A
`CompletionGate` keeps the controller under the caps of its run: no completion starts without room
for it. The run monitor says what may be spent (`pipeline.planning.run_caps`).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import NamedTuple

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
from actors.routing.calls import GENERATOR, VERIFIER, A, Call, EnginePool, GenerateCall, ScoreCall
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Completion, Failure, Observation, Request
from pipeline.core.text import encodable
from pipeline.planning.run_caps import select_under_budget
from pipeline.records.journal import Resumed, as_requested
from pipeline.records.trajectory import observation_of, row_of

_PLACE_CHARS = 2_000
"""Longest reply that is read on the event loop; a thread lets go of it every few milliseconds."""
_OFTEN = 4  # chains a completion after which they are chosen anew
_SEEN = 2  # the first to end are the shortest: fewer than this a completion in flight tell nothing


class Expected(NamedTuple):
    """What a chain that is at work is expected to take from now on."""

    rounds: int
    """Completions, >= 1."""
    tokens: float
    """Their tokens by the chain's own forecast, > 0."""
    group: str
    """Of chains alike: completions of one that has not drawn any are taken to be as long as the
    mean of its group, once enough of those have ended."""
    begun: bool
    """Whether it has drawn any."""


class CompletionGate:
    """Lets completions of chains start, by what was spent and what is left.

    Args:
        ask: called where something waits for more than is allotted.
    """

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask
        self._chains: dict[str, Expected] = {}
        self._seen: dict[str, tuple[int, int]] = {}  # tokens and completions, by group
        self._chosen: frozenset[str] | None = frozenset()
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._flying = self._news = 0
        self._closed = False
        self._allotted = self._left = 0.0
        self._expected = 0.0  # of the chains at work; at least what it was, since `_choose`
        self.spent = 0.0
        """Tokens of this controller's completions, their lost tries, and the judge."""

    @property
    def wanting(self) -> bool:
        """Whether any chain is at work."""
        return bool(self._chains)

    @property
    def to_come(self) -> float:
        """Completion tokens that the chains at work are expected to take still."""
        return sum(map(self._tokens, self._chains.values()))

    def release(self) -> float:
        """The allotment, after what is not needed of it is given back."""
        self._allotted = min(self._allotted, self.spent + (self._left if self.wanting else 0.0))
        return self._allotted

    def allot(self, allotted: float, left: float) -> None:
        """Take what may have been spent before nothing more starts, and go on with it.

        Args:
            allotted: tokens, counted from the controller's start; inf without a cap on tokens.
            left: tokens that this controller may still spend, as far as can be expected.
        """
        self._allotted, self._left = allotted, left
        self._choose()
        self._let_in()

    def register(self, chain: str, expected: Expected) -> None:
        """Note what a chain that is at work, named by its session, takes from now on."""
        new = chain not in self._chains
        self._chains[chain] = expected
        if new and self._chosen is None:
            self._expected += self._tokens(expected)
            if self._expected > self._left:
                self._choose()

    def forget(self, chain: str) -> None:
        """A chain has ended."""
        self._chains.pop(chain, None)
        self._waiting.pop(chain, None)
        self._go_on()

    async def start(self, chain: str) -> None:
        """Wait until a completion of a chain may start; `ended` must follow.

        Raises:
            asyncio.CancelledError: where the run drains first.
        """
        if self._closed:
            raise asyncio.CancelledError
        if self._may(chain):
            self._flying += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(chain, []).append(turn)
        self._go_on()
        if self.spent >= self._allotted:
            self._ask()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was let in, and will not use it
                self.ended(chain, 0)
            raise

    async def opened(self, chain: str) -> None:
        """Wait until a completion of a chain may start; none does yet.

        Raises:
            asyncio.CancelledError: where the run drains first.
        """
        await self.start(chain)
        self._flying -= 1

    def may_start(self, chain: str) -> bool:
        """Whether `start` would let a completion of a chain in at once."""
        return not self._closed and self._may(chain)

    def ended(self, chain: str, tokens: int) -> None:
        """A completion of a chain has ended that was let in, and has cost so much."""
        self._flying -= 1
        self.spent += tokens
        self._left = max(0.0, self._left - tokens)
        group = self._chains[chain].group if chain in self._chains else ""
        made, number = self._seen.get(group, (0, 0))
        self._seen[group] = (made + tokens, number + bool(tokens))
        self._news += 1
        if _OFTEN * self._news >= len(self._chains):  # more is known of lengths
            self._choose()
            self._let_in()
        self._go_on()

    def close(self) -> None:
        """Let nothing in any more; who waits is cancelled."""
        self._closed = True
        for turns in self._waiting.values():
            for turn in turns:
                turn.cancel()
        self._waiting = {}

    def guarding(self, pool: EnginePool) -> EnginePool:
        """A pool whose calls pass this gate, by their session."""
        return _Guarded(pool, self)

    def _may(self, chain: str) -> bool:
        return self.spent < self._allotted and (self._chosen is None or chain in self._chosen)

    def _go_on(self) -> None:
        """Where every chain waits, let those go on that are nearest to their end."""
        if not self._waiting or self._flying or len(self._chains) > len(self._waiting):
            return
        if self.spent < self._allotted:
            self._choose()
            self._let_in()
        if not self._flying:
            self._ask()

    def _choose(self) -> None:
        """Who goes on from now on; all do while what they take is left."""
        self._expected, self._news = self.to_come, 0
        if self._expected <= self._left:
            self._chosen = None
            return
        chains = {name: self._tokens(chain) for name, chain in self._chains.items()}
        self._chosen = select_under_budget(chains, self._left)

    def _tokens(self, chain: Expected) -> float:
        """Tokens that a chain still needs, by what is known of the length of completions now."""
        made, number = self._seen.get(chain.group, (0, 0))
        if chain.begun or number <= _SEEN * self._flying:
            return chain.tokens
        return chain.rounds * made / number

    def _let_in(self) -> None:
        for chain in [chain for chain in self._waiting if self._may(chain)]:
            for turn in self._waiting.pop(chain):
                if not turn.done():  # else its task was cancelled
                    self._flying += 1
                    turn.set_result(None)


class _Guarded:
    def __init__(self, pool: EnginePool, gate: CompletionGate) -> None:
        self._pool, self._gate = pool, gate

    async def call(self, call: Call[A]) -> A | Failure:
        """Serve one call once its chain may go on."""
        await self._gate.start(call.session)
        tokens = 0
        try:
            made = await self._pool.call(call)
            tokens = getattr(made, "completion_tokens", None) or 0
            if not isinstance(made, Failure):
                tokens += made.wasted_tokens
            return made
        finally:
            self._gate.ended(call.session, tokens)


class CompletionSource:
    """Answers the requests of all chains of a controller.

    Args:
        identity: run, attempt and model names for the records.
        pools: of engines, by role; without a verifier nothing is scored.
        journal: where rounds are made durable.
        counters: of the controller.
        at_once: requests at work of chains that ask for several at once; `limit` changes it.
        gate: of a run that has caps.
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
        gate: CompletionGate | None = None,
        check: Check | None = None,
    ) -> None:
        self.draining = False
        """Whether engines are asked for nothing more: what is not recorded is cancelled."""
        self._identity = identity
        self._pools = pools
        self._journal = journal
        self._counters = counters
        self._limit = Limit(at_once)
        self._gate = gate
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
        recorded = recording is not None and recording.find(request) is not None
        counters.samples_waiting += 1
        try:
            await self._take_place(None if recorded else self._gate, work.session)
        finally:
            counters.samples_waiting -= 1
        counters.samples += 1
        try:
            return await self._one(work, request, recording, priority)
        finally:
            counters.samples -= 1
            self._limit.give_back()

    async def _take_place(self, gate: CompletionGate | None, chain: str) -> None:
        """A place at work. None is held while the caps of the run spare the chain: who may go on
        would wait for it."""
        while True:
            if gate is not None:
                await gate.opened(chain)
            await self._limit.take()
            if gate is None or gate.may_start(chain):
                return
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
            if self._gate is not None:
                self._gate.spent += checked.judge_tokens
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
        """One completion from the engines, scored where asked for."""
        asked = GenerateCall(request, session=work.session, priority=priority)
        made = await self._pools[GENERATOR].call(asked)
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
