"""*ActorHost*: a pool of engines as named Ray actors, which live and die with the driver's job."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ray

from actors.engines import vllm_setup
from actors.engines.engine_host import EngineHost, engine_fields
from actors.engines.engine_stats import EngineStats
from actors.engines.hosts import PoolSpec
from actors.routing.transport import NAMESPACE, PoolAddress
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import ConfigError, EngineError

logger = logging.getLogger(__name__)

_CALLS_AT_ONCE = 10_000  # of one actor; admission is the controllers' business
_STATS_S = 5.0
IDLE_S = 300.0
"""Without a request for so long, a replica of an elastic pool is given back."""
_LOGS = "(its log: worker-*.err in the folder of Ray's session, on its node)"


class ActorHost:
    """One pool. Ray restarts an actor that dies under its name, and the new one loads the model.

    An elastic pool starts its fewest replicas. `grow` adds the others as actors that wait for
    resources: Ray places each once the cluster has a node for it, and again after it lost its node.
    A replica that had no request for `IDLE_S` is given back, and started again once requests wait.
    """

    def __init__(self, spec: PoolSpec) -> None:
        pool, token = spec.pool, uuid.uuid4().hex[:6]  # an earlier attempt's actors may still die
        self._spec, self._timeout_s = spec, pool.start_timeout_s
        self._names = [
            f"markovscale-{spec.run_id}-{token}-{spec.role}-{i}" for i in range(pool.most_replicas)
        ]
        self._actors: dict[str, Any] = {}
        self._pending: dict[Any, str] = {}
        self._worked: dict[str, tuple[tuple[str, int, float], float]] = {}
        for name in self._names[: pool.least_replicas]:
            self._start(name)
        at = {"replicas": self._names, "fewest": pool.least_replicas}
        self.address = PoolAddress(host="actors", role=spec.role, at=at)

    def _start(self, name: str) -> None:
        actor = (
            ray.remote(EngineHost)
            .options(
                name=name,
                namespace=NAMESPACE,
                max_restarts=-1,
                max_task_retries=0,  # retries are the client's: they have a deadline and an account
                max_concurrency=_CALLS_AT_ONCE,
                **ray_options(self._spec.pool),
            )
            .remote(name, *engine_fields(self._spec))
        )
        self._actors[name] = actor
        self._pending[actor.ping.remote()] = name

    def wait(self) -> None:
        """See `actors.engines.hosts.Host.wait`."""
        role = self.address.role
        try:
            ray.get(list(self._pending), timeout=self._timeout_s)
        except ray.exceptions.GetTimeoutError as error:
            raise EngineError(f"a {role} did not start within {self._timeout_s:g} s") from error
        except ray.exceptions.RayError as error:
            raise not_started(role, error) from error
        self._pending = {}

    def grow(self) -> bool:
        """See `actors.engines.hosts.Host.grow`."""
        name = next((name for name in self._names if name not in self._actors), None)
        if name is not None:
            self._start(name)
        return name is not None

    def stats(self) -> list[EngineStats]:
        """See `actors.engines.hosts.Host.stats`; an elastic pool shrinks or grows by them."""
        self._note_started()
        waiting = set(self._pending.values())
        asked = [a.stats.remote() for name, a in self._actors.items() if name not in waiting]
        done, _ = ray.wait(asked, num_returns=len(asked), timeout=_STATS_S) if asked else ([], [])
        answers = []
        for answer in done:
            with contextlib.suppress(ray.exceptions.RayError):  # it may be restarting
                answers.append(ray.get(answer))
        return answers if self._spec.pool.max_replicas is None else self._resized(answers)

    def stop(self) -> None:
        """See `actors.engines.hosts.Host.stop`."""
        actors, self._actors, self._pending = self._actors, {}, {}
        for actor in actors.values():
            ray.kill(actor, no_restart=True)  # Ray ends the engine's own processes with it

    def _resized(self, stats: Sequence[EngineStats]) -> list[EngineStats]:
        """Give idle replicas back, and those that still wait for resources before them; or start
        one where requests wait. Returns `stats` with a mark on those given back."""
        now, idle = time.monotonic(), []
        if any(each.waiting for each in stats):
            self._worked = {}
            self.grow()
        for each in stats:
            work = (each.life, each.requests, each.request_s)
            before, since = self._worked.get(each.replica, (None, now))
            if work != before:
                self._worked[each.replica] = (work, now)
            elif now - since >= IDLE_S:
                idle.append(each.replica)
        if not idle:
            return list(stats)
        spare = idle[: max(0, len(stats) - self._spec.pool.least_replicas)]
        for name in (*self._pending.values(), *spare):
            ray.kill(self._actors.pop(name), no_restart=True)
        self._pending = {}
        if spare:
            logger.info("%d idle %ss are given back", len(spare), self.address.role)
        return [replace(each, given_back=each.replica in spare) for each in stats]

    def _note_started(self) -> None:
        """Forget that replicas are pending which serve by now, or failed to start."""
        if not self._pending:
            return
        for ping in ray.wait(list(self._pending), num_returns=len(self._pending), timeout=0)[0]:
            del self._pending[ping]
            try:
                ray.get(ping)
            except ray.exceptions.RayError as error:
                logger.warning("%s", not_started(self.address.role, error))


def not_started(role: str, error: BaseException | str) -> EngineError | ConfigError:
    """Why a replica did not start, in one line, from Ray's long message."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, ConfigError):
        return ConfigError(str(cause))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own = [line.partition("EngineError: ")[2] for line in lines if "EngineError: " in line]
    why = own[-1] if own else f"{(lines or ['Ray gave no reason'])[-1]} {_LOGS}"
    return EngineError(f"a {role} did not start: {why}")


def ray_options(pool: PoolConfig) -> dict[str, Any]:
    """Ray's options for one replica."""
    options: dict[str, Any] = {
        "num_cpus": pool.num_cpus,
        "num_gpus": pool.gpus,
        "runtime_env": {"env_vars": vllm_setup.environment(pool)},
    }
    if pool.resources:
        options["resources"] = dict(pool.resources)
    if pool.label_selector:
        options["label_selector"] = dict(pool.label_selector)
    return options
