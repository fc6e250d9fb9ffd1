"""Engines as Ray Serve deployments: no proxy, autoscaling, health, and only our own apps touched.

Serve's applications outlive the driver that made them. An application is named after its run, and
the run's watch actor dies with its driver: an application without that actor is an orphan.
"""

from __future__ import annotations

import logging
import re
import time
from contextlib import suppress
from typing import Any

import ray
from ray import serve
from ray.serve.config import AutoscalingConfig

from actors.cluster.run_monitor import monitor_name
from actors.engines.actor_host import not_started, ray_options
from actors.engines.engine_host import EngineHost, engine_fields
from actors.engines.engine_stats import EngineStats
from actors.engines.hosts import PoolSpec
from actors.routing.address import NAMESPACE, PoolAddress
from actors.routing.roles import ROLES
from actors.routing.serve_replicas import DEPLOYMENT
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import ConfigError, EngineError

logger = logging.getLogger(__name__)

_APP = re.compile(rf"markovscale-(?P<run>.+)-(?:{'|'.join(ROLES)}|endpoint)")
_POLL_S = 0.5
_STATS_S = 5.0
_CONSTRUCTOR_TRIES = 3
_EXCHANGES_AT_ONCE = 10_000  # of one replica; how many calls it holds is the transport's business


class ServeHost:
    """One pool as a Serve application of its own."""

    def __init__(self, spec: PoolSpec) -> None:
        pool = spec.pool
        self._app = f"markovscale-{spec.run_id}-{spec.role}"
        self._timeout_s = pool.start_timeout_s
        most = pool.max_ongoing_requests or 2 * pool.engine.max_num_seqs
        self.address = PoolAddress(
            host="serve", role=spec.role, at={"app": self._app, "most": most}
        )
        serve.start(proxy_location="Disabled")
        if self._app in serve.status().applications:  # of an attempt that was killed
            serve.delete(self._app)
        deployment = serve.deployment(EngineHost).options(
            name=DEPLOYMENT,
            ray_actor_options=ray_options(pool),
            max_ongoing_requests=_EXCHANGES_AT_ONCE,
            logging_config={"enable_access_log": False},
            max_constructor_retry_count=_CONSTRUCTOR_TRIES,
            graceful_shutdown_timeout_s=20,
            **scaling(pool),
        )
        target = deployment.bind("", *engine_fields(spec))
        serve.run_many(
            [serve.RunTarget(target, name=self._app, route_prefix=None)],
            wait_for_ingress_deployment_creation=False,
            wait_for_applications_running=False,
        )

    def wait(self) -> None:
        """See `actors.engines.hosts.Host.wait`."""
        role, give_up = self.address.role, time.monotonic() + self._timeout_s
        while time.monotonic() < give_up:
            status = serve.status().applications.get(self._app)
            if status is not None and status.status == "RUNNING":
                self._ask_refused()
                return
            if status is not None and status.status == "DEPLOY_FAILED":
                reasons = [status.message, *(d.message for d in status.deployments.values())]
                raise not_started(role, "\n".join(filter(None, reasons)))
            time.sleep(_POLL_S)
        raise EngineError(f"a {role} did not start within {self._timeout_s:g} s")

    def _ask_refused(self) -> None:
        """Raise the ConfigError of a replica that refused its model; Serve thinks it is well."""
        handle = serve.get_deployment_handle(DEPLOYMENT, self._app)
        with suppress(TimeoutError):
            for answer in handle.broadcast("ping").results(
                timeout_s=_STATS_S, return_exceptions=True
            ):
                error = not_started(self.address.role, answer)
                if isinstance(error, ConfigError):
                    raise error

    def stats(self) -> list[EngineStats]:
        """See `actors.engines.hosts.Host.stats`."""
        handle = serve.get_deployment_handle(DEPLOYMENT, self._app)
        try:
            answers = handle.broadcast("stats").results(timeout_s=_STATS_S, return_exceptions=True)
        except TimeoutError:
            return []  # a replica is just starting or ending
        return [answer for answer in answers if isinstance(answer, EngineStats)]

    def stop(self) -> None:
        """See `actors.engines.hosts.Host.stop`."""
        if self._app in serve.status().applications:
            serve.delete(self._app)


def scaling(pool: PoolConfig) -> dict[str, Any]:
    """Serve's options for the number of replicas."""
    if pool.max_replicas is None:
        return {"num_replicas": pool.replicas}
    least = 1 if pool.min_replicas is None else pool.min_replicas
    return {
        "autoscaling_config": AutoscalingConfig(
            min_replicas=least,
            initial_replicas=min(max(least, pool.replicas), pool.max_replicas),
            max_replicas=pool.max_replicas,
            target_ongoing_requests=pool.target_requests,
            upscale_delay_s=pool.upscale_delay_s,
            downscale_delay_s=pool.downscale_delay_s,
        )
    }


def reap() -> list[str]:
    """Delete applications of runs that are no longer there; nobody else's are touched.

    Returns:
        Names of the applications that were deleted.
    """
    if not _serve_runs():
        return []
    reaped = []
    for name in serve.status().applications:
        match = _APP.fullmatch(name)
        if match is None or _lives(match["run"]):
            continue
        logger.warning("deleting %s: its run is gone", name)
        serve.delete(name)
        reaped.append(name)
    return reaped


def _lives(run_id: str) -> bool:
    try:
        ray.get_actor(monitor_name(run_id), namespace=NAMESPACE)
    except ValueError:
        return False
    return True


def _serve_runs() -> bool:
    """Whether this cluster has a Serve controller; asking Serve itself would start one."""
    try:
        ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")
    except ValueError:
        return False
    return True
