"""Addresses of engine pools: JSON-able values from which any process can connect."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from actors.cluster.run_monitor import NAMESPACE

__all__ = ["NAMESPACE", "EnginesAddress", "Kind", "PoolAddress"]

Kind = Literal["generator", "verifier"]


class PoolAddress(TypedDict):
    """One pool of engines; JSON-able."""

    host: Literal["actors", "serve", "process"]
    kind: Kind
    replicas: list[str]
    """Names of plain actors, in `NAMESPACE`."""
    app: str
    """Serve's application."""
    scripted: dict[str, Any] | None
    """Settings of scripted engines in the caller's own process."""


class EnginesAddress(TypedDict):
    """All that a controller needs to reach the engines of a run; JSON-able."""

    generator: PoolAddress
    verifier: PoolAddress | None
    in_flight: int
    """Chains that keep the generator pool full without swamping it, over all controllers: what a
    run begins with."""
    most: int
    """Chains that the controllers are sized for."""
