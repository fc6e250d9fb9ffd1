"""The process around one engine: what a plain Ray actor and a Serve deployment both run."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, NoReturn, Protocol, TypeVar

from actors.engines import orphan_reaper
from actors.engines.engine_stats import EngineStats
from actors.routing.interfaces import Generated, Scored
from pipeline.core.errors import EngineDeadError
from pipeline.core.protocol import Failure, Request

logger = logging.getLogger(__name__)

R = TypeVar("R")


class Engine(Protocol):
    """What a host holds; a generator also has `generate`, a verifier `score`."""

    async def abort(self, request_id: str) -> int | None: ...

    async def warm_up(self) -> None: ...

    async def health(self, stall_s: float = 120.0) -> None: ...

    def stats(self, replica: str = "") -> EngineStats: ...


def engine_of(
    kind: str, model: dict[str, Any], pool: dict[str, Any], scripted: dict[str, Any] | None
) -> Any:
    """The engine that a replica runs, loaded and ready."""
    if scripted is not None:
        from actors.engines.scripted import ScriptedGenerator, ScriptedVerifier

        return ScriptedGenerator(scripted) if kind == "generator" else ScriptedVerifier(scripted)
    if kind == "generator":
        from actors.engines.generator import GeneratorEngine

        return GeneratorEngine(model, pool)
    from actors.engines.verifier import VerifierEngine

    return VerifierEngine(model, pool)


class EngineHost:
    """Holds one engine, and ends its own process when the engine cannot serve any more.

    Ending the process, rather than raising, is what makes Ray see a system error: it then starts
    another, and callers are told that the replica is gone.

    Args:
        kind: ``generator`` or ``verifier``.
        replica: its name; a Serve replica is told its name by Serve.
        model: fields of the model's configuration.
        pool: fields of `PoolConfig`.
        scripted: settings of a scripted engine in place of a real one.
    """

    def __init__(
        self,
        kind: str,
        replica: str,
        model: dict[str, Any],
        pool: dict[str, Any],
        scripted: dict[str, Any] | None = None,
    ) -> None:
        self._replica = replica or _serve_replica()
        self._start_s = float(pool["start_timeout_s"])
        self._health_s = float(pool["health_timeout_s"])
        if scripted is None:
            orphan_reaper.hold()
        self._engine = engine_of(kind, model, pool, scripted)
        self._warming: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def generate(
        self, request: Request, request_id: str, priority: float, deadline_s: float
    ) -> Generated | Failure:
        """See `GeneratorEngine.generate`."""
        outcome: Generated | Failure = await self._alive(
            self._engine.generate(request, request_id, priority, deadline_s)
        )
        return outcome if isinstance(outcome, Failure) else replace(outcome, replica=self._replica)

    async def score(
        self, question: str, reply: str, request_id: str, deadline_s: float
    ) -> Scored | Failure:
        """See `VerifierEngine.score`."""
        outcome: Scored | Failure = await self._alive(
            self._engine.score(question, reply, request_id, deadline_s)
        )
        return outcome

    async def abort(self, request_id: str) -> int | None:
        """Stop a request; its tokens so far, None where it does not run here."""
        tokens: int | None = await self._alive(self._engine.abort(request_id))
        return tokens

    async def ping(self) -> int:
        """Answer once the engine is loaded and warm; the process id."""
        await self._warm()
        self._watch()
        return os.getpid()

    async def check_health(self) -> None:
        """Called by Serve, and first before a replica takes requests: it returns once the engine
        is warm. The engine's health is watched here, and a dead one ends the process."""
        await self._warm()
        self._watch()

    async def stats(self) -> EngineStats:
        """What the engine counted so far."""
        stats: EngineStats = self._engine.stats(self._replica)
        return stats

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

    def _watch(self) -> None:
        if self._watching is None:
            self._watching = asyncio.create_task(self._check_health())

    async def _check_health(self) -> None:
        while True:
            await asyncio.sleep(self._health_s / 4)
            try:
                await self._engine.health(self._health_s)
            except EngineDeadError as error:
                self._die(error)

    def _die(self, error: EngineDeadError) -> NoReturn:
        logger.critical("%s ends: %s", self._replica, error)
        os._exit(1)


def _serve_replica() -> str:
    from ray import serve

    return str(serve.get_replica_context().replica_id.unique_id)
