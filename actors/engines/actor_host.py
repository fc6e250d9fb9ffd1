"""*ActorHost*: a pool of engines as named Ray actors, which live and die with the driver's job."""

from __future__ import annotations

import contextlib
import logging
import uuid
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
_LOGS = "(its log: worker-*.err in the folder of Ray's session, on its node)"


class ActorHost:
    """One pool. Ray restarts an actor that dies under its name, and the new one loads the model.

    An elastic pool starts its fewest replicas. `grow` adds the others as actors that wait for
    resources: Ray places each once the cluster has a node for it, and again after it lost its node.
    """

    def __init__(self, spec: PoolSpec) -> None:
        pool, token = spec.pool, uuid.uuid4().hex[:6]  # an earlier attempt's actors may still die
        self._spec, self._timeout_s = spec, pool.start_timeout_s
        names = [
            f"markovscale-{spec.run_id}-{token}-{spec.role}-{i}" for i in range(pool.most_replicas)
        ]
        self._growing = names[pool.least_replicas :]
        self._actors: list[Any] = []
        self._pending: dict[Any, Any] = {}
        for name in names[: pool.least_replicas]:
            self._start(name)
        at = {"replicas": names[: pool.least_replicas], "pending": []}
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
        self._actors.append(actor)
        self._pending[actor.ping.remote()] = actor

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
        if not self._growing:
            return False
        name = self._growing.pop(0)
        self._start(name)
        self.address.at["replicas"].append(name)
        self.address.at["pending"].append(name)
        return True

    def stats(self) -> list[EngineStats]:
        """See `actors.engines.hosts.Host.stats`."""
        self._note_started()
        waiting = set(self._pending.values())
        asked = [actor.stats.remote() for actor in self._actors if actor not in waiting]
        done, _ = ray.wait(asked, num_returns=len(asked), timeout=_STATS_S) if asked else ([], [])
        answers = []
        for answer in done:
            with contextlib.suppress(ray.exceptions.RayError):  # it may be restarting
                answers.append(ray.get(answer))
        return answers

    def stop(self) -> None:
        """See `actors.engines.hosts.Host.stop`."""
        actors, self._actors, self._pending = self._actors, [], {}
        for actor in actors:
            ray.kill(actor, no_restart=True)  # Ray ends the engine's own processes with it

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
