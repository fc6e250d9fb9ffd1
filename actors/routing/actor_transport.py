"""*ActorTransport*: places calls on engines that run as named Ray actors."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

import ray

from actors.routing.bundles import SILENT_S, BundledCall, Link, Pace
from actors.routing.calls import A, Call
from actors.routing.transport import (
    NAMESPACE,
    NoReplicaError,
    PoolAddress,
    worker_policy,
)
from pipeline.config.runtime import RequestConfig

logger = logging.getLogger(__name__)

_POLL_S = 0.5
_POLL_MOST_S = 5.0
_QUIET_S = 60.0  # less than what an idle replica is given back after


class ActorTransport:
    """Engines as Ray actors, which Ray restarts under the same name when they die.

    A replica gets no calls before it has answered once: those of an elastic pool may have no node
    yet, and may be given back and started again under their names. One of these that got no call
    for `_QUIET_S` is asked first whether it still serves.
    """

    isolates = True

    def __init__(self, address: PoolAddress, settings: RequestConfig) -> None:
        self._handles: dict[str, Any] = {}
        self._policy = worker_policy()
        self._absent = Absent(self._ping)
        pace = Pace()
        self._links = {
            name: Link(
                name, partial(self._exchange, name), pace, self._policy.done, self._absent.add
            )
            for name in address.at["replicas"]
        }
        fewest = address.at["fewest"]
        self._elastic = fewest < len(self._links)
        self._used_at = dict.fromkeys(self._links, time.monotonic())
        for number, name in enumerate(self._links):
            try:
                if number < fewest:
                    self._handles[name] = ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                logger.info("%s was given back", name)
            if name not in self._handles:
                self._absent.add(name, expected=True)

    async def place(self, call: Call[A], *, avoid: Collection[str]) -> BundledCall[A]:
        """Submit a call to an actor at once; see `Transport.place`."""
        while True:
            alive = [name for name in self._links if name not in self._absent]
            replica = self._policy.choose(call.session, alive, avoid)
            if replica is None:
                raise NoReplicaError
            if self._links[replica] or await self._still_serves(replica):
                break
        self._policy.sent(call.session, replica)
        self._used_at[replica] = time.monotonic()
        return self._links[replica].submit(call)

    async def _still_serves(self, replica: str) -> bool:
        """Whether a replica without calls of this caller may get one."""
        if not self._elastic or time.monotonic() - self._used_at[replica] < _QUIET_S:
            return True
        self._policy.expect(replica)
        try:
            async with asyncio.timeout(SILENT_S):
                await self._handles[replica].ping.remote()
        except (ray.exceptions.RayError, TimeoutError):
            self._absent.add(replica)
            return False
        finally:
            self._policy.done(replica)
        return True

    def _exchange(self, replica: str, *chunks: bytes) -> Awaitable[bytes]:
        answer: Awaitable[bytes] = self._handles[replica].exchange.remote(*chunks)
        return answer

    async def _ping(self, replica: str) -> None:
        """Return once a replica serves: the actor that has its name by now."""
        # in a thread: Ray's head may hang, and this loop has other replicas to serve
        actor = await asyncio.to_thread(ray.get_actor, replica, namespace=NAMESPACE)
        await actor.ping.remote()
        self._handles[replica] = actor


class Absent:
    """The replicas of one caller that are not there: each gets no call until it answers a ping.

    Args:
        ping: asks a replica whether it serves, and returns once it does.
    """

    def __init__(self, ping: Callable[[str], Awaitable[object]]) -> None:
        self._ping = ping
        self._polling: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, replica: str) -> bool:
        return replica in self._polling

    def add(self, replica: str, *, expected: bool = False) -> None:
        """Ping a replica until it answers.

        Args:
            replica: its name.
            expected: whether it has not started yet; otherwise it was lost.
        """
        if replica not in self._polling:
            if not expected:
                logger.warning("%s is lost; it gets no calls until it answers again", replica)
            wait_s = 0.0 if expected else _POLL_S
            self._polling[replica] = asyncio.create_task(self._poll(replica, wait_s))

    async def _poll(self, replica: str, wait_s: float) -> None:
        while True:
            await asyncio.sleep(wait_s)
            wait_s = min(max(_POLL_S, 2 * wait_s), _POLL_MOST_S)
            try:
                await self._ping(replica)
            except (ray.exceptions.RayError, ValueError):
                continue  # it is dead, restarts, cannot be reached, or has not been started
            except Exception:
                logger.exception("%s could not be asked whether it serves", replica)
                continue
            logger.warning("%s serves", replica)
            del self._polling[replica]
            return
