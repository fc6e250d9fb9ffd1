"""*CallServer*: receives bundles of calls in a replica and returns bundles of answers.

`actors.routing.bundles.Link` is the other end.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from actors.routing.bundles import UNDER_WAY, WAIT_S, WAITING, Bundle, Reply, unpack
from actors.routing.calls import Call
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Failure

logger = logging.getLogger(__name__)

_SILENT_S = 120.0
"""A caller that has calls here exchanges at least every `WAIT_S`; after so long it is gone."""


class CallServer:
    """The calls that one replica holds, by caller.

    A call that asks to be `alone` waits until no other runs, and others wait until it has ended.

    Args:
        serve: answers a call; cancelling it stops the call in the engine.
    """

    def __init__(self, serve: Callable[[Call[Any]], Awaitable[Any]]) -> None:
        self._serve = serve
        self._callers: dict[str, CallerQueue] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._swept_at = 0.0
        self._running = 0
        self._idle, self._open, self._alone = asyncio.Event(), asyncio.Event(), asyncio.Lock()
        self._idle.set()
        self._open.set()
        self.held = 0
        """Calls that have not ended."""

    async def exchange(self, *chunks: bytes) -> bytes:
        """Take calls and aborts; return once there are answers, or newer exchanges of the caller
        wait, or `WAIT_S` is over."""
        bundle = unpack(chunks)
        queue = self._callers.get(bundle.caller)
        if bundle.first and (queue is None or queue.life < bundle.life):
            if queue is not None:
                queue.close()
            queue = self._callers[bundle.caller] = CallerQueue(self, bundle.life)
        if queue is None or queue.life != bundle.life:
            return pickle.dumps(tuple(Reply(False, self.held, [])), 5)
        queue.take(bundle)
        if self._sweeper is None:
            self._swept_at = time.monotonic()
            self._sweep()
        if not bundle.first:
            await queue.wait_for_answers(bundle.tick_s)
        return pickle.dumps(tuple(Reply(True, self.held, queue.take_answers())), 5)

    async def answer(self, call: Call[Any]) -> Any:
        """The engine's answer to a call; an exception of the engine's code becomes a `Failure`."""
        try:
            if call.alone:
                return await self._serve_alone(call)
            while not self._open.is_set():
                await self._open.wait()
            self._running += 1
            self._idle.clear()
            try:
                return await self._serve(call)
            finally:
                self._running -= 1
                if not self._running:
                    self._idle.set()
        except Exception as error:
            logger.exception("a call raised")
            return Failure.of(ErrorKind.ENGINE, repr(error))

    async def _serve_alone(self, call: Call[Any]) -> Any:
        async with self._alone:
            self._open.clear()
            try:
                await self._idle.wait()
                return await self._serve(call)
            finally:
                self._open.set()

    def _sweep(self) -> None:
        """End the calls of callers that are gone, for as long as there are calls."""
        now, every_s = time.monotonic(), _SILENT_S / 8
        # this process was suspended itself: it has not read yet what callers sent meanwhile
        suspended = now - self._swept_at > 2 * every_s
        for caller, queue in list(self._callers.items()):
            if suspended:
                queue.seen = now
            if now - queue.seen <= _SILENT_S:
                continue
            if queue.tasks:
                logger.warning("a caller of %d calls is gone; they end", len(queue.tasks))
                queue.close()
                del self._callers[caller]
            else:
                queue.take_answers()  # nobody waits for them
        self._swept_at, loop = now, asyncio.get_running_loop()
        self._sweeper = loop.call_later(every_s, self._sweep) if self.held else None


class CallerQueue:
    """The calls of one caller in a replica, and the answers that are ready for it."""

    def __init__(self, server: CallServer, life: int) -> None:
        self.life = life
        self.tasks: dict[str, asyncio.Task[Any]] = {}
        self.seen = time.monotonic()
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._ready: list[tuple[str, Any]] = []
        self._early_aborts: deque[set[str]] = deque(maxlen=UNDER_WAY - 1)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._reply_timer: asyncio.Handle | None = None
        self._tick_s = self._replied_at = 0.0

    def take(self, bundle: Bundle) -> None:
        """Start calls, and stop those that the caller has aborted.

        Ray may deliver a later exchange first, with the abort of a call that only then comes.
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
            if not any(call.request_id in aborted for aborted in self._early_aborts):
                self._start(call)
        self._early_aborts.append(unknown)

    async def wait_for_answers(self, tick_s: float) -> None:
        """Wait until there is an answer, no call, or enough newer exchanges; at most `WAIT_S`."""
        self._tick_s = tick_s
        waiting = self._loop.create_future()
        self._waiting.append(waiting)
        if len(self._waiting) > WAITING:
            self._release_oldest()
        elif self._ready or not self.tasks:
            self._schedule_reply()
        limit = self._loop.call_later(WAIT_S, _release, waiting)
        try:
            await waiting
        finally:
            limit.cancel()
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def take_answers(self) -> list[tuple[str, Any]]:
        """Remove and return the answers that are ready."""
        answers, self._ready = self._ready, []
        self._replied_at = self._loop.time()
        return answers

    def close(self) -> None:
        """Stop all calls."""
        for task in self.tasks.values():
            task.cancel()
        self._release_all()

    def _start(self, call: Call[Any]) -> None:
        request_id = call.request_id

        def ended(task: asyncio.Task[Any]) -> None:
            self._server.held -= 1
            del self.tasks[request_id]
            if not task.cancelled():
                self._ready.append((request_id, task.result()))
            if self._ready or not self.tasks:
                self._schedule_reply()

        self._server.held += 1
        task = self.tasks[request_id] = self._loop.create_task(self._server.answer(call))
        task.add_done_callback(ended)

    def _schedule_reply(self) -> None:
        """Let the oldest exchange return, a tick after the last one."""
        if self._reply_timer is None:
            wait_s = self._replied_at + self._tick_s - self._loop.time()
            self._reply_timer = (
                self._loop.call_later(wait_s, self._reply)
                if wait_s > 0
                else self._loop.call_soon(self._reply)
            )

    def _reply(self) -> None:
        self._reply_timer = None
        if self._ready:
            self._release_oldest()
        if not self.tasks:
            self._release_all()

    def _release_oldest(self) -> None:
        if self._waiting:
            _release(self._waiting.popleft())

    def _release_all(self) -> None:
        while self._waiting:
            self._release_oldest()


def _release(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
