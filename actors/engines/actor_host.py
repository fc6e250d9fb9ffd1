"""*ActorHost*, *EngineHost*: a pool of engines as named Ray actors, which live and die with the
driver's job, and the actor that runs one of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
import uuid
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any, NoReturn, Protocol, TypeVar

import ray

from actors.cluster.background import supervised
from actors.cluster.process_guard import ProcessGuard
from actors.engines import vllm_setup
from actors.engines.engine_stats import EngineStats
from actors.engines.hosts import PoolSpec
from actors.routing.bundles import CallServer
from actors.routing.calls import ROLES, A, Call
from actors.routing.transport import NAMESPACE, PoolAddress
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import ConfigError, EngineDeadError, EngineError
from pipeline.core.protocol import Failure

R = TypeVar("R")

_CAUSE_LENGTH = 500


class Engine(Protocol):
    """What a replica runs; its constructor loads the model and blocks until it can serve."""

    async def serve(self, call: Any) -> Any:
        """Answer a call of the engine's role, or say by a `Failure` why not.

        A failure's tokens are those that it cost, None where nobody knows. Cancelling aborts.

        Raises:
            EngineDeadError: if no further call can be served; the process must be replaced.
        """
        ...

    async def abort(self, request_id: str) -> int | None: ...

    async def warm_up(self) -> None: ...

    async def health(self, stall_s: float = 120.0) -> None: ...

    def stats(self, replica: str = "") -> EngineStats: ...


def engine_fields(spec: PoolSpec) -> tuple[Any, ...]:
    """What `EngineHost` is made with besides its name: plain values, given to every restart."""
    return (
        spec.role,
        spec.model.model_dump(mode="json"),
        spec.pool.model_dump(mode="json"),
        spec.scripted,
        spec.samples,
    )


def engine_of(
    role: str,
    model: dict[str, Any],
    pool: dict[str, Any],
    scripted: dict[str, Any] | None,
    samples: Sequence[Call[Any]] = (),
) -> Engine:
    """The engine that a replica runs, loaded and ready."""
    engine: Engine
    if scripted is not None:
        engine = resolve_name(ROLES[role].scripted)(scripted)
    elif samples:
        engine = resolve_name(ROLES[role].engine)(model, pool, samples)
    else:
        engine = resolve_name(ROLES[role].engine)(model, pool)
    return engine


class EngineHost:
    """Holds one engine, and ends its own process when the engine cannot serve any more.

    Ending the process, rather than raising, is what makes Ray see a system error: it then starts
    another, and callers learn that the replica is gone.

    Args:
        replica: its name.
        role: of `actors.routing.calls.ROLES`.
        model: fields of the model's configuration.
        pool: fields of `PoolConfig`.
        scripted: settings of a scripted engine in place of a real one.
        samples: a call of each kind that will come, for checks before the model is loaded.

    Raises:
        EngineError: in one line, the cause and where the whole log is; a fault of the configuration
            is raised by `ping` instead, since Ray would try again what raises here.
    """

    def __init__(
        self,
        replica: str,
        role: str,
        model: dict[str, Any],
        pool: dict[str, Any],
        scripted: dict[str, Any] | None = None,
        samples: Sequence[Call[Any]] = (),
    ) -> None:
        self._replica = replica
        self._start_s = float(pool["start_timeout_s"])
        self._health_s = float(pool["health_timeout_s"])
        self._guard = ProcessGuard(self._health_s) if _is_actor() else None
        self._model = model.get("model")
        self._refusal: ConfigError | None = None
        try:
            self._engine = engine_of(role, model, pool, scripted, samples)
        except ConfigError as error:
            self._refusal = error
        except Exception as error:
            logger.exception("%s does not start", self._replica)
            raise EngineError(start_failure(self._model, error)) from error
        self._calls = CallServer(self.serve)
        self._warming: asyncio.Task[None] | None = None
        self._watching: list[asyncio.Task[None]] = []

    async def exchange(self, *chunks: bytes) -> bytes:
        """Take a bundle of calls, give a bundle of answers (`actors.routing.bundles`)."""
        return await self._calls.exchange(*chunks)

    async def serve(self, call: Call[A]) -> A | Failure:
        """See `Engine.serve`; a dead engine ends the process."""
        outcome: A | Failure = await self._alive(self._engine.serve(call))
        return outcome if isinstance(outcome, Failure) else replace(outcome, replica=self._replica)

    async def ping(self) -> int:
        """Answer once the engine is loaded and warm; the process id.

        Raises:
            ConfigError: where no such engine can ever start.
        """
        if self._refusal is not None:
            raise self._refusal
        await self._warm()
        self._watch()
        return os.getpid()

    async def stats(self) -> EngineStats:
        """What the engine counted so far."""
        return self._engine.stats(self._replica)

    async def _alive(self, call: Awaitable[R]) -> R:
        self._watch()
        try:
            return await call
        except EngineDeadError as error:
            self._die(error)

    async def _warm(self) -> None:
        if self._warming is None:
            self._warming = asyncio.create_task(self._warm_up())
        await asyncio.shield(self._warming)

    async def _warm_up(self) -> None:
        warming = asyncio.ensure_future(self._engine.warm_up())
        # nothing else would end a replica that hangs here: its health is watched once it is warm
        _, pending = await asyncio.wait({warming}, timeout=self._start_s)
        if pending:
            self._die(EngineDeadError(f"the engine was not warm within {self._start_s:g} s"))
        try:
            warming.result()
        except EngineDeadError as error:
            self._die(error)
        except ConfigError:
            raise
        except Exception as error:  # such as: a model that makes no scores
            logger.exception("%s does not start", self._replica)
            raise EngineError(start_failure(self._model, error)) from error

    def _watch(self) -> None:
        """From now on end the process when the engine is dead, or this event loop hangs."""
        if not self._watching:
            self._watching = [supervised(self._check_health, "the watch over the engine")]
            if self._guard is not None:
                self._watching.append(supervised(self._guard.beat_for_ever, "the heartbeat"))

    async def _check_health(self) -> None:
        """For as long as the process lives. What else a check raises is tried again: it ends the
        process once no check has passed for `health_timeout_s`."""
        passed = time.monotonic()
        while True:
            await asyncio.sleep(self._health_s / 4)
            try:
                # an engine keeps this limit itself; the second one is for a check that hangs
                async with asyncio.timeout(2 * self._health_s):
                    await self._engine.health(self._health_s)
                passed = time.monotonic()
            except EngineDeadError as error:
                self._die(error)
            except Exception as error:
                failed_s = time.monotonic() - passed
                if failed_s >= self._health_s:
                    self._die(
                        EngineDeadError(
                            f"no health check passed for {failed_s:.0f} s, the last: {error!r}"
                        )
                    )
                logger.exception("%s could not check its engine's health", self._replica)

    def _die(self, error: EngineDeadError) -> NoReturn:
        logger.critical("%s ends: %s", self._replica, error)
        os._exit(1)


def start_failure(model: Any, error: BaseException) -> str:
    """Why an engine did not start, in one line, with the place of its log."""
    words = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if len(words) > _CAUSE_LENGTH:
        words = f"{words[:_CAUSE_LENGTH]} ..."
    log = os.path.realpath("/proc/self/fd/2")  # Ray sends what a worker prints to a file
    where = f"; the whole log: {log} on {os.uname().nodename}" if os.path.isfile(log) else ""
    return f"{model}: {words}{where}"


def _is_actor() -> bool:
    return ray.is_initialized() and ray.get_runtime_context().get_actor_id() is not None


logger = logging.getLogger(__name__)

_CALLS_AT_ONCE = 10_000  # of one actor; admission is the controllers' business
_STATS_S = 5.0
IDLE_S = 900.0
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
        pending = [a.stats.remote() for name, a in self._actors.items() if name not in waiting]
        done, _ = (
            ray.wait(pending, num_returns=len(pending), timeout=_STATS_S) if pending else ([], [])
        )
        answers = []
        for answer in done:
            with contextlib.suppress(ray.exceptions.RayError):  # it may be restarting
                answers.append(ray.get(answer))
        if self._spec.pool.max_replicas is not None:
            self._resize(answers)
        return answers

    def stop(self) -> None:
        """See `actors.engines.hosts.Host.stop`."""
        actors, self._actors, self._pending = self._actors, {}, {}
        for actor in actors.values():
            ray.kill(actor, no_restart=True)  # Ray ends the engine's own processes with it

    def _resize(self, stats: Sequence[EngineStats]) -> None:
        """Give idle replicas back, and those that still wait for resources before them; or start
        one where requests wait."""
        now, idle = time.monotonic(), []
        waiting = any(each.waiting for each in stats)
        if waiting:
            self.grow()
        if waiting or not any(each.requests for each in stats):  # or their first is still to come
            self._worked = {}
        for each in stats:
            work = (each.life, each.requests, each.busy_s)
            before, since = self._worked.get(each.replica, (None, now))
            if work != before:
                self._worked[each.replica] = (work, now)
            elif now - since >= IDLE_S:
                idle.append(each.replica)
        if not idle:
            return
        spare = idle[: max(0, len(stats) - self._spec.pool.least_replicas)]
        for name in (*self._pending.values(), *spare):
            ray.kill(self._actors.pop(name), no_restart=True)
        self._pending = {}
        if spare:
            logger.info("%d idle %ss are given back", len(spare), self.address.role)

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
