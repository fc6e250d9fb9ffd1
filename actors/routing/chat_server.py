"""*ChatServer*: sends one request to a server with an OpenAI-compatible API, and reads the reply.

Nothing here tries twice. Tries, deadlines over several of them and accounts are the client's
(`actors.routing.client`); which server gets a request is the transport's.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from actors.routing.http_connections import Credentials, HttpConnections, HttpReply
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Failure
from pipeline.core.text import one_line

logger = logging.getLogger(__name__)

for _name in ("httpx", "httpcore"):  # else lines of every request, with the headers of replies
    logging.getLogger(_name).setLevel(logging.WARNING)

_BUSY = (429, 503, 529)
_AGAIN = (408, 409, 424, 425, 499)
"""Not the request's fault: timeouts and conflicts of gateways, a failed generation of TGI's."""
_NO_CREDIT = "insufficient_quota"
_MEANS = {
    _NO_CREDIT: 402,
    "rate_limit": 429,
    "overloaded": 529,
    "authentication": 401,
    "api_key": 401,
    "permission": 403,
    "not_found": 404,
    "context_length": 400,
    "content_": 400,
    "invalid_request": 400,
}
"""The status that an error stands for by what its code or type holds, the first that fits."""
_TOO_LARGE = "request too large"
_UNPAID_WAIT_S = 60.0
_WORDS = 500
_LOOK_S = 10.0
_LOOK_BYTES = 16 << 20  # a list of models, or the tokens of a prompt
_LEAST_BYTES = 4 << 20
_MOST_BYTES = 64 << 20
_TOKEN_BYTES, _TOKEN_LOGPROBS_BYTES = 256, 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What came of one request: a reply, or why there is none."""

    reply: dict[str, Any] | None = None
    """The JSON object, with choices, of a status 200."""
    failure: Failure | None = None
    retry_after_s: float | None = None
    """Where the server took nothing (`ErrorKind.NOT_TAKEN`): how long it wants to be left alone;
    None where it does not say."""
    unpaid: bool = False
    """Whether the server takes nothing until someone pays, or renews the key."""
    away: bool = False
    """Whether the server may be gone, or broken: look whether it lives before sending it more."""


