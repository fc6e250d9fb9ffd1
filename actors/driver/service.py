"""*Service*: runs an endpoint: starts proxy, engines and replica, and stops them at a signal."""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray import serve

from actors.cluster.run_monitor import NAMESPACE, monitor_name
from actors.driver.admission_control import AdmissionControl, StatsPoller
from actors.driver.signals import Signals, stop_grace_s, watching
from actors.engines.launch import Engines, require_room_for, start_engines
from actors.routing.transport import EnginesAddress
from actors.serving.deployment import DEPLOYMENT, EndpointPlan, EndpointReplica
from pipeline.config.run import RunConfig
from pipeline.config.runtime import RuntimeConfig
from pipeline.core.errors import ConfigError

logger = logging.getLogger(__name__)

_APP = re.compile(r"markovscale-(?P<run>.+)-endpoint")
_POLL_S = 0.2
_LOG_EVERY_S = 60.0
_ATTEND_EVERY_S = 1.0
_GRACE_S = 30.0
_CLOSE_S = 60.0  # beyond the grace


class Service:
    """Serves the strategies of a configuration until a signal stops it.

    Args:
        config: its strategies, models and engines.
        run_id: names actors and applications.
        host, port: where HTTP is listened to, on the head node of the cluster.
        key_digest: of the API key; None asks for none.
        queue: see `actors.serving.answering.Answering`.
        cors: origins of web pages that may read answers.
    """

    def __init__(
        self,
        config: RunConfig,
        run_id: str,
        *,
        host: str,
        port: int,
        key_digest: str | None = None,
        queue: int | None = None,
        cors: tuple[str, ...] = (),
    ) -> None:
        self._config, self._run_id = config, run_id
        self._host, self._port = host, port
        self._key_digest, self._queue = key_digest, queue
        self._cors = cors
        self._signals = Signals("requests at work, if any, were cut")

    def execute(self, ready: Callable[[], object]) -> None:
        """Serve until SIGTERM or SIGINT; then answer what was taken on, and end.

        Args:
            ready: called once requests are answered.

        Raises:
            RunInterruptedError: after a signal while it was still starting.
            EngineError: where an engine does not start.
            ConfigError: where the cluster or its Serve cannot run the endpoint.
        """
        delete_orphans()
        require_room_for(self._config)
        with (
            self._signals.installed(),
            watching(self._run_id),
            _proxy(self._host, self._port),
            self._endpoint() as handle,
            self._engines() as engines,
        ):
            self._signals.raising = False
            account = StatsPoller(engines)
            try:
                handle.attend.remote(engines.address, engines.address.in_flight).result()
                ready()
                self._attend(handle, engines, account)
            finally:
                account.close()
                grace_s = grace_of(self._config.runtime)
                logger.info("draining: at most %g s for what is at work", grace_s)
                _drain(handle, grace_s)

    def _attend(self, handle: Any, engines: Engines, account: StatsPoller) -> None:
        """Adapt admission to what engines say, until a signal comes."""
        limits: deque[int] = deque(maxlen=1)
        admission = AdmissionControl(
            self._config.runtime,
            self._config.science.decoding.max_tokens,
            engines.address,
            account,
            limits.append,
        )
        attended_at = logged_at = time.monotonic()
        rounds = 0
        while not self._signals.stop:
            time.sleep(_POLL_S)
            if time.monotonic() - attended_at < _ATTEND_EVERY_S:
                continue
            attended_at = time.monotonic()
            counters = _attended(handle, engines.address, limits[-1])
            account.look()
            if counters is None:
                continue
            admission.step(counters)
            if time.monotonic() - logged_at >= _LOG_EVERY_S and counters["rounds"] > rounds:
                logged_at, rounds = time.monotonic(), counters["rounds"]
                logger.info(
                    "%d questions answered, %d at work, %d wait; %d completions, %d tokens",
                    sum(counters["stops"].values()),
                    counters["in_flight"],
                    counters["waiting"],
                    rounds,
                    counters["completion_tokens"],
                )

    @contextmanager
    def _engines(self) -> Iterator[Engines]:
        science, runtime = self._config.science, self._config.runtime
        # one process asks, which has all places at an endpoint for itself
        one_controller = runtime.controllers.model_copy(update={"actors": 1})
        runtime = runtime.model_copy(update={"controllers": one_controller})
        engines = start_engines(science, runtime, self._run_id, science.decoding.max_tokens)
        try:
            yield engines
        finally:
            engines.stop()

    @contextmanager
    def _endpoint(self) -> Iterator[Any]:
        """Its handle; requests are 503 until it begins."""
        controllers = self._config.runtime.controllers
        plan = EndpointPlan(
            run_id=self._run_id,
            config=self._config.model_dump(mode="json"),
            key_digest=self._key_digest,
            queue=self._queue,
            cors=self._cors,
        )
        options: dict[str, Any] = {"num_cpus": controllers.num_cpus}
        if controllers.label_selector:
            options["label_selector"] = dict(controllers.label_selector)
        deployment = serve.deployment(EndpointReplica).options(
            name=DEPLOYMENT,
            num_replicas=1,
            ray_actor_options=options,
            max_ongoing_requests=100_000,  # its queue is its own, and says when to come again
            graceful_shutdown_wait_loop_s=0.1,  # it was drained
            graceful_shutdown_timeout_s=1,
        )
        name = f"markovscale-{self._run_id}-endpoint"
        try:
            yield serve.run(deployment.bind(plan), name=name, route_prefix="/")
        finally:
            serve.delete(name)


