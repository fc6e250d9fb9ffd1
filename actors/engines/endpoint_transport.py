"""*EndpointTransport*: places calls on servers with an OpenAI-compatible API.

A call goes to the server that holds its session's prefix, else to the least loaded
(`actors.routing.transport`), as soon as that has a place for it (`RateLimit`). A server that went
away gets nothing until it answers again, and no call waits for one that wants to be left alone for
long while another is there. A `Wire` says what a call is over the wire and what a reply means: a
role whose models can be behind an endpoint has a line in `WIRES`.

*RateLimit* finds by trying how many requests a server may hold at once, as TCP finds its window
(AIMD). The limit grows by one with each request that is served until the server first says that it
is too many (429), later by one each time that a whole limit was served. A refusal halves it,
once for all requests that were on their way together, and nothing is sent until the time that the
server asks for is over.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any, Generic, Protocol

from actors.cluster.background import supervised
from actors.cluster.concurrency_limit import Limit
from actors.engines.chat_wire import usage_of
from actors.routing.calls import GENERATOR, JUDGE, VERIFIER, A, Answer, Call
from actors.routing.chat_server import ChatServer, Sent
from actors.routing.http_connections import HttpConnections, credentials_of
from actors.routing.transport import (
    NoReplicaError,
    PoolAddress,
    ReplicaLostError,
    StickyLeastLoaded,
)
from pipeline.config.endpoint import EndpointConfig
from pipeline.config.runtime import RequestConfig
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Failure

logger = logging.getLogger(__name__)

_FIRST = 32
_WAIT_S = 1.0
_WAIT_MOST_S = 60.0
_WAIT_AT_ALL_S = 600.0  # a server may ask for hours; it is looked at sooner


class RateLimit:
    """The places at one server, of one process.

    Args:
        most: places that are never exceeded, >= 1.
        clock: seconds that do not go back.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._places = Limit(min(most, _FIRST))
        self._window = float(self._places.most)
        self._starting = True
        self._cut_at = self._free_at = -1.0
        self._in_a_row = 0

    @property
    def limit(self) -> int:
        """Requests that may be at the server now."""
        return self._places.most

    @property
    def refused(self) -> bool:
        """Whether the server ever refused one."""
        return not self._starting

    @property
    def pause_s(self) -> float:
        """For how long nothing may be sent yet."""
        return max(0.0, self._free_at - self._clock())

    async def take(self, expected: float = 0.0, patience_s: float = math.inf) -> bool:
        """Wait for a place, and for the end of a pause; `give_back` must follow.

        Args:
            expected: whose is more is let in first.
            patience_s: the longest pause that is waited for.

        Returns:
            Whether there is a place; False at once where the pause is longer.
        """
        await self._places.take(expected)
        try:
            while (wait_s := self.pause_s) > 0:
                if wait_s > patience_s:
                    self._places.give_back()
                    return False
                await asyncio.sleep(wait_s)
        except asyncio.CancelledError:
            self._places.give_back()
            raise
        return True

    def give_back(self) -> None:
        """Leave the place."""
        self._places.give_back()

    def served(self) -> None:
        """Note that the server took a request."""
        self._in_a_row = 0
        self._move(self._window + (1.0 if self._starting else 1.0 / self._window))

    def turned_away(self, sent_at: float, retry_after_s: float | None) -> None:
        """Note that it refused one.

        Args:
            sent_at: when that was sent, by the same clock.
            retry_after_s: how long it asks for; None waits twice as long after each refusal.
        """
        now = self._clock()
        if sent_at >= self._cut_at:  # else it was on its way when the limit came down already
            self._starting = False
            self._cut_at = now
            self._move(self._window / 2)
            self._in_a_row += 1
        wait_s = min(_WAIT_MOST_S, _WAIT_S * 2.0 ** min(self._in_a_row - 1, 10))
        if retry_after_s is not None:
            wait_s = min(retry_after_s, _WAIT_AT_ALL_S)
        self._free_at = max(self._free_at, now + wait_s)

    def _move(self, window: float) -> None:
        self._window = max(1.0, min(float(self._most), window))
        if int(self._window) != self._places.most:
            self._places.move(int(self._window))


