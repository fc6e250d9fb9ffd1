"""Clients of the engines of a run, from the addresses that its driver hands out."""

from __future__ import annotations

from typing import Any

from actors.engines.process_transport import ProcessTransport
from actors.routing.address import PoolAddress
from actors.routing.client import EngineClient
from actors.routing.serve_transport import ServeTransport
from actors.routing.transport import ActorTransport, Transport
from pipeline.config.runtime import RequestConfig


def clients_of(
    engines: dict[str, Any], settings: RequestConfig
) -> tuple[EngineClient, EngineClient | None]:
    """The clients for the engines that `actors.engines.launch.start_engines` described.

    Must be called on the event loop that will use them.
    """
    generator, verifier = engines["generator"], engines["verifier"]
    return (
        EngineClient(transport_of(generator, settings), settings, "generator"),
        None
        if verifier is None
        else EngineClient(transport_of(verifier, settings), settings, "verifier"),
    )


def transport_of(address: PoolAddress, settings: RequestConfig) -> Transport:
    """The way to the pool at `address`."""
    match address["host"]:
        case "actors":
            return ActorTransport(address, settings.affinity_margin)
        case "serve":
            return ServeTransport(address, settings.no_replica_timeout_s)
        case "process":
            return ProcessTransport(address)
