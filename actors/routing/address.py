"""Addresses of engine pools: JSON-able values from which any process can connect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from actors.cluster.run_monitor import NAMESPACE

__all__ = ["NAMESPACE", "EnginesAddress", "PoolAddress"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAddress:
    """One pool of engines; picklable."""

    host: str
    """What started it, and so how it is reached (`actors.engines.hosts.HOSTS`)."""
    role: str
    """What it serves (`actors.routing.roles.ROLES`)."""
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
