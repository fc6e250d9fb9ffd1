"""*HOSTS*: the hosts of engine pools: how each starts a pool, and how its engines are reached.

A new host is a class that takes a `PoolSpec` (`Host`), a transport
(`actors.routing.transport.Transport`), and a line of `HOSTS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Protocol

from actors.engines.engine_stats import EngineStats
from actors.routing.calls import Call
from actors.routing.client import EngineClient
from actors.routing.transport import EnginesAddress, PoolAddress, Transport
from pipeline.config.models import ModelConfig
from pipeline.config.runtime import PoolConfig, RequestConfig, RuntimeConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """What a host is asked to start."""

    role: str
    """Of `actors.routing.calls.ROLES`."""
    model: ModelConfig
    pool: PoolConfig
    runtime: RuntimeConfig
    run_id: str
    """Names actors and applications."""
    samples: tuple[Call[Any], ...] = ()
    """A call of each kind that will come: checked before weights are loaded."""

    @property
    def scripted(self) -> dict[str, Any] | None:
        """Settings of scripted engines, where the run has these."""
        script = self.runtime.scripted
        if script is None:
            return None
        logprobs = script.logprobs or getattr(self.model, "logprobs", False)
        return script.model_dump(mode="json") | {"logprobs": logprobs}


class Host(Protocol):
    """One started pool; its constructor begins the start and does not wait for it."""

    address: PoolAddress

    def wait(self) -> None:
        """Return once every replica serves.

        Raises:
            EngineError: if one does not start, or not in time.
        """
        ...

    def grow(self) -> bool:
        """Ask for one replica more of an elastic pool; False where it has all."""
        ...

    def stats(self) -> list[EngineStats]:
        """Of every replica that answers."""
        ...

    def stop(self) -> None:
        """End the pool and its processes; may be called twice."""
        ...


HOSTS = {
    "actors": (
        "actors.engines.actor_host:ActorHost",
        "actors.routing.actor_transport:ActorTransport",
    ),
    "endpoint": (
        "actors.engines.endpoint_host:EndpointHost",
        "actors.engines.endpoint_transport:EndpointTransport",
    ),
}
"""By name, ``module:class`` of a host and of the transport to what it started; imported when used.
``endpoint`` is for pools that have one."""


def started(spec: PoolSpec) -> Host:
    """A pool whose replicas begin to start.

    Raises:
        ConfigError: if it asks for something that cannot be.
    """
    name, _ = HOSTS["actors" if spec.pool.endpoint is None else "endpoint"]
    host: Host = resolve_name(name)(spec)
    return host


def transport_to(address: PoolAddress, settings: RequestConfig) -> Transport:
    """The way to the pool at `address`, for the running event loop."""
    transport: Transport = resolve_name(HOSTS[address.host][1])(address, settings)
    return transport


def clients_of(engines: EnginesAddress, settings: RequestConfig) -> dict[str, EngineClient]:
    """By role, clients of the engines that `actors.engines.launch.start_engines` described.

    Must be called on the event loop that will use them.

    Args:
        engines: where they are.
        settings: of requests.
    """
    return {
        role: EngineClient(transport_to(address, settings), settings, role)
        for role, address in engines.pools.items()
    }
