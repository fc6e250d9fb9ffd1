"""*Link*, *CallServer*: send the calls of one caller to one replica in bundles, and return answers.

A call of Ray costs as much CPU as dozens of calls of an engine. One exchange therefore carries all
calls and aborts since the last one, and returns with the answers that are ready. While the replica
holds calls, one or two exchanges wait there for an answer; a third one makes the oldest return. An
exchange leaves at once unless the last one left less than a tick ago, so a single call is never
delayed and many calls share one exchange a tick. `Link` is the caller's end, `CallServer` the
replica's.

The replica answers every exchange within `WAIT_S`. One that does not within `SILENT_S` has an event
loop that hangs: its calls are lost, and it gets no more until it answers again.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import pickle
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, Generic, NamedTuple

import ray

from actors.routing.calls import A, Call
from actors.routing.transport import ReplicaLostError
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Failure

_CALLER_SILENT_S = 120.0
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
        now, every_s = time.monotonic(), _CALLER_SILENT_S / 8
        # this process was suspended itself: it has not read yet what callers sent meanwhile
        suspended = now - self._swept_at > 2 * every_s
        for caller, queue in list(self._callers.items()):
            if suspended:
                queue.seen = now
            if now - queue.seen <= _CALLER_SILENT_S:
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


logger = logging.getLogger(__name__)

_EXCHANGES_PER_S = 100
_TICK_MOST_S = 0.05
WAITING = 2
"""Exchanges of one caller that wait at a replica at once."""
UNDER_WAY = WAITING + 1
WAIT_S = 10.0
"""Longest time that an exchange waits at a replica."""
SILENT_S = 3 * WAIT_S
"""An exchange without a reply for so long means that the replica hangs."""
_CHUNK = 64 * 1024  # Ray sends arguments of up to 100 KiB along with the call


class Bundle(NamedTuple):
    """What a caller sends."""

    caller: str
    life: int
    """Of the caller's link; the replica holds the calls of one life at a time."""
    first: bool
    """Whether a life begins: the replica ends what it holds of an earlier one."""
    tick_s: float
    """Shortest time between two replies."""
    aborts: list[str]
    """Request ids."""
    calls: list[Call[Any]]


class Reply(NamedTuple):
    """What the replica returns."""

    known: bool
    """Whether it holds the calls of this life; False after either process was replaced."""
    held: int
    """Calls that the replica holds of all callers."""
    answers: list[tuple[str, Any]]
    """Request id and its `Answer` or `Failure`."""


def pack(bundle: Bundle) -> list[bytes]:
    """Serialize a bundle as arguments small enough to travel with the call, without the object
    store."""
    data = pickle.dumps(tuple(bundle), 5)
    return [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]


def unpack(chunks: tuple[bytes, ...]) -> Bundle:
    """The inverse of `pack`; the bytes come from a message that Ray itself unpickles."""
    return Bundle(*pickle.loads(chunks[0] if len(chunks) == 1 else b"".join(chunks)))  # noqa: S301


class Pace:
    """Limits how often all links of one caller exchange, to a number of times a second in all."""

    def __init__(self) -> None:
        self.busy = 0
        """Links with calls in their replicas."""

    @property
    def tick_s(self) -> float:
        """Shortest time between two exchanges of one link."""
        return min(_TICK_MOST_S, max(1, self.busy) / _EXCHANGES_PER_S)


