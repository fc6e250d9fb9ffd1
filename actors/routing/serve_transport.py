"""Calls to engines that run as Ray Serve deployments."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Collection
from functools import partial
from typing import Any, NamedTuple

from actors.routing.address import PoolAddress
from actors.routing.bundles import BundledCall, Link, Pace
from actors.routing.calls import A, Call
from actors.routing.revival import Revival
from actors.routing.router import RouterStats, policy_of
from actors.routing.serve_replicas import ServeReplicas
from actors.routing.transport import NoReplicaError
from pipeline.config.runtime import RequestConfig

_LOOK_S = 0.1


class Waiting(NamedTuple):
    """A call for which no replica has room."""

    call: Call[Any]
    avoid: Collection[str]
    since: float
    turn: asyncio.Future[BundledCall[Any]]


class ServeTransport:
    """One Serve application; calls wait here, as they came, while every replica is full.

    A replica is full when it holds `most` calls. Those of other callers are known as of the last
    exchange: what several callers send in one tick may go over it. A caller that holds none there
    has no exchange, and so learns by sending one call.
    """

    def __init__(self, address: PoolAddress, settings: RequestConfig) -> None:
        self._replicas = ServeReplicas(address.at["app"])
        self._most = int(address.at["most"])
        self._no_replica_timeout_s = settings.no_replica_timeout_s
        self._policy = policy_of(settings)
        self._pace = Pace()
        self._links: dict[str, tuple[Link, Any]] = {}
        self._revival = Revival(self._ping)
        self._waiting: deque[Waiting] = deque()
        self._looking: asyncio.Task[None] | None = None

    async def place(self, call: Call[A], *, avoid: Collection[str]) -> BundledCall[A]:
        """Hand a call to a replica that has room, once there is one; see `Transport.place`."""
        if not self._waiting and (placed := self._placed(call, avoid)) is not None:
            return placed
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[BundledCall[A]] = loop.create_future()
        self._waiting.append(Waiting(call, avoid, time.monotonic(), turn))
        self._replicas.queued()
        if self._looking is None:
            self._looking = loop.create_task(self._look())
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._replicas.unqueued()
            elif turn.exception() is None:
                turn.result().abort()
            raise

    def router_stats(self) -> RouterStats:
        """How routing went from this process."""
        return self._policy.stats()

    def _placed(self, call: Call[A], avoid: Collection[str]) -> BundledCall[A] | None:
        running = self._replicas.running()
        roomy = [name for name in running if name not in self._revival and self._has_room(name)]
        name = self._policy.choose(call.session, roomy, avoid)
        if name is None:
            return None
        self._policy.sent(call.session, name)
        self._replicas.began(running[name])
        return self._link(name, running)[0].hand(call)

    def _has_room(self, name: str) -> bool:
        if name not in self._links:
            return True
        link, _ = self._links[name]
        return not len(link) or len(link) + link.others < self._most

    def _link(self, name: str, running: dict[str, Any]) -> tuple[Link, Any]:
        """The link to one of those that ran a moment ago: a thread of Serve's changes them."""
        if name not in self._links:
            for gone in [each for each in self._links if each not in running]:
                if not len(self._links[gone][0]):
                    del self._links[gone]
            replica = running[name]
            carry = partial(self._replicas.ask, replica, "exchange")
            link = Link(name, carry, self._pace, self._ended, self._revival.lost)
            self._links[name] = (link, replica)
        return self._links[name]

    def _ended(self, name: str) -> None:
        self._policy.done(name)
        self._replicas.ended(self._links[name][1])
        if self._waiting:
            self._let_in()

    async def _ping(self, name: str) -> None:
        await self._replicas.ask(self._replicas.running()[name], "ping")

    def _let_in(self) -> None:
        while self._waiting:
            first = self._waiting[0]
            if not first.turn.done():  # else its caller has given up
                placed = self._placed(first.call, first.avoid)
                if placed is None:
                    return
                first.turn.set_result(placed)
                self._replicas.unqueued()
            self._waiting.popleft()

    async def _look(self) -> None:
        """While calls wait, see whether replicas have come, or none is left."""
        lived_at = time.monotonic()
        while self._waiting:
            self._let_in()
            now = time.monotonic()
            if any(name not in self._revival for name in self._replicas.running()):
                lived_at = now
            limit = now - self._no_replica_timeout_s
            while lived_at <= limit and self._waiting and self._waiting[0].since <= limit:
                turn = self._waiting.popleft().turn
                if not turn.done():
                    turn.set_exception(NoReplicaError(gone_s=now - lived_at))
                    self._replicas.unqueued()
            await asyncio.sleep(_LOOK_S)
        self._looking = None