class ChatServer:
    """One base URL."""

    def __init__(self, url: str, http: HttpConnections, credentials: Credentials) -> None:
        self.url = url
        self._http, self._credentials = http, credentials
        self._waiting: set[asyncio.Timeout] = set()
        self._given_up: set[asyncio.Timeout] = set()
        self.quiet_since = time.monotonic()
        """When a completion last came or began to be waited for."""

    @property
    def waits(self) -> bool:
        """Whether a completion is waited for."""
        return bool(self._waiting)

    async def complete(self, body: dict[str, Any], deadline_s: float = math.inf) -> Sent:
        """Ask for a chat completion; cancelling, and a missed deadline, close the connection.

        Args:
            body: of POST /chat/completions, JSON-able, not streamed.
            deadline_s: how long the whole request may take.
        """
        waiting = asyncio.timeout(None if math.isinf(deadline_s) else deadline_s)
        if not self._waiting:
            self.quiet_since = time.monotonic()
        self._waiting.add(waiting)
        try:
            async with waiting:
                response = await self._http.send(
                    "POST", self._at("/chat/completions"), json=body, most_bytes=most_bytes(body)
                )
        except TimeoutError as error:
            if waiting in self._given_up:
                return Sent(failure=self._failure(ErrorKind.REPLICA_LOST, error, None), away=True)
            late = f"no completion within {deadline_s:g} s"
            return Sent(failure=Failure.of(ErrorKind.DEADLINE, late))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            return Sent(failure=self._failure(ErrorKind.NOT_TAKEN, error, 0), away=True)
        except httpx.TransportError as error:
            return Sent(failure=self._failure(ErrorKind.REPLICA_LOST, error, None), away=True)
        except httpx.HTTPError as error:  # too large, or not compressed as it says
            return Sent(failure=self._failure(ErrorKind.ENGINE, error, None))
        finally:
            self._waiting.discard(waiting)
            self._given_up.discard(waiting)
        self.quiet_since = time.monotonic()
        return self._read(response)

    async def is_silent(self) -> bool:
        """Whether it takes a connection and answers nothing, as a process does that hangs."""
        try:
            await self._http.send(
                "GET", self._at("/models"), timeout=_LOOK_S, most_bytes=_LOOK_BYTES
            )
        except httpx.TimeoutException:
            return True
        except httpx.HTTPError:
            return False
        return False

    def give_up(self) -> None:
        """End the completions that are waited for: they are lost."""
        logger.warning("%s does not answer: its open requests are lost", self.url)
        now = asyncio.get_running_loop().time()
        for waiting in self._waiting - self._given_up:
            self._given_up.add(waiting)
            waiting.reschedule(now)

    async def look(self) -> str | None:
        """Why the server cannot be used at this moment; None where it answers."""
        try:
            response = await self._http.send(
                "GET", self._at("/models"), timeout=_LOOK_S, most_bytes=_LOOK_BYTES
            )
        except httpx.HTTPError as error:
            return self._masked(error)
        if response.status >= 500 or response.status == 401:
            return f"status {response.status}: {self._masked(_message(response))}"
        return None

    async def get(self, path: str) -> Any:
        """The JSON of a path below the base URL; None where there is none."""
        return await self._json_of("GET", self._at(path))

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        """The same of a POST to a path beside the version, or at the root where there is none."""
        parts = urlsplit(self.url)
        beside = parts.path.rpartition("/")[0] + path
        return await self._json_of("POST", urlunsplit(parts._replace(path=beside)), json=body)

    def _at(self, path: str) -> str:
        """The address of a path below the base URL, whose query goes with it."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(path=parts.path + path))

    async def _json_of(self, method: str, url: str, **fields: Any) -> Any:
        try:
            fields |= {"timeout": _LOOK_S, "most_bytes": _LOOK_BYTES}
            return (await self._http.send(method, url, **fields)).json()
        except httpx.HTTPError:
            return None

    def _read(self, response: HttpReply) -> Sent:
        status, reply = response.status, response.json()
        if response.is_success and isinstance(reply, dict) and reply.get("choices"):
            return Sent(reply=reply)
        error = reply.get("error") if isinstance(reply, dict) else None
        if response.is_success and isinstance(error, dict):  # as gateways pass on what went wrong
            status = _status_in(error)
        words = f"status {status}: {self._masked(_message(response))}"
        if 300 <= status < 400 and (there := response.headers.get("location")):
            # not followed: the key is for this address
            there = self._masked(there.partition("?")[0])
            words += f"; it sends requests to {there}, set base_urls to where that leads"
        if status in (401, 402) or (status == 429 and _NO_CREDIT in response.text):
            failure = Failure.of(ErrorKind.NOT_TAKEN, words, 0)
            return Sent(failure=failure, retry_after_s=_UNPAID_WAIT_S, unpaid=True)
        if status == 429 and _TOO_LARGE in words.lower():
            status = 413  # more than a minute's tokens: no waiting helps
        if status in _BUSY:
            failure = Failure.of(ErrorKind.NOT_TAKEN, words, 0)
            return Sent(failure=failure, retry_after_s=retry_after_s(response.headers, time.time()))
        if 200 <= status < 300:
            malformed = f"the reply must be JSON with choices, got {self._masked(response.text)!r}"
            return Sent(failure=Failure.of(ErrorKind.ENGINE, malformed))
        if status < 500 and status not in _AGAIN:
            return Sent(failure=Failure.of(ErrorKind.BAD_REQUEST, words, 0))
        return Sent(failure=Failure.of(ErrorKind.ENGINE, words), away=True)

    def _failure(self, kind: ErrorKind, error: Exception, tokens: int | None) -> Failure:
        return Failure.of(kind, f"{self.url}: {self._masked(error)}", tokens)

    def _masked(self, words: object) -> str:
        text = self._credentials.masked(str(words)[: 4 * _WORDS])
        if isinstance(words, Exception):
            text = f"{type(words).__name__}: {text}".removesuffix(": ")
        return one_line(text, _WORDS)


def most_bytes(body: Mapping[str, Any]) -> int:
    """Bytes that a reply to a request may have, by the tokens that it asks for."""
    limits = [body[name] for name in ("max_tokens", "max_completion_tokens") if name in body]
    tokens = sum(limits) * body.get("n", 1)
    if not limits:
        return _MOST_BYTES
    each = _TOKEN_LOGPROBS_BYTES if body.get("logprobs") else _TOKEN_BYTES
    return int(min(_MOST_BYTES, _LEAST_BYTES + each * tokens))


def retry_after_s(headers: httpx.Headers, now: float) -> float | None:
    """Seconds that a server wants to be left alone, by its Retry-After; None where it says none.

    Args:
        headers: of its reply; a number of seconds, of milliseconds (``retry-after-ms``), or a date.
        now: seconds since the epoch.
    """
    value = headers.get("retry-after", "")
    try:
        if "retry-after-ms" in headers:
            wait_s = float(headers["retry-after-ms"]) / 1000
        elif value.replace(".", "", 1).isdigit():
            wait_s = float(value)
        else:
            wait_s = parsedate_to_datetime(value).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return max(0.0, wait_s) if math.isfinite(wait_s) else None


def _status_in(error: dict[str, Any]) -> int:
    """The status of HTTP that an error names, or is known by."""
    code = str(error.get("code"))
    if len(code) == 3 and code.isdecimal() and int(code) >= 400:
        return int(code)
    words = f"{code} {error.get('type')}"
    return next((status for name, status in _MEANS.items() if name in words), 500)


def _message(response: HttpReply) -> str:
    """What an error reply says, in any of the forms that servers have."""
    body = response.json()
    for name in ("error", "message", "detail"):
        if isinstance(body, dict) and name in body:
            body = body[name]
    return str(body) if body else response.text or response.reason
