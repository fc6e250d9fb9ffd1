"""*EngineClient*: calls a pool of engines, with deadlines, retries and the cost of failed tries.

`actors.routing.transport` says how a call reaches a replica. Every try of a request has the same
seed. A request that cannot succeed anywhere is not tried again; everything else is, at another
replica where there is one.

A request may be what kills its replica, and each death ends innocent requests too. After two deaths
a request is therefore tried apart from the client's other suspects, and after a third one with
nothing beside it in its replica. Only a death there counts as a failed try.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, replace

from actors.routing.bundles import fresh_id
from actors.routing.calls import ROLES, A, Call
from actors.routing.transport import NoReplicaError, Placed, ReplicaLostError, Transport
from pipeline.config.runtime import RequestConfig
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Failure
from pipeline.core.text import one_line

logger = logging.getLogger(__name__)

_POLL_MOST_S = 10.0
_MOST_DOUBLED = 6  # pauses between tries do not grow beyond 64 times the first
_DEATHS_TOGETHER = 2
_DEATHS_BESIDE_OTHERS = 3


@dataclass
class TryAccount:
    """What the tries of one request came to."""

    attempts: int = 0
    deaths: int = 0
    tokens: int = 0
    """Completion tokens of tries that failed, as far as known."""
    unknown: int = 0
    """Tries that failed without anyone knowing their tokens."""

    def failed(self, tokens: int | None) -> None:
        """Add a failed try."""
        if tokens is None:
            self.unknown += 1
        else:
            self.tokens += tokens

    def failure(self, error: str) -> Failure:
        """The request's end; its tokens are None where those of any try are unknown."""
        tokens = None if self.unknown else self.tokens
        return Failure(error=error, completion_tokens=tokens)


class EngineClient:
    """One pool of engines behind one call: an `EnginePool`."""

    def __init__(self, transport: Transport, settings: RequestConfig, role: str) -> None:
        self._transport = transport
        self._settings = settings
        self._role = role
        self._deadline_s = ROLES[role].deadline_s(settings)
        self._can_isolate = transport.isolates and settings.attempts > 1
        self._quarantine = asyncio.Lock()
        self._served_at = -1.0

    async def call(self, call: Call[A]) -> A | Failure:
        """Try until it succeeds, cannot, or was tried often enough; see `EnginePool.call`."""
        if not isinstance(call, ROLES[self._role].call):
            raise TypeError(f"a {self._role} serves another call, got {type(call).__name__}")
        account = TryAccount()
        avoid: set[str] = set()
        turned_away: float | None = None
        while True:
            account.attempts += 1
            outcome = await self._try_apart(account, call, avoid)
            if isinstance(outcome, Failure) and outcome.kind is ErrorKind.NOT_TAKEN:
                # the transport waits before it places the call again
                turned_away = turned_away or time.monotonic()
                # while others are served, this one waits for its turn
                since = max(turned_away, self._served_at)
                if time.monotonic() - since < self._settings.no_replica_timeout_s:
                    account.attempts -= 1
                    continue
            else:
                turned_away = None
            if not isinstance(outcome, Failure):
                self._served_at = time.monotonic()
                if account.attempts == 1:
                    return outcome
                return replace(
                    outcome,
                    wasted_tokens=account.tokens,
                    unknown_attempts=account.unknown,
                    attempts=account.attempts,
                )
            outcome = replace(outcome, error=one_line(outcome.error))  # for logs and files
            account.failed(outcome.completion_tokens)
            final = outcome.kind is not None and outcome.kind.final
            if final or self._is_last(account, outcome):
                tries = f" (try {account.attempts})" if account.attempts > 1 else ""
                return account.failure(outcome.error + tries)
            logger.warning(
                "try %d of a %s call of %s failed: %s",
                account.attempts,
                self._role,
                call.session,
                outcome.error,
            )
            doubled = min(account.attempts - 1, _MOST_DOUBLED)
            await asyncio.sleep(self._settings.backoff_s * 2**doubled)

    def _is_last(self, account: TryAccount, outcome: Failure) -> bool:
        if not self._can_isolate:
            return account.attempts >= self._settings.attempts
        if outcome.kind is ErrorKind.REPLICA_LOST:
            return account.deaths > _DEATHS_BESIDE_OTHERS
        return account.attempts - account.deaths >= self._settings.attempts

    async def _try_apart(self, account: TryAccount, call: Call[A], avoid: set[str]) -> A | Failure:
        """Try once, one suspect at a time; the last try is alone in its replica."""
        if account.deaths < _DEATHS_TOGETHER:
            return await self._try(account, call, avoid)
        isolated = self._can_isolate and account.deaths >= _DEATHS_BESIDE_OTHERS
        async with self._quarantine:
            return await self._try(account, replace(call, alone=isolated), avoid)

    async def _try(self, account: TryAccount, call: Call[A], avoid: set[str]) -> A | Failure:
        deadline_s = self._deadline_s
        call = replace(call, request_id=fresh_id(self._role), deadline_s=deadline_s)
        try:
            placed = await self._place(call, avoid)
        except NoReplicaError as error:
            return Failure.of(ErrorKind.NO_REPLICA, error, completion_tokens=0)
        try:
            # the engine keeps the deadline itself; this is for one that no longer answers. A call
            # that is alone waits for others in the replica, which have the same deadline
            limit_s = deadline_s + grace_s(deadline_s) + call.alone * deadline_s
            async with asyncio.timeout(limit_s):
                outcome = await placed.result()
        except TimeoutError:
            placed.abort()
            avoid.add(placed.replica)
            late = f"{placed.replica} did not answer in {deadline_s:g} s"
            return Failure.of(ErrorKind.DEADLINE, late)
        except asyncio.CancelledError:
            placed.abort()
            raise
        except ReplicaLostError as error:
            account.deaths += 1
            avoid.add(placed.replica)
            return Failure.of(ErrorKind.REPLICA_LOST, error)
        if isinstance(outcome, Failure) and outcome.kind is ErrorKind.DEADLINE:
            avoid.add(placed.replica)
        return outcome

    async def _place(self, call: Call[A], avoid: set[str]) -> Placed[A]:
        """Hand the request to a replica, waiting ever longer while none lives."""
        most_s = self._settings.no_replica_timeout_s
        wait_s = max(0.05, self._settings.backoff_s)
        absent_s = 0.0  # the time that it waits for its turn while replicas live does not count
        while True:
            try:
                return await self._transport.place(call, avoid=avoid)
            except NoReplicaError as error:
                absent_s += error.absent_s
            if absent_s >= most_s:
                raise NoReplicaError(f"no {self._role} lived for {most_s:g} s")
            wait_s = min(wait_s, most_s - absent_s)
            await asyncio.sleep(wait_s)
            absent_s += wait_s
            wait_s = min(2 * wait_s, _POLL_MOST_S)


def grace_s(deadline_s: float) -> float:
    """How much longer than its deadline an engine may take to say that it was missed."""
    return min(30.0, 1.0 + deadline_s / 2)
