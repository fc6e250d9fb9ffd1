"""Clients of the engines of a run, from the addresses that its driver hands out."""

from __future__ import annotations

from collections.abc import Mapping

from actors.engines.hosts import transport_to
from actors.routing.address import EnginesAddress
from actors.routing.client import EngineClient
from pipeline.config.runtime import RequestConfig


def clients_of(
    engines: EnginesAddress, settings: RequestConfig, models: Mapping[str, str] | None = None
) -> dict[str, EngineClient]:
    """By role, clients of the engines that `actors.engines.launch.start_engines` described.

    Must be called on the event loop that will use them.

    Args:
        engines: where they are.
        settings: of requests.
        models: their names by role, for traces.
    """
    named = models or {}
    return {
        role: EngineClient(transport_to(address, settings), settings, role, named.get(role, role))
        for role, address in engines.pools.items()
    }