def _attended(handle: Any, engines: EnginesAddress, limit: int) -> dict[str, Any] | None:
    """The counters of the endpoint, which Serve may have started again; None where it does not
    answer."""
    try:
        counters: dict[str, Any] = handle.attend.remote(engines, limit).result(timeout_s=_CLOSE_S)
    except (TimeoutError, ray.exceptions.RayError) as error:
        logger.warning("the endpoint does not answer its driver: %s", type(error).__name__)
        return None
    return counters


def _drain(handle: Any, grace_s: float) -> None:
    """Let the endpoint answer what it took on. Where it is gone, or hangs, all else still ends."""
    try:
        handle.drain.remote(grace_s).result(timeout_s=grace_s + _CLOSE_S)
    except (TimeoutError, ray.exceptions.RayError) as error:
        logger.error("the endpoint was not drained: %s: %s", type(error).__name__, error)


@contextmanager
def _proxy(host: str, port: int) -> Iterator[None]:
    """Serve with an HTTP proxy on the head node, for as long as this lasts.

    Serve cannot move its proxy, so it must not run yet, or have nothing to do.

    Raises:
        ConfigError: where others use it, or the port is taken.
    """
    others = _applications()
    if others:
        raise ConfigError(
            f"jobs.serve must start Ray Serve itself, in this cluster it serves "
            f"{', '.join(others)}: wait for their end, or use another cluster"
        )
    if others is not None:
        serve.shutdown()
    try:
        with socket.create_server((host, port), family=_family(host)):
            pass
    except OSError as error:
        raise ConfigError(f"--host and --port must be free to listen to, got {error}") from error
    serve.start(proxy_location="HeadOnly", http_options={"host": host, "port": port})
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    try:
        yield
    finally:
        if not _applications():
            serve.shutdown()


def _applications() -> list[str] | None:
    """Names of what Serve serves in this cluster; None where it does not run."""
    try:
        ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")
    except ValueError:
        return None  # asking Serve itself would start it
    return sorted(serve.status().applications)


def delete_orphans() -> list[str]:
    """Delete endpoints whose driver is gone: Serve's applications outlive it, its monitor does not.

    Returns:
        Names of the applications that were deleted.
    """
    orphans = []
    for name in _applications() or ():
        match = _APP.fullmatch(name)
        if match is not None and not _lives(match["run"]):
            logger.warning("deleting %s: its driver is gone", name)
            serve.delete(name)
            orphans.append(name)
    return orphans


def _lives(run_id: str) -> bool:
    try:
        ray.get_actor(monitor_name(run_id), namespace=NAMESPACE)
    except ValueError:
        return False
    return True


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def grace_of(runtime: RuntimeConfig) -> float:
    """How long requests may still take after a signal, in s: ``runtime.drain_s``; without it what
    Ray leaves a submitted job, or 30 s."""
    if runtime.drain_s is None and "RAY_JOB_CONFIG_JSON_ENV_VAR" not in os.environ:
        return _GRACE_S
    return stop_grace_s(runtime)