_LENGTHS = (
    "context", "max_tokens", "max_completion_tokens", "max_new_tokens", "max_total_tokens",
    "max_model_len", "maximum length",
)  # fmt: skip
_PATIENCE_S = 5.0
_LOOK_FIRST_S = 0.2
_LOOK_MOST_S = 5.0
_WATCH_EVERY_S = 20.0
_QUIET_S = 60.0
_MISSES = 3
"""Looks in a row without an answer that show that a quiet server hangs."""


class Wire(Protocol):
    """From calls of one role to requests, and from replies to answers. Made with the fields of the
    model's section, the name that the servers have for it, and what was found out about them."""

    def known(self, call: Any) -> Answer | None:
        """The answer of a call that no model needs to be asked for; None of any other."""
        ...

    def body(self, call: Any) -> dict[str, Any]:
        """The body of POST /chat/completions.

        Raises:
            ValueError: saying what is wrong with the call.
        """
        ...

    def answer(self, call: Any, reply: Mapping[str, Any]) -> Answer | Failure:
        """What a reply comes to.

        Raises:
            ValueError: saying what of the reply is not as it must be.
        """
        ...


WIRES = {
    GENERATOR: "actors.engines.chat_wire:ChatWire",
    VERIFIER: "actors.engines.chat_wire:JudgeWire",
    JUDGE: "actors.engines.chat_wire:ChatWire",
}
"""``module:class`` of each role's `Wire`."""


def answer_of(wire: Wire, call: Any, reply: Mapping[str, Any]) -> Answer | Failure:
    """What a reply comes to; a failure too where it is none."""
    try:
        return wire.answer(call, reply)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        malformed = f"the reply is not one: {type(error).__name__}: {error}"
        return Failure.of(ErrorKind.ENGINE, malformed)


async def look_at(server: ChatServer) -> str | None:
    """Why a server cannot be used at this moment; None where it answers. Never raises."""
    try:
        return await server.look()
    except Exception as error:
        logger.exception("%s could not be looked at", server.url)
        return f"it could not be looked at: {type(error).__name__}"


class EndpointTransport:
    """The servers of one endpoint, as one process sees them."""

    isolates = False

    def __init__(self, address: PoolAddress, settings: RequestConfig) -> None:
        endpoint = EndpointConfig.model_validate(address.at["endpoint"])
        credentials = credentials_of(endpoint, os.environ)
        self.masked = credentials.masked
        self._http = HttpConnections(endpoint, credentials)
        self.servers = {url: ChatServer(url, self._http, credentials) for url in endpoint.base_urls}
        share = -(-endpoint.max_concurrency // address.at["controllers"])
        self.limits = {url: RateLimit(share) for url in self.servers}
        self.wire: Wire = resolve_name(WIRES[address.role])(
            address.at["model"], endpoint, address.at["found"]
        )
        self._policy = StickyLeastLoaded(rng=random.Random(os.getpid()))  # noqa: S311 (no secret)
        self._reviving: dict[str, asyncio.Task[None]] = {}
        self._watching: asyncio.Task[None] | None = None

    async def place(self, call: Call[A], *, avoid: Collection[str]) -> EndpointCall[A]:
        """Choose a server and wait for a place there; see `Transport.place`."""
        if self._watching is None:
            self._watching = supervised(self._watch, "the watch over servers")
        while True:
            alive = [url for url in self.servers if url not in self._reviving]
            pauses = {url: self.limits[url].pause_s for url in alive}
            open_ = [url for url in alive if pauses[url] <= _PATIENCE_S]
            patience_s = _PATIENCE_S if open_ else math.inf
            url = self._policy.choose(
                call.session, open_ or sorted(alive, key=pauses.__getitem__)[:1], avoid
            )
            if url is None:
                raise NoReplicaError
            self._policy.expect(url)
            try:
                took = await self.limits[url].take(-call.priority, patience_s)
            finally:
                self._policy.done(url)
            if not took:
                continue
            if url not in self._reviving:
                break
            self.limits[url].give_back()  # it went away while the call waited
        self._policy.sent(call.session, url)
        return EndpointCall(self, url, call)

    def ended(self, url: str, sent_at: float, sent: Sent | None) -> None:
        """Note a request's end.

        Args:
            url: of its server.
            sent_at: when it was sent.
            sent: what came of it; None where it was cancelled.
        """
        self._policy.done(url)
        limit = self.limits[url]
        limit.give_back()
        if sent is None:
            return
        if sent.reply is not None:
            limit.served()
        elif sent.away:
            if url not in self._reviving:
                assert sent.failure is not None  # there is no reply
                logger.warning("%s is looked after: %s", url, sent.failure.error)
                self._reviving[url] = asyncio.create_task(self._revive(url))
        elif sent.failure is not None and sent.failure.kind is ErrorKind.NOT_TAKEN:
            if not limit.refused:
                logger.info("%s takes no more at a time: %s", url, sent.failure.error)
            limit.turned_away(sent_at, sent.retry_after_s)

    async def close(self) -> None:
        """Close all connections."""
        for task in (*self._reviving.values(), self._watching):
            if task is not None:
                task.cancel()
        await self._http.aclose()

    async def _watch(self) -> None:
        """Give up what a server was asked for that takes connections and answers nothing."""
        misses: Counter[str] = Counter()
        while True:
            await asyncio.sleep(_WATCH_EVERY_S)
            for url, server in self.servers.items():
                quiet = server.waits and time.monotonic() - server.quiet_since > _QUIET_S
                if not quiet or not await server.is_silent():
                    misses[url] = 0
                    continue
                misses[url] += 1
                if misses[url] >= _MISSES:
                    server.give_up()

    async def _revive(self, url: str) -> None:
        wait_s, reason = _LOOK_FIRST_S, None
        while (why := await look_at(self.servers[url])) is not None:
            if why != reason:
                logger.warning("%s cannot be used: %s", url, why)
            reason = why
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LOOK_MOST_S)
        if reason is not None:
            logger.warning("%s can be used again", url)
        del self._reviving[url]


