"""The client of an engine pool: deadlines, retries, re-routing, and the cost of failed tries.

One client serves both hosts; how a call reaches a replica is the transport's business
(`actors.routing.transport`). Every try of a request has the same seed. A request that cannot
succeed anywhere is not tried again; everything else is, at another replica where there is one.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from actors.routing.interfaces import Generated, Scored
from actors.routing.transport import Call, NoReplicaError, ReplicaLostError, Transport
from pipeline.config.runtime import RequestConfig
from pipeline.core.protocol import Failure, Request

logger = logging.getLogger(__name__)

T = TypeVar("T", Generated, Scored)

FINAL = ("bad_request",)
"""Kinds of errors that no other try can mend."""

_POLL_MOST_S = 10.0


@dataclass
class Account:
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
        return Failure(error=error, completion_tokens=None if self.unknown else self.tokens)


class EngineClient:
    """A pool of engines behind one call: a `Generator` or a `Verifier`."""

    def __init__(self, transport: Transport, settings: RequestConfig, kind: str) -> None:
        self._transport = transport
        self._settings = settings
        self._kind = kind
        self._quarantine = asyncio.Lock()
        self.counters: Counter[str] = Counter()
        """``calls``, ``retries``, ``lost``, ``deadlines``, ``cancelled``, ``failures``."""

    async def generate(
        self, request: Request, *, session: str, priority: float = 0.0
    ) -> Generated | Failure:
        """Serve one request; see `Generator.generate`."""
        deadline_s = self._settings.deadline_s
        account = Account()
        outcome: Generated | Failure = await self._serve(
            "generate", (request,), (priority, deadline_s), session, deadline_s, account
        )
        if isinstance(outcome, Failure):
            return outcome
        return replace(
            outcome,
            wasted_tokens=account.tokens,
            unknown_attempts=account.unknown,
            attempts=account.attempts,
        )

    async def score(self, question: str, reply: str, *, session: str) -> Scored | Failure:
        """Score one reply; see `Verifier.score`."""
        deadline_s = self._settings.score_deadline_s
        outcome: Scored | Failure = await self._serve(
            "score", (question, reply), (deadline_s,), session, deadline_s, Account()
        )
        return outcome

    def stats(self) -> dict[str, Any]:
        """Counters of this client, and how its router did."""
        router = self._transport.router_stats()
        if router is None:
            return dict(self.counters)
        return {
            **self.counters,
            "sent": router.sent,
            "returning": router.returning,
            "stayed": router.stayed,
            "sticky_rate": router.sticky_rate,
        }

    async def _serve(
        self,
        method: str,
        what: tuple[Any, ...],
        how: tuple[Any, ...],
        session: str,
        deadline_s: float,
        account: Account,
    ) -> Any:
        """Try until it succeeds, cannot, or was tried often enough."""
        self.counters["calls"] += 1
        avoid: set[str] = set()
        while True:
            account.attempts += 1
            outcome = await self._alone_after_deaths(
                account, method, what, how, session, deadline_s, avoid
            )
            if not isinstance(outcome, Failure):
                return outcome
            account.failed(outcome.completion_tokens)
            kind = outcome.error.partition(":")[0]
            if kind in (*FINAL, "no_replica") or account.attempts >= self._settings.attempts:
                self.counters["failures"] += 1
                tries = f" (try {account.attempts})" if account.attempts > 1 else ""
                return account.failure(outcome.error + tries)
            self.counters["retries"] += 1
            logger.warning(
                "%s try %d of %s failed: %s", method, account.attempts, session, outcome.error
            )
            await asyncio.sleep(self._settings.backoff_s * 2 ** (account.attempts - 1))

    async def _alone_after_deaths(self, account: Account, *call: Any) -> Any:
        """Try once; a request whose replica died twice goes one at a time.

        A request that kills its replica takes the others there down with it. Were they all tried
        again together, it would use up their tries too.
        """
        if account.deaths < 2:
            return await self._try(account, *call)
        async with self._quarantine:
            return await self._try(account, *call)

    async def _try(
        self,
        account: Account,
        method: str,
        what: tuple[Any, ...],
        how: tuple[Any, ...],
        session: str,
        deadline_s: float,
        avoid: set[str],
    ) -> Any:
        request_id = f"{self._kind}-{uuid.uuid4().hex}"
        try:
            call = await self._place(method, (*what, request_id, *how), session, request_id, avoid)
        except NoReplicaError as error:
            return Failure(error=f"no_replica: {error}", completion_tokens=0)
        try:
            # the engine keeps the deadline itself; this is for one that no longer answers
            async with asyncio.timeout(deadline_s + grace_s(deadline_s)):
                outcome = await call.result()
        except TimeoutError:
            call.abort()
            self.counters["deadlines"] += 1
            avoid.add(call.replica)
            return Failure(error=f"deadline: {call.replica} did not answer in {deadline_s:g} s")
        except asyncio.CancelledError:
            call.abort()
            self.counters["cancelled"] += 1
            raise
        except ReplicaLostError as error:
            self.counters["lost"] += 1
            account.deaths += 1
            avoid.add(call.replica)
            return Failure(error=f"replica_lost: {error}")
        if isinstance(outcome, Failure) and outcome.error.startswith("deadline"):
            self.counters["deadlines"] += 1
            avoid.add(call.replica)
        return outcome

    async def _place(
        self,
        method: str,
        arguments: tuple[Any, ...],
        session: str,
        request_id: str,
        avoid: set[str],
    ) -> Call:
        """Hand the request to a replica, waiting ever longer while none lives."""
        give_up = time.monotonic() + self._settings.no_replica_timeout_s
        wait_s = max(0.05, self._settings.backoff_s)
        while True:
            try:
                return await self._transport.place(
                    method, arguments, session=session, request_id=request_id, avoid=avoid
                )
            except NoReplicaError:
                left_s = give_up - time.monotonic()
                if left_s <= 0:
                    raise NoReplicaError(
                        f"no {self._kind} lived for {self._settings.no_replica_timeout_s:g} s"
                    ) from None
            await asyncio.sleep(min(wait_s, left_s))
            wait_s = min(2 * wait_s, _POLL_MOST_S)


def grace_s(deadline_s: float) -> float:
    """How much longer than its deadline an engine may take to say that it was missed."""
    return min(30.0, 1.0 + deadline_s / 2)
