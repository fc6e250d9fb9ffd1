"""Keeps a controller under the caps of its run: no completion starts without room for it.

Ray-free. The run monitor says what the controller may spend (`pipeline.planning.run_caps`); as a
cap nears, the chains that go on are those of `pipeline.planning.run_caps`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from actors.routing.calls import A, Call, EnginePool
from pipeline.core.protocol import Failure
from pipeline.planning.run_caps import ExpectedGain, select_under_budget

_OFTEN = 4  # chains a completion after which they are chosen anew
_SEEN = 2  # the first to end are the shortest: fewer than this a completion in flight tell nothing


class _AtWork(NamedTuple):
    prospect: ExpectedGain
    group: str
    begun: bool


class CompletionGate:
    """Lets completions of chains start, by what was spent and what is left.

    Args:
        ask: called where something waits for more than is allotted.
    """

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask
        self._chains: dict[str, _AtWork] = {}
        self._seen: dict[str, tuple[int, int]] = {}  # tokens and completions, by group
        self._chosen: frozenset[str] | None = frozenset()
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._flying = self._news = 0
        self._closed = False
        self._allotted = self._left = 0.0
        self._expected = 0.0  # of the chains at work; at least what it was, since `_choose`
        self.spent = 0.0
        """Completion tokens of this controller, those of lost tries among them."""

    @property
    def wanting(self) -> bool:
        """Whether any chain is at work."""
        return bool(self._chains)

    @property
    def to_come(self) -> float:
        """Completion tokens that the chains at work are expected to take still."""
        return sum(self._known(chain).tokens for chain in self._chains.values())

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

    def register(self, chain: str, prospect: ExpectedGain, group: str, *, begun: bool) -> None:
        """Note what a chain that is at work brings and takes from now on.

        Args:
            chain: its session.
            prospect: by its own forecast.
            group: of chains alike; completions of one that has not drawn any are taken to be as
                long as the mean of its group, once enough of those have ended.
            begun: whether it has drawn any.
        """
        new, at_work = chain not in self._chains, _AtWork(prospect, group, begun)
        self._chains[chain] = at_work
        if new and self._chosen is None:
            self._expected += self._known(at_work).tokens
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
        """Where every chain waits, let the best go on."""
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
        chains = {name: self._known(chain) for name, chain in self._chains.items()}
        self._chosen = select_under_budget(chains, self._left)

    def _known(self, chain: _AtWork) -> ExpectedGain:
        """By what is known of the length of completions now."""
        made, number = self._seen.get(chain.group, (0, 0))
        if chain.begun or number <= _SEEN * self._flying:
            return chain.prospect
        return replace(chain.prospect, each=made / number)

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
