"""Scripted engines in the process of each caller: no Ray, one replica, nothing to start."""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from pkgutil import resolve_name
from typing import Any, Generic

from actors.engines.engine_stats import EngineStats
from actors.engines.hosts import PoolSpec
from actors.routing.calls import ROLES, A, Call
from actors.routing.router import RouterStats
from actors.routing.transport import PoolAddress, ReplicaLostError
from pipeline.config.runtime import RequestConfig
from pipeline.core.errors import EngineDeadError
from pipeline.core.protocol import Failure


class InProcess:
    """The host: the transport makes the engine."""

    def __init__(self, spec: PoolSpec) -> None:
        self.address = PoolAddress(host="process", role=spec.role, at={"scripted": spec.scripted})

    def wait(self) -> None:
        """See `Host.wait`."""

    def grow(self) -> bool:
        """See `Host.grow`; there is nothing to grow."""
        return False

    def stats(self) -> list[EngineStats]:
        """See `Host.stats`; each caller's engine counts for itself."""
        return []

    def stop(self) -> None:
        """See `Host.stop`."""


class ProcessTransport:
    """The way to an engine of this very process."""

    isolates = False

    def __init__(self, address: PoolAddress, settings: RequestConfig | None = None) -> None:
        del settings
        self.engine: Any = resolve_name(ROLES[address.role].scripted)(address.at["scripted"])

    async def place(self, call: Call[A], *, avoid: Collection[str]) -> ProcessCall[A]:
        """Hand a call to the engine."""
        del avoid
        return ProcessCall(self.engine.serve(call))

    def router_stats(self) -> RouterStats | None:
        """There is nothing to route."""
        return None


class ProcessCall(Generic[A]):
    """A call of an engine in this process: awaiting it is running it."""

    replica = "process"

    def __init__(self, call: Awaitable[A | Failure]) -> None:
        self._call = call

    async def result(self) -> A | Failure:
        """What the engine answered; see `Placed.result`."""
        try:
            return await self._call
        except EngineDeadError as error:
            raise ReplicaLostError(str(error)) from error

    def abort(self) -> None:
        """Cancelling `result` has done it."""