class EndpointCall(Generic[A]):
    """A call that has its place at a server: awaiting it is sending it."""

    def __init__(self, transport: EndpointTransport, url: str, call: Call[A]) -> None:
        self.replica = url
        self._transport, self._call = transport, call

    async def result(self) -> A | Failure:
        """What the server answered; see `Placed.result`."""
        sent, sent_at = None, time.monotonic()
        try:
            known: Any = self._transport.wire.known(self._call)
            if known is not None:
                answer: A = known
                return answer
            body = self._transport.wire.body(self._call)
            sent = await self._sent(body)
        except ValueError as error:
            return Failure.of(ErrorKind.BAD_REQUEST, error, completion_tokens=0)
        finally:
            self._transport.ended(self.replica, sent_at, sent)
        if sent.failure is not None:
            if sent.failure.kind is ErrorKind.REPLICA_LOST:
                raise ReplicaLostError(sent.failure.error.removeprefix("replica_lost: "))
            return sent.failure
        assert sent.reply is not None  # neither a failure nor a reply is not sent
        outcome: Any = answer_of(self._transport.wire, self._call, sent.reply)
        if isinstance(outcome, Failure):
            return replace(outcome, error=self._transport.masked(outcome.error))
        answer = outcome
        return answer

    def abort(self) -> None:
        """Cancelling `result` has closed the connection, which aborts in the server."""

    async def _sent(self, body: dict[str, Any]) -> Sent:
        server, deadline_s = self._transport.servers[self.replica], self._call.deadline_s
        began = time.monotonic()
        sent = await server.complete(body, deadline_s)
        limits = body.keys() & {"max_tokens", "max_completion_tokens"}
        if not limits or sent.failure is None or not _past_context(sent.failure):
            return sent
        # without a limit a server goes on to the end of its context, as our engines do
        unlimited = {name: value for name, value in body.items() if name not in limits}
        again = await server.complete(unlimited, deadline_s - (time.monotonic() - began))
        with suppress(ValueError):  # what does not count is no answer anyway
            made = usage_of(again.reply or {}).made
            if made > min(body[name] for name in limits):  # it was not that
                return Sent(failure=replace(sent.failure, completion_tokens=made))
        return again


def _past_context(failure: Failure) -> bool:
    """Whether prompt and limit of tokens together were too long, in a server's words."""
    words = failure.error.lower()
    return failure.kind is ErrorKind.BAD_REQUEST and any(name in words for name in _LENGTHS)
