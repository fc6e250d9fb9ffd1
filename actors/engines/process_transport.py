"""Reaching a scripted engine that runs in the caller's own process."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from actors.engines.scripted import ScriptedGenerator, ScriptedVerifier
from actors.routing.address import PoolAddress
from actors.routing.router import RouterStats
from actors.routing.transport import ReplicaLostError
from pipeline.core.errors import EngineDeadError


class ProcessTransport:
    """The way to a scripted engine in this very process: no Ray, one replica."""

    def __init__(self, address: PoolAddress) -> None:
        settings = address["scripted"] or {}
        self.engine: Any = (
            ScriptedGenerator(settings)
            if address["kind"] == "generator"
            else ScriptedVerifier(settings)
        )

    async def place(
        self,
        method: str,
        arguments: tuple[Any, ...],
        *,
        session: str,
        request_id: str,
        avoid: Collection[str],
    ) -> ProcessCall:
        """Hand a request to the engine."""
        del session, request_id, avoid
        return ProcessCall(getattr(self.engine, method)(*arguments))

    def router_stats(self) -> RouterStats | None:
        """There is nothing to route."""
        return None


class ProcessCall:
    """A request to an engine in this process: awaiting it is running it."""

    replica = "process"

    def __init__(self, call: Any) -> None:
        self._call = call

    async def result(self) -> Any:
        """What the engine answered; see `Call.result`."""
        try:
            return await self._call
        except EngineDeadError as error:
            raise ReplicaLostError(str(error)) from error

    def abort(self) -> None:
        """Cancelling `result` has done it."""
