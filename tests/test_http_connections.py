"""Connections to servers, whose requests are cancelled at every moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from actors.routing.http_connections import Credentials, HttpConnections
from pipeline.config.endpoint import EndpointConfig

_REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_TURNS = 60
"""Of the event loop: more than a request takes from its start, or from its reply, to its end."""


class Server:
    """Answers every request, on the event loop of its clients."""

    def __init__(self) -> None:
        self.open = 0
        self.replied = asyncio.Event()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, for as long as its client keeps it."""
        self.open += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(_REPLY)
                self.replied.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Server, HttpConnections, str]]:
    """A server, the connections to it and its address."""
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    endpoint = EndpointConfig(base_urls=[url], model="any")
    async with listening, HttpConnections(endpoint, Credentials({}, ())) as http:
        yield server, http, url


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("after_reply", [False, True])
async def test_a_cancelled_request_keeps_no_other_from_its_answer(
    times: int, after_reply: bool
) -> None:
    """Whenever it is cancelled, and however often: the next one is answered, and no connection
    stays open but that one's."""
    async with served() as (server, http, url):
        for turns in range(_TURNS):
            server.replied.clear()
            task = asyncio.create_task(http.send("GET", url, most_bytes=9_000))
            if after_reply:
                await server.replied.wait()
            for _ in range(turns):
                await asyncio.sleep(0)
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait({task})
            async with asyncio.timeout(10):
                response = await http.send("GET", url, most_bytes=9_000)
                assert response.text == "ok"
                while server.open > 1:
                    await asyncio.sleep(0.001)
