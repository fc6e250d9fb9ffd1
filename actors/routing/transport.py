"""*Transport*: the protocol for the way of a call to one replica of a pool."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from actors.cluster.run_monitor import NAMESPACE
from actors.routing.calls import A, Answer, Call
from actors.routing.router import RouterStats
from pipeline.core.protocol import Failure

__all__ = ["NAMESPACE", "EnginesAddress", "PoolAddress"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAddress:
    """One pool of engines; picklable."""

    host: str
    """What started it, and so how it is reached (`actors.engines.hosts.HOSTS`)."""
    role: str
    """What it serves (`actors.routing.calls.ROLES`)."""
    at: dict[str, Any] = field(default_factory=dict)
    """What the host's own transport needs to find it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginesAddress:
    """All that a controller needs to reach the engines of a run; picklable."""

    pools: dict[str, PoolAddress]
    """By role."""
    in_flight: int
    """Chains that keep the generator pool full without swamping it, over all controllers: what a
    run begins with."""
    most: int
    """Chains that the controllers are sized for."""


class NoReplicaError(Exception):
    """No replica of the pool lives at this moment.

    Args:
        why: in words.
        gone_s: for how long none has lived while the transport waited for one.
    """

    def __init__(self, why: str = "", *, gone_s: float = 0.0) -> None:
        super().__init__(why)
        self.gone_s = gone_s


class ReplicaLostError(Exception):
    """The replica went away with the request in it."""


Told = TypeVar("Told", bound=Answer, covariant=True)


class Placed(Protocol[Told]):
    """A call that a replica holds."""

    @property
    def replica(self) -> str:
        """Its name, for `Transport.place` to avoid."""
        ...

    async def result(self) -> Told | Failure:
        """What the engine answered.

        Raises:
            ReplicaLostError: if the replica went away; what the request cost is not known.
        """
        ...

    def abort(self) -> None:
        """Stop it in the engine; does not wait."""
        ...


class Transport(Protocol):
    """Places calls on replicas; made with a `PoolAddress` and a `RequestConfig`
    (`actors.engines.hosts.HOSTS`), on the event loop that uses it."""

    isolates: bool
    """Whether a replica runs a call that is `alone` without others beside it."""

    async def place(self, call: Call[A], *, avoid: Collection[str]) -> Placed[A]:
        """Hand a call to a replica, chosen by its session and without those in `avoid`.

        Raises:
            NoReplicaError: if none lives.
        """
        ...

    def router_stats(self) -> RouterStats | None:
        """How routing went; None where this process does not see it."""
        ...
