"""*HttpConnections*: HTTP requests to servers, over connections that are used again.

Each connection has an httpx client of its own: one client for all of them would look at every
connection that it holds for each request, which cost 8 ms of CPU a request with 128 at once.
"""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from pipeline.config.endpoint import EndpointConfig
from pipeline.core.errors import ConfigError

_SHORT = 4  # a value that short would be found in any text
_PART = 8  # characters of a key in a row that are taken for a part of it


@dataclass(frozen=True, slots=True)
class Credentials:
    """Headers of every request; never shown."""

    headers: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    """The keys in every form in which a server may repeat them."""

    def masked(self, text: str) -> str:
        """Text without the keys, or any part of them of more than a few characters.

        Upper or lower case, blanks and line breaks within a key make no difference.
        """
        places = [place for place, character in enumerate(text) if not character.isspace()]
        packed = "".join(text[place] for place in places).lower()
        if len(packed) != len(places):  # a character whose lower case is longer
            packed = "".join(text[place] for place in places)
        hidden = [False] * len(packed)
        for secret in self.secrets:
            size = max(_SHORT + 1, min(len(secret) - 1, max(_PART, len(secret) // 3)))
            for start in range(len(secret) - size + 1):
                for at in _occurrences(packed, secret[start : start + size]):
                    hidden[at : at + size] = [True] * size
        if not any(hidden):
            return text
        pieces, end = [], 0
        for is_hidden, run in groupby(range(len(hidden)), hidden.__getitem__):
            if is_hidden:
                found = list(run)
                pieces += [text[end : places[found[0]]], "***"]
                end = places[found[-1]] + 1
        return "".join(pieces) + text[end:]


def credentials_of(endpoint: EndpointConfig, environment: Mapping[str, str]) -> Credentials:
    """What the variables that a configuration names hold in this process.

    Raises:
        ConfigError: naming a variable that is not set, or that no header can hold.
    """
    named = dict(endpoint.headers_env)
    if endpoint.api_key_env is not None:
        named["Authorization"] = endpoint.api_key_env
    values = {}
    for header, variable in named.items():
        value = environment.get(variable, "").strip()
        if not value:
            raise ConfigError(
                f"the environment variable {variable} must be set where controllers run: "
                f"an endpoint of the run sends it as {header}"
            )
        if not value.isascii() or not value.isprintable():
            raise ConfigError(f"the environment variable {variable} must be one line of ASCII")
        values[header] = value
    secrets = {form for value in values.values() if len(value) > _SHORT for form in _forms(value)}
    if endpoint.api_key_env is not None:
        values["Authorization"] = f"Bearer {values['Authorization']}"
    return Credentials(values, tuple(sorted(secrets, key=len, reverse=True)))


def _forms(value: str) -> Iterator[str]:
    """A key as it is, and as encodings write it, in lower case and without blanks."""
    data = value.encode()
    forms = [value, json.dumps(value)[1:-1], quote(value, safe=""), data.hex()]
    for before in range(3):  # in base64 it looks otherwise at each place within three bytes
        kept = slice(-(-8 * before // 6), 4 * (before + len(data)) // 3)
        forms.append(base64.b64encode(bytes(before) + data).decode()[kept])
    forms += [form.translate(str.maketrans("+/", "-_")) for form in forms[-3:]]
    yield from ("".join(form.split()).lower() for form in forms)


def _occurrences(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


_IDLE_S = 2.0  # vLLM closes idle connections after 5 s: a request must not cross that on its way
_ERROR_BYTES = 64 * 1024
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class ReplyTooLargeError(httpx.HTTPError):
    """A reply has more bytes than its request can need."""


class HttpReply(NamedTuple):
    """A whole reply; of one with the status of an error, its first 64 KiB."""

    status: int
    headers: httpx.Headers
    reason: str
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status says that the request was served."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as UTF-8, whatever the header says."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None


class HttpConnections:
    """Connections of the running event loop; the requests of one moment have one each."""

    def __init__(self, endpoint: EndpointConfig, credentials: Credentials) -> None:
        self._settings: dict[str, Any] = {
            # a reply that is not compressed cannot unpack to more than was sent
            "headers": {"accept-encoding": "identity", **credentials.headers},
            "timeout": httpx.Timeout(None, connect=endpoint.connect_timeout_s),
            "limits": httpx.Limits(max_connections=1, keepalive_expiry=_IDLE_S),
            "verify": httpx.create_ssl_context(),
        }
        self._clients: set[httpx.AsyncClient] = set()
        self._free: dict[bytes, list[httpx.AsyncClient]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def send(self, method: str, url: str, *, most_bytes: int, **fields: Any) -> HttpReply:
        """Send a request and read its reply; cancelling closes the connection.

        Args:
            method, url, fields: as of `httpx.AsyncClient.request`.
            most_bytes: of the reply's body, unpacked.

        Raises:
            httpx.HTTPError: where there is no whole reply, or it has more bytes.
            ConfigError: where the environment names a proxy that httpx cannot use.
        """
        free = self._free.setdefault(httpx.URL(url).netloc, [])
        if free:
            client = free.pop()  # the last one used, whose connection is most likely still open
        else:
            client = self._client()
            self._clients.add(client)
        try:
            async with client.stream(method, url, **fields) as response:
                reply, is_whole = await _read(response, most_bytes)
        except BaseException:
            # cancelled at some moments, httpcore 1.0 holds its connection as taken, perhaps open:
            # whoever used this client again would wait for that for ever
            self._close(client)
            raise
        if is_whole:
            free.append(client)
        else:
            self._close(client)
        return reply

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


async def _read(response: httpx.Response, most_bytes: int) -> tuple[HttpReply, bool]:
    """(the reply, whether all of it was read)."""
    is_error = response.status_code >= 300
    most = min(most_bytes, _ERROR_BYTES) if is_error else most_bytes
    unpack = _unpacker(response.headers.get("content-encoding", ""))
    body, is_whole = bytearray(), True
    async for chunk in response.aiter_raw():
        try:
            # one byte more than may come shows that more came
            body += chunk if unpack is None else unpack.decompress(chunk, most + 1 - len(body))
        except zlib.error as error:
            raise httpx.DecodingError(f"the reply cannot be unpacked: {error}") from error
        if len(body) > most:
            if not is_error:
                raise ReplyTooLargeError(f"the reply must have at most {most:,} bytes")
            is_whole = False
            break
    reason = response.reason_phrase
    return HttpReply(response.status_code, response.headers, reason, bytes(body[:most])), is_whole


def _unpacker(encoding: str) -> Any:
    """What unpacks the encodings that servers use although none was asked for."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(_GZIP_OR_ZLIB)
    raise httpx.DecodingError(f"the reply is encoded as {encoding!r}, which was not requested")
