"""*EngineHost*: runs one engine in a Ray actor, and ends its process when it cannot serve."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any, NoReturn, Protocol, TypeVar

import ray

from actors.cluster.background import supervised
from actors.cluster.process_guard import ProcessGuard
from actors.engines.call_server import CallServer
from actors.engines.engine_stats import EngineStats
from actors.engines.hosts import PoolSpec
from actors.routing.calls import ROLES, A, Call
from pipeline.core.errors import ConfigError, EngineDeadError, EngineError
from pipeline.core.protocol import Failure

logger = logging.getLogger(__name__)

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


class Refused:
    """In place of an engine that no other try can start, so that none is made."""

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    async def serve(self, call: Any) -> Any:
        """Nothing can be served."""
        raise EngineDeadError(str(self._error))

    async def abort(self, request_id: str) -> int | None:
        """Nothing runs."""
        return None

    async def warm_up(self) -> None:
        """Say why."""
        raise self._error

    async def health(self, stall_s: float = 120.0) -> None:
        """It will not be well."""
        raise EngineDeadError(str(self._error))

    def stats(self, replica: str = "") -> EngineStats:
        """Nothing was counted."""
        raise self._error


class EngineHost:
    """Holds one engine, and ends its own process when the engine cannot serve any more.

    Ending the process, rather than raising, is what makes Ray see a system error: it then starts
    another, and callers are told that the replica is gone.

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
        self._engine: Engine
        try:
            self._engine = engine_of(role, model, pool, scripted, samples)
        except ConfigError as error:
            self._engine = Refused(error)
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
