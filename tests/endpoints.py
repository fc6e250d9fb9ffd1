"""A run, and clients, over servers of `tests.chat_servers`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from actors.engines.endpoint_transport import EndpointTransport
from actors.engines.launch import Engines, start_engines
from actors.routing.client import EngineClient
from actors.routing.transport import PoolAddress
from pipeline.config.run import RunConfig
from pipeline.config.runtime import RequestConfig
from pipeline.core.prompts import Message
from pipeline.core.protocol import Request
from tests.live import config_of

QUICK = {"backoff_s": 0.01, "no_replica_timeout_s": 20.0}


def endpoint_run(
    runs: str,
    endpoint: dict[str, Any],
    *,
    size: int = 6,
    judge: dict[str, Any] | None = None,
    start_timeout_s: float = 60.0,
    **science: Any,
) -> RunConfig:
    """A run of a generator behind an endpoint, and no verifier; a `judge` there may grade it."""
    if judge is not None:
        source = {"name": "arithmetic", "size": size, "grader": {"kind": "judge"}}
        science |= {"benchmarks": [source], "judge": judge}
    science = {"strategies": ["base", "mr_thinking"], "strategy": {"n": 3}, **science}
    strategies, generator = science.pop("strategies"), science.pop("generator", None)
    config = config_of(runs, strategies, size=size, verifier=None, **science)
    values = config.model_dump(mode="json")
    values["science"]["generator"] = generator or values["science"]["generator"]
    values["runtime"] = {
        "runs": runs,
        "requests": QUICK,
        "generator": {"endpoint": endpoint, "start_timeout_s": start_timeout_s},
        "judge": {"endpoint": endpoint if judge else None, "num_gpus": 0},
    }
    return RunConfig.parse(values)


@contextmanager
def started(config: RunConfig) -> Iterator[Engines]:
    """Its endpoint, looked at as before a run."""
    engines = start_engines(config.science, config.runtime, "endpoint")
    yield engines
    engines.stop()


@asynccontextmanager
async def generator_of(
    engines: Engines, role: str = "generator", **requests: Any
) -> AsyncIterator[EngineClient]:
    """A client of the generator, or of another role."""
    settings = RequestConfig(**{**QUICK, **requests})
    transport = EndpointTransport(engines.address.pools[role], settings)
    yield EngineClient(transport, settings, role)
    await transport.close()


@asynccontextmanager
async def client_of(
    urls: list[str],
    model: dict[str, Any] | None = None,
    endpoint: dict[str, Any] | None = None,
    **requests: Any,
) -> AsyncIterator[tuple[EngineClient, EndpointTransport]]:
    """A client of servers that nobody looked at, and its transport."""
    at = {
        "endpoint": {"base_urls": urls, "model": "tiny", "max_concurrency": 64, **(endpoint or {})},
        "model": {"model": "tiny", **(model or {})},
        "controllers": 1,
        "found": {},
    }
    settings = RequestConfig(**{**QUICK, **requests})
    address = PoolAddress(host="endpoint", role="generator", at=at)
    transport = EndpointTransport(address, settings)
    yield EngineClient(transport, settings, "generator"), transport
    await transport.close()


def asks(text: str = "12+7*3?", **fields: Any) -> Request:
    """A request for a reply to `text`."""
    base = {"max_tokens": 200, "temperature": 0.7, "top_p": 0.95, "seed": 3}
    return Request(messages=(Message("user", text),), **{**base, **fields})
