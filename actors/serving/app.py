"""The HTTP side of the endpoint: OpenAI's chat completions and list of models, health, metrics."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from actors.serving.answering import Answering, Ticket
from actors.serving.api_error import ApiError
from actors.serving.chat_reply import ChatReply, chunk, reasoning
from actors.serving.chat_request import chat_request
from actors.serving.meters import Meters
from actors.serving.served_models import OWNER

logger = logging.getLogger(__name__)

_MOST_BYTES = 4 << 20
_ALIVE_S = 15.0
_CLIENT_GONE = 499
_Handler = Callable[[Request], Awaitable[Response]]


def digest_of(key: str) -> str:
    """What of an API key is handed to the process that checks it: SHA-256 (hex)."""
    return sha256(key.encode()).hexdigest()


class Endpoint:
    """Routes requests to `Answering`.

    Args:
        answering: answers them.
        key_digest: of the API key (`digest_of`); None asks for none.
        healthy: says why nothing can be answered; None while all is well.
    """

    def __init__(
        self,
        answering: Answering,
        key_digest: str | None = None,
        healthy: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._answering, self._key_digest, self._healthy = answering, key_digest, healthy
        self._meters = Meters(answering)
        self._created = int(time.time())

    def app(self) -> Starlette:
        """The ASGI application."""
        app = Starlette(
            routes=[
                *_routes("/v1/chat/completions", self._chat, "POST"),
                *_routes("/v1/models", self._models),
                Route("/v1/models/{name:path}", self._one_model),
                *_routes("/health", self._health),
                *_routes("/metrics", self._metrics),
            ],
            exception_handlers={ApiError: _told, HTTPException: _told, Exception: _broken},
        )
        app.router.redirect_slashes = False  # behind TLS it would lead to http, with the request
        return app

    def _check_key(self, request: Request) -> None:
        if self._key_digest is None:
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
        began, model = time.monotonic(), ""
        try:
            self._check_key(request)
            asked = chat_request(await _asked_for(request))
            # names that anyone may think of are no labels of a series
            model = self._answering.model(asked.model).name
            ticket = self._answering.take(asked)
        except ApiError as error:
            self._meters.answered(model, error.status, time.monotonic() - began)
            raise
        ticket.answer.add_done_callback(
            lambda answer: self._meters.answered(
                asked.model, _status_of(answer), time.monotonic() - began
            )
        )
        if asked.stream:
            return _Events(ticket)
        reply = await ticket.answer  # cancelled where the client is gone, and the answer with it
        told = [ticket.progress.get_nowait() for _ in range(ticket.progress.qsize())]
        return JSONResponse(reply.body([line for line in told if line is not None]))

    async def _models(self, request: Request) -> Response:
        self._check_key(request)
        models = [self._described(name) for name in self._answering.models.served]
        return JSONResponse({"object": "list", "data": models})

    async def _one_model(self, request: Request) -> Response:
        self._check_key(request)
        name = self._answering.model(request.path_params["name"]).name
        return JSONResponse(self._described(name))

    def _described(self, name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": OWNER}

    async def _health(self, request: Request) -> Response:
        del request
        trouble = "it is being stopped" if self._answering.draining else self._healthy()
        return JSONResponse({"status": trouble or "ok"}, 200 if trouble is None else 503)

    async def _metrics(self, request: Request) -> Response:
        del request
        return PlainTextResponse(self._meters.text(), media_type=CONTENT_TYPE_LATEST)


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
        yield _event(_broke(error).body)
        return
    for each in reply.last_chunks(include_usage=ticket.asked.include_usage):
        yield _event(each)
    yield "data: [DONE]\n\n"


def _event(value: dict[str, Any]) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return f"data: {text}\n\n"


def _status_of(answer: asyncio.Task[ChatReply]) -> int:
    if answer.cancelled():
        return _CLIENT_GONE
    error = answer.exception()
    if error is None:
        return 200
    return error.status if isinstance(error, ApiError) else 500


async def _asked_for(request: Request) -> bytes:
    """The body of a request for a completion."""
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind.strip().lower() != "application/json":
        raise ApiError(415, "the header Content-Type must be application/json", "not_json")
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > _MOST_BYTES:
                most = f"the body must have at most {_MOST_BYTES:,} bytes"
                raise ApiError(413, most, "too_large")
    except ClientDisconnect as gone:
        raise ApiError(_CLIENT_GONE, "the client left before its request was whole") from gone
    return bytes(body)


def _routes(path: str, handler: _Handler, method: str = "GET") -> list[Route]:
    """With and without a slash at the end."""
    return [Route(each, handler, methods=[method]) for each in (path, f"{path}/")]


def _told(request: Request, error: Exception) -> Response:
    """An error in OpenAI's format; those of routing are Starlette's own."""
    if isinstance(error, HTTPException):
        why = f"{request.method} {request.url.path}: {error.detail}"
        body = ApiError(error.status_code, why).body
        return JSONResponse(body, error.status_code, error.headers)  # with what is allowed
    assert isinstance(error, ApiError)  # the two kinds that this handles
    return JSONResponse(error.body, error.status, error.headers)


def _broken(request: Request, error: Exception) -> Response:
    """The log has the traceback."""
    del request
    return JSONResponse(_broke(error).body, 500)


def _broke(error: Exception) -> ApiError:
    return ApiError(500, f"the endpoint broke: {type(error).__name__}", "internal_error")