class Link:
    """One caller's connection to one replica, on one event loop.

    Args:
        replica: its name.
        carry: calls the replica's `exchange`; raises Ray's errors.
        pace: shared by the links of the caller.
        ended: called once for each submitted call when it ends, for whatever reason.
        lost: called before the calls end when the replica is lost, so that none that waits for a
            place gets one there; not called where a restarted process answers already.
    """

    def __init__(
        self,
        replica: str,
        carry: Callable[..., Awaitable[bytes]],
        pace: Pace,
        ended: Callable[[str], None],
        lost: Callable[[str], None],
    ) -> None:
        self.replica = replica
        self._carry, self._pace, self._ended, self._lost = carry, pace, ended, lost
        self._loop = asyncio.get_running_loop()
        self._caller = uuid.uuid4().hex
        self._life, self._known = 0, False
        self._held: dict[str, asyncio.Future[Any]] = {}
        self._calls: dict[str, Call[Any]] = {}
        self._aborts: list[str] = []
        self._timer: asyncio.Handle | None = None
        self._due = self._sent_at = 0.0
        self._under_way = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.others = 0
        """Calls of other callers in the replica, as of the last exchange."""

    def __len__(self) -> int:
        """Calls that have not ended."""
        return len(self._held)

    def submit(self, call: Call[A]) -> BundledCall[A]:
        """Send a call with the next exchange."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._held:
            self._pace.busy += 1
        self._held[call.request_id] = future
        self._calls[call.request_id] = call
        self._schedule()
        return BundledCall(self, call.request_id, future)

    def abort(self, request_id: str) -> None:
        """Stop a call in the engine. One that has ended is left alone."""
        future = self._take(request_id)
        if future is None:
            return
        future.cancel()
        if self._calls.pop(request_id, None) is None:
            self._aborts.append(request_id)
            self._schedule()

    def _take(self, request_id: str) -> asyncio.Future[Any] | None:
        future = self._held.pop(request_id, None)
        if future is not None:
            if not self._held:
                self._pace.busy -= 1
            self._ended(self.replica)
        return future

    def _schedule(self) -> None:
        """Schedule the next exchange, if one is needed, for when the pace allows it."""
        if self._under_way >= (UNDER_WAY if self._known else 1):
            return  # this runs again when one of them returns
        now = self._loop.time()
        if self._calls or self._aborts:
            due = max(now, self._sent_at + self._pace.tick_s)
        elif self._held and not self._under_way:
            due = now + self._pace.tick_s  # calls that come before that share the exchange
        else:
            return
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        # also where it is due now: calls of this turn of the loop share the exchange
        self._timer = (
            self._loop.call_later(due - now, self._send)
            if due > now
            else self._loop.call_soon(self._send)
        )

    def _send(self) -> None:
        self._timer = None
        if not (self._calls or self._aborts or (self._held and not self._under_way)):
            return  # all of it has ended meanwhile
        self._sent_at = self._loop.time()
        calls, self._calls = list(self._calls.values()), {}
        aborts, self._aborts = self._aborts, []
        tick_s = self._pace.tick_s
        bundle = Bundle(self._caller, self._life, not self._known, tick_s, aborts, calls)
        self._under_way += 1
        # Ray cancels with a request what was submitted in its context; this carries many requests
        task = self._loop.create_task(self._exchange(bundle), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exchange(self, bundle: Bundle) -> None:
        try:
            reply = Reply(*pickle.loads(await self._carried(bundle)))  # noqa: S301
        except (ray.exceptions.RayActorError, ray.exceptions.RaySystemError, TimeoutError) as error:
            if bundle.life == self._life:
                silent = f"did not answer for {SILENT_S:g} s: it hangs"
                gone = f"went away ({type(error).__name__})"
                self._lost(self.replica)
                self._lose(
                    f"{self.replica} {silent if isinstance(error, TimeoutError) else gone}", {}
                )
        except MemoryError as error:  # of this process, which no other replica would help
            if bundle.life == self._life:
                self._lose(str(error), {}, MemoryError)
        except Exception as error:  # answers may have been lost on the way
            logger.exception("an exchange with %s failed", self.replica)
            if bundle.life == self._life:
                self._lose(f"an exchange with {self.replica} failed: {error!r}", {})
        else:
            if bundle.life == self._life and not reply.known:
                unsent = {call.request_id: call for call in bundle.calls} | self._calls
                self._lose(f"{self.replica} was restarted", unsent)
            elif bundle.life == self._life:
                self._known = True
                for request_id, outcome in reply.answers:
                    self._resolve(request_id, outcome)
                self.others = max(0, reply.held - len(self._held))
                self._returned(bundle)

    async def _carried(self, bundle: Bundle) -> bytes:
        """What the replica replies to a bundle.

        Raises:
            TimeoutError: where it does not within `SILENT_S`.
        """
        carried = asyncio.ensure_future(self._carry(*pack(bundle)))
        late = True
        while late:  # this loop may have hung itself, with the reply still to be read
            began = self._loop.time()
            if (await asyncio.wait({carried}, timeout=SILENT_S))[0]:
                return carried.result()
            late = self._loop.time() - began > SILENT_S + 1.0
        carried.cancel()
        raise TimeoutError

    def _returned(self, bundle: Bundle) -> None:
        """Count an exchange of this life as over."""
        if bundle.life == self._life:
            self._under_way -= 1
            self._schedule()

    def _resolve(self, request_id: str, outcome: Any) -> None:
        future = self._take(request_id)
        if future is not None and not future.done():
            future.set_result(outcome)

    def _lose(
        self,
        why: str,
        unsent: dict[str, Call[Any]],
        kind: type[Exception] = ReplicaLostError,
    ) -> None:
        """End all calls but the `unsent`, which are sent again; what they cost is not known.

        If the replica lives after all, because only the connection broke, the first exchange of the
        next life ends its calls there.
        """
        self._life, self._known, self._under_way = self._life + 1, False, 0
        self._calls = {name: call for name, call in unsent.items() if name in self._held}
        self._aborts, self.others = [], 0
        for request_id in [name for name in self._held if name not in self._calls]:
            future = self._take(request_id)
            if future is not None and not future.done():
                future.set_exception(kind(why))
                future.exception()  # retrieved, whether or not anyone waits for it
        self._schedule()


class BundledCall(Generic[A]):
    """A call that a replica holds."""

    def __init__(self, link: Link, request_id: str, future: asyncio.Future[Any]) -> None:
        self.replica = link.replica
        self._link, self._request_id, self._future = link, request_id, future

    async def result(self) -> A | Failure:
        """The engine's answer; see `actors.routing.transport.Placed.result`."""
        answer: A | Failure = await self._future
        return answer

    def abort(self) -> None:
        """Stop it in the engine, which counts its cost."""
        self._link.abort(self._request_id)


_PROCESS = uuid.uuid4().hex[:12]
_numbers = itertools.count()


def fresh_id(role: str) -> str:
    """A request id that no other try has."""
    return f"{role}-{_PROCESS}-{next(_numbers)}"
