"""Calls to engines that run as Ray Serve deployments."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Generic

import ray
from ray import serve
from ray.serve.exceptions import RayServeException

from actors.routing.address import PoolAddress
from actors.routing.calls import A, Call
from actors.routing.router import POLICIES, RouterStats
from actors.routing.serve_router import ELSEWHERE
from actors.routing.transport import NoReplicaError, answer_of
from pipeline.config.runtime import RequestConfig
from pipeline.core.protocol import Failure

DEPLOYMENT = "engine"

_RUNNING_POLL_S = 5.0


class ServeTransport:
    """One Serve application; calls wait in its router while every replica is full."""

    def __init__(self, address: PoolAddress, settings: RequestConfig) -> None:
        self._app = address.at["app"]
        self._handle = serve.get_deployment_handle(DEPLOYMENT, self._app)
        self._no_replica_timeout_s = settings.no_replica_timeout_s

    async def place(self, call: Call[A], *, avoid: Collection[str]) -> ServeCall[A]:
        """Wait for a replica that has room; see `Transport.place`."""
        handle = self._handle.options(
            method_name="serve", session_id=call.session + ELSEWHERE if avoid else call.session
        )
        response = handle.remote(call)  # Serve carries a cancellation to the replica itself
        placed = asyncio.ensure_future(response._to_object_ref())
        try:
            while True:
                done, _ = await asyncio.wait({placed}, timeout=self._no_replica_timeout_s)
                if done:
                    return ServeCall(self._app, response, placed.result())
                if not await asyncio.to_thread(running_replicas, self._app):
                    raise NoReplicaError
        except (ray.exceptions.RayActorError, RayServeException) as error:
            raise NoReplicaError from error
        finally:
            if not placed.done():
                response.cancel()
                placed.cancel()

    def router_stats(self) -> RouterStats | None:
        """How routing went from this process."""
        policy = POLICIES.get(self._app)
        return None if policy is None else policy.stats()


class ServeCall(Generic[A]):
    """A call that a Serve replica holds."""

    def __init__(self, replica: str, response: Any, ref: Any) -> None:
        self.replica = replica  # which of them, only the answer says
        self._response, self._ref = response, ref

    async def result(self) -> A | Failure:
        """What the engine answered; see `Placed.result`."""
        answer: A | Failure = await answer_of(self._ref, self.replica)
        return answer

    def abort(self) -> None:
        """Stop it in the engine."""
        self._response.cancel()


def running_replicas(app: str) -> int:
    """Replicas of an application that serve at this moment."""
    status = serve.status().applications.get(app)
    if status is None or DEPLOYMENT not in status.deployments:
        return 0
    return int(status.deployments[DEPLOYMENT].replica_states.get("RUNNING", 0))
