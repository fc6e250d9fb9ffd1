"""HTTP connections to servers, each a client of its own that is used again.

One httpx client for all of them would look at every connection that it holds for each request: with
128 requests at once that cost 8 ms of CPU a request.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from actors.routing.credentials import Credentials
from pipeline.config.endpoint import EndpointConfig
from pipeline.core.errors import ConfigError

_IDLE_S = 2.0  # vLLM closes idle connections after 5 s: a request must not cross that on its way


class HttpConnections:
    """For the running event loop; the requests of one moment have a connection each."""

    def __init__(self, endpoint: EndpointConfig, credentials: Credentials) -> None:
        self._settings: dict[str, Any] = {
            "headers": credentials.headers,
            "timeout": httpx.Timeout(None, connect=endpoint.connect_timeout_s),
            "limits": httpx.Limits(max_connections=1, keepalive_expiry=_IDLE_S),
            "verify": httpx.create_ssl_context(),
        }
        self._clients: set[httpx.AsyncClient] = set()
        self._free: dict[bytes, list[httpx.AsyncClient]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def send(self, method: str, url: str, **fields: Any) -> httpx.Response:
        """As `httpx.AsyncClient.request`; cancelling closes the connection.

        Raises:
            httpx.HTTPError: where there is no whole response.
            ConfigError: where the environment names a proxy that httpx cannot use.
        """
        free = self._free.setdefault(httpx.URL(url).netloc, [])
        if free:
            client = free.pop()  # the last one used, whose connection is most likely still open
        else:
            client = self._client()
            self._clients.add(client)
        try:
            response = await client.request(method, url, **fields)
        except BaseException:
            # cancelled at some moments, httpcore 1.0 holds its connection as taken, perhaps open:
            # whoever used this client again would wait for that for ever
            self._close(client)
            raise
        free.append(client)
        return response

    def _close(self, client: httpx.AsyncClient) -> None:
        """In a task of its own, which nobody cancels."""
        self._clients.discard(client)
        task = asyncio.create_task(client.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _client(self) -> httpx.AsyncClient:
        try:
            return httpx.AsyncClient(**self._settings)
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise ConfigError(
                "HTTP_PROXY, HTTPS_PROXY and ALL_PROXY of the environment must name proxies that "
                f"httpx can use, or NO_PROXY must name the server, got: {error}"
            ) from error

    async def __aenter__(self) -> HttpConnections:
        """Nothing is opened yet."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close all."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close all."""
        for client in [*self._clients]:
            self._close(client)
        await asyncio.gather(*self._closing, return_exceptions=True)
