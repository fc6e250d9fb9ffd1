"""*ActorTransport*: places calls on engines that run as named Ray actors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

import ray

from actors.routing.bundles import BundledCall, Link, Pace
from actors.routing.calls import A, Call
from actors.routing.router import RouterStats, policy_of
from actors.routing.transport import NAMESPACE, NoReplicaError, PoolAddress
from pipeline.config.runtime import RequestConfig

logger = logging.getLogger(__name__)

_POLL_S = 0.5
_POLL_MOST_S = 5.0


class ActorTransport:
    """Engines as Ray actors, which Ray restarts under the same name when they die.

    A replica gets no calls before it has answered once: those of an elastic pool may have no node
    yet.
    """

    isolates = True

    def __init__(self, address: PoolAddress, settings: RequestConfig) -> None:
        self._handles = {
            name: ray.get_actor(name, namespace=NAMESPACE) for name in address.at["replicas"]
        }
        self._policy = policy_of(settings)
        self._absent = Absent(lambda name: self._handles[name].ping.remote())
        pace = Pace()
        self._links = {
            name: Link(name, handle.exchange.remote, pace, self._policy.done, self._absent.add)
            for name, handle in self._handles.items()
        }
        for name in address.at.get("pending", ()):
            self._absent.add(name, expected=True)

    async def place(self, call: Call[A], *, avoid: Collection[str]) -> BundledCall[A]:
        """Submit a call to an actor at once; see `Transport.place`."""
        alive = [name for name in self._handles if name not in self._absent]
        replica = self._policy.choose(call.session, alive, avoid)
        if replica is None:
            raise NoReplicaError
        self._policy.sent(call.session, replica)
        return self._links[replica].submit(call)

    def router_stats(self) -> RouterStats:
        """How routing went from this process."""
        return self._policy.stats()


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
            except ray.exceptions.RayError:
                continue  # it is dead, restarts, or cannot be reached
            except Exception:
                logger.exception("%s could not be asked whether it serves", replica)
                continue
            logger.warning("%s serves", replica)
            del self._polling[replica]
            return
