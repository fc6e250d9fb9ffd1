"""*InProcess*: a transport to a scripted engine of the calling process, without Ray."""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from pkgutil import resolve_name
from typing import Any, Generic

from actors.routing.calls import ROLES, A, Call
from actors.routing.transport import ReplicaLostError
from pipeline.core.errors import EngineDeadError
from pipeline.core.protocol import Failure


class InProcess:
    """A `Transport` with one replica.

    Args:
        role: of `actors.routing.calls.ROLES`.
        script: fields of `pipeline.config.runtime.Script`.
    """

    isolates = False

    def __init__(self, role: str, **script: Any) -> None:
        self.engine: Any = resolve_name(ROLES[role].scripted)(script)

    async def place(self, call: Call[A], *, avoid: Collection[str]) -> ProcessCall[A]:
        """See `Transport.place`."""
        del avoid
        return ProcessCall(self.engine.serve(call))


class ProcessCall(Generic[A]):
    """A call of an engine in this process: awaiting it is running it."""

    replica = "process"

    def __init__(self, call: Awaitable[A | Failure]) -> None:
        self._call = call

    async def result(self) -> A | Failure:
        """See `Placed.result`."""
        try:
            return await self._call
        except EngineDeadError as error:
            raise ReplicaLostError(str(error)) from error

    def abort(self) -> None:
        """Cancelling `result` has done it."""
