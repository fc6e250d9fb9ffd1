"""What Ray Serve knows of an application's replicas, and what it must know of their calls.

Serve starts replicas, watches their health and scales their number; the calls go past its router,
in bundles (`actors.routing.bundles`), since a call through it costs four times one of Ray. Its
autoscaler is told of them nevertheless. All that is used of Serve's inside is in this module, and
held by `tests.test_serve_host` to the pinned version of Ray.
"""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve._private.common import RequestMetadata
from ray.serve._private.request_router.common import PendingRequest

from actors.routing.bundles import fresh_id

DEPLOYMENT = "engine"


class ServeReplicas:
    """The replicas of one application, as one process sees them; used on one event loop."""

    def __init__(self, app: str) -> None:
        self._app = app
        handle = serve.get_deployment_handle(DEPLOYMENT, app)
        # `options` starts its router: Serve tells this process of replicas that come and go
        self._router = handle.options(method_name="exchange")._router._asyncio_router
        self._seen: dict[Any, Any] = {}
        self._named: dict[str, Any] = {}

    def running(self) -> dict[str, Any]:
        """Those that take calls, by name; the same dictionary until they change."""
        chooser = self._router._request_router
        seen = {} if chooser is None else chooser.curr_replicas
        if seen is not self._seen:
            self._seen = seen
            self._named = {each.replica_id.unique_id: each for each in seen.values()}
        return self._named

    async def ask(self, replica: Any, method: str, *arguments: Any) -> Any:
        """Call a method of a replica, one of `running`, by Ray and not by way of Serve's router."""
        number = fresh_id(method)
        metadata = RequestMetadata(
            request_id=number, internal_request_id=number, call_method=method, app_name=self._app
        )
        request = PendingRequest(args=list(arguments), kwargs={}, metadata=metadata)
        return await replica.try_send_request(request, with_rejection=False).to_object_ref()

    def began(self, replica: Any) -> None:
        """Count a call in a replica for the autoscaler."""
        self._router._metrics_manager.inc_num_running_requests_for_replica(replica.replica_id)

    def ended(self, replica: Any) -> None:
        """Count it no more."""
        self._router._metrics_manager.dec_num_running_requests_for_replica(replica.replica_id)

    def queued(self) -> None:
        """Count a call that waits for a replica; where there is none, say so at once."""
        metrics = self._router._metrics_manager
        metrics.inc_num_queued_requests()
        if metrics.num_queued_requests == 1 and metrics.should_send_scaled_to_zero_optimized_push(
            len(self.running())
        ):
            metrics.push_autoscaling_metrics_to_controller()

    def unqueued(self) -> None:
        """Count it no more."""
        self._router._metrics_manager.dec_num_queued_requests()
