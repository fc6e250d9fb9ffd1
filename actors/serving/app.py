"""*Endpoint*: the HTTP application: OpenAI's API, health and metrics."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from actors.serving.answering import Answering, Ticket
from actors.serving.chat_reply import ChatReply, as_chat, as_response, chunk, reasoning
from actors.serving.chat_request import ApiError, chat_request
from actors.serving.served_models import OWNER

logger = logging.getLogger(__name__)

_MOST_BYTES = 4 << 20
_MOST_BODIES, _MOST_BYTES_OF_ALL, _BODY_S, _CROWDED_BODY_S = 256, 64 << 20, 30.0, 2.0
"""Bodies that are read at once, what they may hold in all, how long one may take, and how long it
has its place where another request needs it."""
_SMALL_BYTES = 64 << 10
_ALIVE_S = 15.0
_STARTING = "the engines are starting"
_CLIENT_CLOSED = 499
_TOTALS = {
    "rounds": "Completions that came from engines",
    "completion_tokens": "Tokens generated in completions",
    "verifier_tokens": "Tokens read by the verifier",
    "wasted_tokens": "Tokens of tries that gave no completion",
}
_NOW = {"in_flight": "Questions that are worked on", "waiting": "Questions that wait to be"}
_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1_000, 3_000)
_Handler = Callable[[Request], Awaitable[Response]]


def digest_of(key: str) -> str:
    """What of an API key is handed to the process that checks it: SHA-256 (hex)."""
    return sha256(key.encode()).hexdigest()


class Endpoint:
    """Routes requests to `Answering`; until `begin` each is 503 with Retry-After.

    Args:
        key_digest: of the API key (`digest_of`); None asks for none, and then serves only those
            that name this machine or an address: a web page could reach it by a name of its own.
        healthy: says why nothing can be answered; None while all is well.
        cors: origins of web pages that may read answers.
    """

    def __init__(
        self,
        key_digest: str | None = None,
        healthy: Callable[[], str | None] = lambda: None,
        cors: Sequence[str] = (),
    ) -> None:
        self._key_digest, self._healthy, self._cors = key_digest, healthy, tuple(cors)
        self._answering: Answering | None = None
        self._bodies = Bodies()
        self._meters = Meters(lambda: self._answering)
        self._created = int(time.time())

    def begin(self, answering: Answering) -> None:
        """Answer requests from now on."""
        self._answering = answering

    @property
    def answering(self) -> Answering:
        """What answers.

        Raises:
            ApiError: 503 before `begin`, and where it is not well.
        """
        if self._answering is None:
            raise ApiError(503, _STARTING, "starting", retry_after_s=5)
        if (trouble := self._healthy()) is not None:
            raise ApiError(503, trouble, "stopping", retry_after_s=5)
        return self._answering

    def app(self) -> Starlette:
        """The ASGI application."""
        cors = Middleware(
            CORSMiddleware, allow_origins=self._cors, allow_methods=["*"], allow_headers=["*"]
        )
        app = Starlette(
            routes=[
                *_routes("/v1/chat/completions", self._chat, "POST"),
                *_routes("/v1/responses", self._respond, "POST"),
                *_routes("/v1/models", self._models),
                Route("/v1/models/{name:path}", self._one_model),
                *_routes("/health", self._health),
                *_routes("/metrics", self._metrics),
            ],
            exception_handlers={
                ApiError: _error_response,
                HTTPException: _error_response,
                Exception: _crash_response,
            },
            middleware=[cors] if self._cors else [],
        )
        app.router.redirect_slashes = False  # behind TLS it would lead to http, with the request
        return app

    def _check_key(self, request: Request) -> None:
        if self._key_digest is None:
            host = request.headers.get("host", "")
            if not _is_address(host):
                rule = "the header Host must be localhost or an address where no API key is set"
                raise ApiError(403, f"{rule}, got {host!r:.100}", "host_not_allowed")
            return
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(digest_of(key.strip()), self._key_digest)
        if not (same and scheme.lower() == "bearer"):
            raise ApiError(
                401,
                "the header Authorization must be Bearer and the API key of this endpoint",
                "invalid_api_key",
            )

    async def _chat(self, request: Request) -> Response:
        ticket = await self._taken(request, dict)
        if ticket.request.stream:
            return _Events(ticket)
        reply, events = await _answered(ticket)
        return JSONResponse(reply.body(events))

    async def _respond(self, request: Request) -> Response:
        ticket = await self._taken(request, as_chat)
        return JSONResponse(as_response(*await _answered(ticket)))

    async def _taken(
        self, request: Request, fields_of: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> Ticket:
        """A request that is taken on, and counted when it is answered."""
        began, model = time.monotonic(), ""
        try:
            self._check_key(request)
            self.answering.check_room()
            parsed = chat_request(fields_of(_object(await self._bodies.read(request))))
            # names that anyone may think of are no labels of a series
            model = self.answering.model(parsed.model).name
            ticket = self.answering.take(parsed)
        except ApiError as error:
            self._meters.answered(model, error.status, time.monotonic() - began)
            raise
        ticket.answer.add_done_callback(
            lambda answer: self._meters.answered(
                model, _status_of(answer), time.monotonic() - began
            )
        )
        return ticket

    async def _models(self, request: Request) -> Response:
        self._check_key(request)
        models = [self._described(name) for name in self.answering.models.served]
        return JSONResponse({"object": "list", "data": models})

    async def _one_model(self, request: Request) -> Response:
        self._check_key(request)
        name = self.answering.model(request.path_params["name"]).name
        return JSONResponse(self._described(name))

    def _described(self, name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": OWNER}

    async def _health(self, request: Request) -> Response:
        del request
        trouble = _STARTING if self._answering is None else self._healthy()
        if self._answering is not None and self._answering.draining:
            trouble = "it is being stopped"
        if trouble is None:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": trouble}, 503, {"Retry-After": "5"})

    async def _metrics(self, request: Request) -> Response:
        del request
        return PlainTextResponse(self._meters.text(), media_type=CONTENT_TYPE_LATEST)


class Bodies:
    """Reads the bodies of requests; unfinished ones are bounded in number, bytes and time.

    Where as many are unfinished as may be, a new request takes the place of the oldest of them, if
    that has been sending for `crowded_s`: slow clients cannot keep all others out.
    """

    def __init__(
        self,
        most: int = _MOST_BODIES,
        most_bytes: int = _MOST_BYTES_OF_ALL,
        seconds: float = _BODY_S,
        crowded_s: float = _CROWDED_BODY_S,
        small: int = _SMALL_BYTES,
    ) -> None:
        self._most, self._most_bytes, self._small = most, most_bytes, small
        self._seconds, self._crowded_s = seconds, crowded_s
        self._unfinished: dict[asyncio.Timeout, float] = {}
        """When each began, oldest first."""
        self._held = 0

    async def read(self, request: Request) -> bytearray:
        """The body of a request.

        Raises:
            ApiError: 415 where it is no JSON, 413 where it is too large, 429 where too many others
                are unfinished, 408 where it takes too long, 499 where its client is gone.
        """
        kind = request.headers.get("content-type", "").partition(";")[0]
        if kind.strip().lower() != "application/json":
            raise ApiError(415, "the header Content-Type must be application/json", "not_json")
        if len(self._unfinished) >= self._most:
            self._end_oldest()
        body, limit = bytearray(), asyncio.timeout(self._seconds)
        self._unfinished[limit] = asyncio.get_running_loop().time()
        try:
            async with limit:
                async for piece in request.stream():
                    if len(body) + len(piece) > _MOST_BYTES:
                        most = f"the body must have at most {_MOST_BYTES:,} bytes"
                        raise ApiError(413, most, "too_large")
                    # large bodies that never end must not keep out small ones
                    is_small = len(body) + len(piece) <= self._small
                    if not is_small and self._held + len(piece) > self._most_bytes:
                        raise self._busy()
                    self._held += len(piece)
                    body += piece
        except ClientDisconnect as gone:
            raise ApiError(_CLIENT_CLOSED, "the client left before its request was whole") from gone
        except TimeoutError:
            rule = f"the body must come within {self._seconds:g} s"
            if limit not in self._unfinished:
                rule += f", or {self._crowded_s:g} s while others wait"
            raise ApiError(408, rule, "body_timeout") from None
        finally:
            self._unfinished.pop(limit, None)
            self._held -= len(body)
        return body

    def _end_oldest(self) -> None:
        """End the body that has been unfinished for longest.

        Raises:
            ApiError: 429 where that began only just now.
        """
        oldest, now = next(iter(self._unfinished)), asyncio.get_running_loop().time()
        if now - self._unfinished[oldest] < self._crowded_s:
            raise self._busy()
        del self._unfinished[oldest]
        if not oldest.expired():
            oldest.reschedule(now)

    def _busy(self) -> ApiError:
        others = f"{len(self._unfinished):,} unfinished requests hold {self._held:,} bytes"
        return ApiError(429, f"too much is being sent: {others}", "busy", retry_after_s=2)


class Meters:
    """The series of one endpoint, for Prometheus.

    Args:
        answering: whose counters are read whenever Prometheus asks; None where there are none yet.
    """

    def __init__(self, answering: Callable[[], Answering | None]) -> None:
        self._answering = answering
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "markovscale_requests",
            "Requests that were answered, by status of HTTP (499: the client was gone) and model, "
            "which is empty where the requested one is not served",
            ("model", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "markovscale_request_seconds",
            "From request to answer",
            ("model",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._registry.register(self)

    def answered(self, model: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(model, str(status)).inc()
        self._seconds.labels(model).observe(seconds)

    def text(self) -> bytes:
        """All series, in Prometheus' format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """The chains' own counters; see `prometheus_client.registry.Collector`."""
        answering = self._answering()
        if answering is None:
            return
        counters = answering.counters.as_dict()
        for name, text in _TOTALS.items():
            yield CounterMetricFamily(f"markovscale_{name}", text, value=counters[name])
        for name, text in _NOW.items():
            yield GaugeMetricFamily(f"markovscale_{name}", text, value=counters[name])
        stops = CounterMetricFamily(
            "markovscale_stops", "Questions that stopped, by reason", labels=["reason"]
        )
        for reason, number in counters["stops"].items():
            stops.add_metric([reason], number)
        yield stops


class _Events(StreamingResponse):
    """Server-sent events: progress as reasoning, then the answer."""

    def __init__(self, ticket: Ticket) -> None:
        super().__init__(
            _events(ticket),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )
        self._ticket = ticket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them; where the client goes, the answer is given up."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ticket.answer.cancel()


async def _events(ticket: Ticket) -> AsyncIterator[str]:
    ids = (ticket.request_id, ticket.created, ticket.model.name)
    yield _event(chunk(*ids, {"role": "assistant", "content": ""}))
    while True:
        try:
            line = await asyncio.wait_for(ticket.progress.get(), _ALIVE_S)
        except TimeoutError:
            yield ": still at work\n\n"
            continue
        if line is None:
            break
        yield _event(chunk(*ids, reasoning(line)))
    try:
        reply = await ticket.answer
    except ApiError as error:
        yield _event(error.body)
        return
    except Exception as error:  # the status is sent already: this is the only way to tell it
        logger.exception("a streamed request could not be answered")
        yield _event(_crash_error(error).body)
        return
    for each in reply.last_chunks(include_usage=ticket.request.include_usage):
        yield _event(each)
    yield "data: [DONE]\n\n"


def _event(value: dict[str, Any]) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return f"data: {text}\n\n"


def _status_of(answer: asyncio.Task[ChatReply]) -> int:
    if answer.cancelled():
        return _CLIENT_CLOSED
    error = answer.exception()
    if error is None:
        return 200
    return error.status if isinstance(error, ApiError) else 500


async def _answered(ticket: Ticket) -> tuple[ChatReply, list[str]]:
    """A whole answer, and its progress."""
    reply = await ticket.answer  # cancelled where the client is gone, and the answer with it
    events = [ticket.progress.get_nowait() for _ in range(ticket.progress.qsize())]
    return reply, [line for line in events if line is not None]


def _object(body: bytearray) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body must be JSON, got {error}", "invalid_json") from error
    if not isinstance(fields, dict):
        raise ApiError(400, "the body must be a JSON object", "invalid_json")
    return fields


def _is_address(host: str) -> bool:
    """Whether a Host header is localhost or an IP address, with or without a port."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.lower() == "localhost"
    return True


def _routes(path: str, handler: _Handler, method: str = "GET") -> list[Route]:
    """With and without a slash at the end."""
    return [Route(each, handler, methods=[method]) for each in (path, f"{path}/")]


def _error_response(request: Request, error: Exception) -> Response:
    """An error in OpenAI's format; those of routing are Starlette's own."""
    if isinstance(error, HTTPException):
        why = f"{request.method} {request.url.path}: {error.detail}"
        body = ApiError(error.status_code, why).body
        return JSONResponse(body, error.status_code, error.headers)  # with what is allowed
    assert isinstance(error, ApiError)  # the two kinds that this handles
    return JSONResponse(error.body, error.status, error.headers)


def _crash_response(request: Request, error: Exception) -> Response:
    """The log has the traceback."""
    del request
    return JSONResponse(_crash_error(error).body, 500)


def _crash_error(error: Exception) -> ApiError:
    return ApiError(500, f"the endpoint broke: {type(error).__name__}", "internal_error")
