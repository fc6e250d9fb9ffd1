"""Reaching a pool that Ray Serve hosts: our routing policy inside Serve's router, and calls."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import ray
from ray import serve
from ray.serve.exceptions import RayServeException
from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from actors.address import PoolAddress
from actors.router import RouterStats, StickyLeastLoaded
from actors.transport import Call, NoReplicaError, answer_of

DEPLOYMENT = "engine"

_ELSEWHERE = "\x1f"  # at the end of a session: its replica failed this request, take another
_RUNNING_POLL_S = 5.0


class StickyRouter(RequestRouter):  # type: ignore[misc]  # Ray is untyped here
    """Serve's router with the policy of `actors.router`; one a calling process."""

    of_app: ClassVar[WeakValueDictionary[str, StickyRouter]] = WeakValueDictionary()
    """The router of each application that this process calls, for its figures."""

    def initialize_state(self, margin: int = 8, **_: Any) -> None:
        """Called by Serve with the keyword arguments of the router's configuration."""
        self.policy = StickyLeastLoaded(margin, random.Random())  # noqa: S311  (no secret)
        self._held: dict[str, tuple[str, ReplicaID]] = {}
        self.of_app[self.app_name] = self

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """The policy's choice first; the others in order of load, should it be full."""
        by_name = {each.replica_id.unique_id: each for each in candidate_replicas}
        session, avoid = self._session(pending_request)
        chosen = self.policy.choose(session, list(by_name), avoid)
        if chosen is None:
            return []
        others = sorted((name for name in by_name if name != chosen), key=self.policy.load)
        return [[by_name[name]] for name in (chosen, *others)]

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any
    ) -> None:
        """A replica took the request."""
        del result
        session, _ = self._session(pending_request)
        self._held[pending_request.metadata.internal_request_id] = (session, replica_id)
        self.policy.sent(session, replica_id.unique_id)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """A call ended; one that a full replica had rejected was never counted."""
        held = self._held.get(internal_request_id)
        if held is not None and held[1] == replica_id:
            del self._held[internal_request_id]
            self.policy.done(replica_id.unique_id)

    def _session(self, request: PendingRequest | None) -> tuple[str, Collection[str]]:
        if request is None:
            return "", ()
        session = request.metadata.session_id or request.metadata.internal_request_id
        if not session.endswith(_ELSEWHERE):
            return session, ()
        session = session.removesuffix(_ELSEWHERE)
        pinned = self.policy.pinned(session)
        return session, () if pinned is None else (pinned,)


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
            method_name=method, session_id=session + _ELSEWHERE if avoid else session
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
        router = StickyRouter.of_app.get(self._app)
        return None if router is None else router.policy.stats()


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
