"""Engines as plain named Ray actors: a fixed pool that lives and dies with the driver's job."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from typing import Any

import ray

from actors.engines import vllm_setup
from actors.engines.engine_host import EngineHost, engine_fields
from actors.engines.engine_stats import EngineStats
from actors.engines.hosts import PoolSpec
from actors.routing.address import NAMESPACE, PoolAddress
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import ConfigError, EngineError

_CALLS_AT_ONCE = 10_000  # of one actor; admission is the controllers' business
_STATS_S = 5.0
_LOGS = "(its log: worker-*.err in the folder of Ray's session, on its node)"


class ActorHost:
    """One pool. Ray restarts an actor that dies, under its name; it takes its model anew."""

    def __init__(self, spec: PoolSpec) -> None:
        pool = spec.pool
        if pool.min_replicas is not None or pool.max_replicas is not None:
            raise ConfigError("runtime.host must be serve for a pool with min_ or max_replicas")
        token = uuid.uuid4().hex[:6]  # an earlier attempt's actors may still be dying
        names = [f"markovscale-{spec.run_id}-{token}-{spec.role}-{i}" for i in range(pool.replicas)]
        actor = ray.remote(EngineHost)
        self._timeout_s = pool.start_timeout_s
        self._actors = [
            actor.options(
                name=name,
                namespace=NAMESPACE,
                max_restarts=-1,
                max_task_retries=0,  # retries are the client's: they have a deadline and an account
                max_concurrency=_CALLS_AT_ONCE,
                **ray_options(pool),
            ).remote(name, *engine_fields(spec))
            for name in names
        ]
        self.address = PoolAddress(host="actors", role=spec.role, at={"replicas": names})

    def wait(self) -> None:
        """See `actors.engines.hosts.Host.wait`."""
        role = self.address.role
        pending = [actor.ping.remote() for actor in self._actors]
        try:
            ray.get(pending, timeout=self._timeout_s)
        except ray.exceptions.GetTimeoutError as error:
            raise EngineError(f"a {role} did not start within {self._timeout_s:g} s") from error
        except ray.exceptions.RayError as error:
            raise not_started(role, error) from error

    def stats(self) -> list[EngineStats]:
        """See `actors.engines.hosts.Host.stats`."""
        pending = [actor.stats.remote() for actor in self._actors]
        done, _ = ray.wait(pending, num_returns=len(pending), timeout=_STATS_S)
        return answered(done)

    def stop(self) -> None:
        """See `actors.engines.hosts.Host.stop`."""
        actors, self._actors = self._actors, []
        for actor in actors:
            ray.kill(actor, no_restart=True)  # Ray ends the engine's own processes with it


def not_started(role: str, error: BaseException | str) -> EngineError | ConfigError:
    """Why a replica did not start, in one line, from what Ray says at length."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, ConfigError):
        return ConfigError(str(cause))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own = [line.partition("EngineError: ")[2] for line in lines if "EngineError: " in line]
    why = own[-1] if own else f"{(lines or ['no reason was told'])[-1]} {_LOGS}"
    return EngineError(f"a {role} did not start: {why}")


def ray_options(pool: PoolConfig) -> dict[str, Any]:
    """What Ray is asked for one replica."""
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


def answered(refs: Sequence[Any]) -> list[EngineStats]:
    """The results of calls that did not fail: a replica may just be restarting."""
    results = []
    for ref in refs:
        with contextlib.suppress(ray.exceptions.RayError):
            results.append(ray.get(ref))
    return results
