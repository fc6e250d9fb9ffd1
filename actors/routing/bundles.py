"""*Link*: sends the calls of one caller to one replica in bundles, and receives the answers.

A call of Ray costs as much CPU as dozens of calls of an engine. One exchange therefore carries all
calls and aborts since the last one, and returns with the answers that are ready. While the replica
holds calls, one or two exchanges wait there for an answer; a third one makes the oldest return. An
exchange leaves at once unless the last one left less than a tick ago, so a single call is never
delayed and many calls share one exchange a tick. `actors.engines.call_server` is the other end.

The replica answers every exchange within `WAIT_S`. One that does not within `SILENT_S` has an event
loop that hangs: its calls are lost, and it gets no more until it answers again.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import pickle
import uuid
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, Generic, NamedTuple

import ray

from actors.routing.calls import A, Call
from actors.routing.transport import ReplicaLostError
from pipeline.core.protocol import Failure

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
