"""The routing policy of `actors.routing.router` inside Ray Serve's router."""

from __future__ import annotations

import random
import time
from collections.abc import Collection
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from actors.routing.router import StickyLeastLoaded

ELSEWHERE = "\x1f"
"""At the end of a session's name: its replica failed this request, take another."""

_EXPECTED_S = 60.0
"""Serve does not say that a request was cancelled before a replica took it."""


class StickyRouter(RequestRouter):  # type: ignore[misc]  # Ray is untyped here
    """Serve's router with the policy of `actors.routing.router`; one a calling process."""

    def initialize_state(self, margin: int = 8, **_: Any) -> None:
        """Called by Serve with the keyword arguments of the router's configuration."""
        from actors.routing.router import (
            POLICIES,  # Serve sends this class by value, globals and all
        )

        self.policy = StickyLeastLoaded(margin, random.Random())  # noqa: S311  (no secret)
        self._expected: dict[str, tuple[float, str]] = {}
        self._held: dict[str, tuple[str, ReplicaID]] = {}
        POLICIES[self.app_name] = self.policy

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """The policy's choice first; the others in order of load, should it be full."""
        by_name = {each.replica_id.unique_id: each for each in candidate_replicas}
        session, avoid = self._session(pending_request)
        if pending_request is not None:
            self._forget(pending_request)  # a choice before this one has come to nothing
        chosen = self.policy.choose(session, list(by_name), avoid)
        if chosen is None:
            return []
        if pending_request is not None:
            self._expect(pending_request, chosen)
        others = sorted((name for name in by_name if name != chosen), key=self.policy.load)
        return [[by_name[name]] for name in (chosen, *others)]

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any
    ) -> None:
        """A replica took the request."""
        del result
        self._forget(pending_request)
        session, _ = self._session(pending_request)
        self._held[pending_request.metadata.internal_request_id] = (session, replica_id)
        self.policy.sent(session, replica_id.unique_id)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """A call ended; one that a full replica had rejected was never counted."""
        held = self._held.get(internal_request_id)
        if held is not None and held[1] == replica_id:
            del self._held[internal_request_id]
            self.policy.done(replica_id.unique_id)

    def _expect(self, request: PendingRequest, replica: str) -> None:
        """Count a request from the choice on: until a replica has taken it, milliseconds pass in
        which hundreds more are chosen for, and would all go the same way."""
        now = time.monotonic()
        self._expected[request.metadata.internal_request_id] = (now, replica)
        self.policy.expect(replica)
        while self._expected:  # of requests that were cancelled before they were taken
            oldest, (since, _) = next(iter(self._expected.items()))
            if now - since < _EXPECTED_S:
                break
            self.policy.done(self._expected.pop(oldest)[1])

    def _forget(self, request: PendingRequest) -> None:
        expected = self._expected.pop(request.metadata.internal_request_id, None)
        if expected is not None:
            self.policy.done(expected[1])

    def _session(self, request: PendingRequest | None) -> tuple[str, Collection[str]]:
        if request is None:
            return "", ()
        session = request.metadata.session_id or request.metadata.internal_request_id
        if not session.endswith(ELSEWHERE):
            return session, ()
        session = session.removesuffix(ELSEWHERE)
        pinned = self.policy.pinned(session)
        return session, () if pinned is None else (pinned,)
