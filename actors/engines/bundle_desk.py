"""Where a replica takes bundles of calls and gives those of answers (`actors.routing.bundles`)."""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from actors.routing.bundles import UNDER_WAY, WAITING, Bundle, Reply, unpacked
from actors.routing.calls import Call
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Failure

logger = logging.getLogger(__name__)

_WAIT_MOST_S = 10.0
_SILENT_S = 120.0
"""A caller whose calls are here asks again at least every `_WAIT_MOST_S`; one that was silent for
so long is gone, and nobody would take the answers."""


class Desk:
    """The calls that one replica holds, by caller.

    Args:
        serve: answers a call; cancelling it stops the call in the engine.
    """

    def __init__(self, serve: Callable[[Call[Any]], Awaitable[Any]]) -> None:
        self._serve = serve
        self._sides: dict[str, Side] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._swept_at = 0.0
        self.held = 0
        """Calls that have not ended."""

    async def exchange(self, *chunks: bytes) -> bytes:
        """Take calls and aborts; return with answers once there are any, or when newer exchanges of
        the caller wait."""
        bundle = unpacked(chunks)
        side = self._sides.get(bundle.caller)
        if bundle.first and (side is None or side.life < bundle.life):
            if side is not None:
                side.close()
            side = self._sides[bundle.caller] = Side(self, bundle.life)
        if side is None or side.life != bundle.life:
            return pickle.dumps(tuple(Reply(False, self.held, [])), 5)
        side.take(bundle)
        if self._sweeper is None:
            self._swept_at = time.monotonic()
            self._sweep()
        if not bundle.first:
            await side.something(bundle.tick_s)
        return pickle.dumps(tuple(Reply(True, self.held, side.given())), 5)

    async def answer(self, call: Call[Any]) -> Any:
        """What the engine says to a call; an exception of its code becomes a `Failure`."""
        try:
            return await self._serve(call)
        except Exception as error:
            logger.exception("a call raised")
            return Failure.of(ErrorKind.ENGINE, repr(error))

    def _sweep(self) -> None:
        """End the calls of callers that are gone, for as long as any call is here."""
        now, every_s = time.monotonic(), _SILENT_S / 8
        # this process was asleep itself: what came meanwhile is yet to be read
        slept = now - self._swept_at > 2 * every_s
        for caller, side in list(self._sides.items()):
            if slept:
                side.seen = now
            if now - side.seen <= _SILENT_S:
                continue
            if side.tasks:
                logger.warning("a caller of %d calls is gone; they end", len(side.tasks))
                side.close()
                del self._sides[caller]
            else:
                side.given()  # nobody waits for it
        self._swept_at, loop = now, asyncio.get_running_loop()
        self._sweeper = loop.call_later(every_s, self._sweep) if self.held else None


class Side:
    """What the replica holds of one caller, and what is ready for it."""

    def __init__(self, desk: Desk, life: int) -> None:
        self.life = life
        self.tasks: dict[str, asyncio.Task[Any]] = {}
        self.seen = time.monotonic()
        self._desk = desk
        self._loop = asyncio.get_running_loop()
        self._ready: list[tuple[str, Any]] = []
        self._early: deque[set[str]] = deque(maxlen=UNDER_WAY - 1)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._bell: asyncio.Handle | None = None
        self._tick_s = self._given_at = 0.0

    def take(self, bundle: Bundle) -> None:
        """Begin calls, and stop those that are given up.

        Of the exchanges under way Ray may deliver a later one first, with the abort of a call that
        only then comes.
        """
        self.seen = time.monotonic()
        unknown = set()
        for request_id in bundle.aborts:
            task = self.tasks.get(request_id)
            if task is None:
                unknown.add(request_id)
            else:
                task.cancel()
        for call in bundle.calls:
            if not any(call.request_id in aborted for aborted in self._early):
                self._begin(call)
        self._early.append(unknown)

    async def something(self, tick_s: float) -> None:
        """Wait until there is an answer, no call or enough newer exchanges, but not for ever."""
        self._tick_s = tick_s
        waiting = self._loop.create_future()
        self._waiting.append(waiting)
        if len(self._waiting) > WAITING:
            self._send_back()  # with what is ready
        elif self._ready or not self.tasks:
            self._ring()
        limit = self._loop.call_later(_WAIT_MOST_S, _done, waiting)
        try:
            await waiting
        finally:
            limit.cancel()
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def given(self) -> list[tuple[str, Any]]:
        """What is ready; it is the caller's from now on."""
        answers, self._ready = self._ready, []
        self._given_at = self._loop.time()
        return answers

    def close(self) -> None:
        """Stop all calls."""
        for task in self.tasks.values():
            task.cancel()
        self._send_all_back()

    def _begin(self, call: Call[Any]) -> None:
        request_id = call.request_id

        def ended(task: asyncio.Task[Any]) -> None:
            self._desk.held -= 1
            del self.tasks[request_id]
            if not task.cancelled():
                self._ready.append((request_id, task.result()))
            if self._ready or not self.tasks:
                self._ring()

        self._desk.held += 1
        task = self.tasks[request_id] = self._loop.create_task(self._desk.answer(call))
        task.add_done_callback(ended)

    def _ring(self) -> None:
        """Send the exchange that waits back, a tick after the last one."""
        if self._bell is None:
            wait_s = self._given_at + self._tick_s - self._loop.time()
            self._bell = (
                self._loop.call_later(wait_s, self._rung)
                if wait_s > 0
                else self._loop.call_soon(self._rung)
            )

    def _rung(self) -> None:
        self._bell = None
        if self._ready:
            self._send_back()
        if not self.tasks:
            self._send_all_back()

    def _send_back(self) -> None:
        """The exchange that has waited longest."""
        if self._waiting:
            _done(self._waiting.popleft())

    def _send_all_back(self) -> None:
        while self._waiting:
            self._send_back()


def _done(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
