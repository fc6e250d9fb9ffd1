"""Calls to engines that run as plain Ray actors."""

from __future__ import annotations

from collections.abc import Collection

import ray

from actors.routing.address import NAMESPACE, PoolAddress
from actors.routing.bundles import BundledCall, Link, Pace
from actors.routing.calls import A, Call
from actors.routing.revival import Revival
from actors.routing.router import RouterStats, policy_of
from actors.routing.transport import NoReplicaError
from pipeline.config.runtime import RequestConfig


class ActorTransport:
    """Named Ray actors, which Ray restarts under the same name when they die."""

    def __init__(self, address: PoolAddress, settings: RequestConfig) -> None:
        self._handles = {
            name: ray.get_actor(name, namespace=NAMESPACE) for name in address.at["replicas"]
        }
        self._policy = policy_of(settings)
        self._revival = Revival(lambda name: self._handles[name].ping.remote())
        pace = Pace()
        self._links = {
            name: Link(name, handle.exchange.remote, pace, self._policy.done, self._revival.lost)
            for name, handle in self._handles.items()
        }

    async def place(self, call: Call[A], *, avoid: Collection[str]) -> BundledCall[A]:
        """Hand a call to an actor at once; it has no queue in front of the engine."""
        alive = [name for name in self._handles if name not in self._revival]
        replica = self._policy.choose(call.session, alive, avoid)
        if replica is None:
            raise NoReplicaError
        self._policy.sent(call.session, replica)
        return self._links[replica].hand(call)

    def router_stats(self) -> RouterStats:
        """How routing went from this process."""
        return self._policy.stats()
