"""Calls to engines that run as Ray Serve deployments."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import ray
from ray import serve
from ray.serve.exceptions import RayServeException

from actors.routing.address import PoolAddress
from actors.routing.router import POLICIES, RouterStats
from actors.routing.serve_router import ELSEWHERE
from actors.routing.transport import Call, NoReplicaError, answer_of

DEPLOYMENT = "engine"

_RUNNING_POLL_S = 5.0


class ServeTransport:
    """One Serve application; calls wait in its router while every replica is full."""

    def __init__(self, address: PoolAddress, no_replica_timeout_s: float) -> None:
        self._app = address["app"]
        self._handle = serve.get_deployment_handle(DEPLOYMENT, self._app)
        self._no_replica_timeout_s = no_replica_timeout_s

    async def place(
        self,
        method: str,
        arguments: tuple[Any, ...],
        *,
        session: str,
        request_id: str,
        avoid: Collection[str],
    ) -> Call:
        """Wait for a replica that has room; see `Transport.place`."""
        del request_id  # Serve carries a cancellation to the replica itself
        handle = self._handle.options(
            method_name=method, session_id=session + ELSEWHERE if avoid else session
        )
        response = handle.remote(*arguments)
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


class ServeCall:
    """A request that a Serve replica holds."""

    def __init__(self, replica: str, response: Any, ref: Any) -> None:
        self.replica = replica  # which of them, only the answer says
        self._response, self._ref = response, ref

    async def result(self) -> Any:
        """What the engine answered; see `Call.result`."""
        return await answer_of(self._ref, self.replica)

    def abort(self) -> None:
        """Stop it in the engine."""
        self._response.cancel()


def running_replicas(app: str) -> int:
    """Replicas of an application that serve at this moment."""
    status = serve.status().applications.get(app)
    if status is None or DEPLOYMENT not in status.deployments:
        return 0
    return int(status.deployments[DEPLOYMENT].replica_states.get("RUNNING", 0))
