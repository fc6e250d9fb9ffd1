"""Calls of one replica and their answers in bundles: a call of Ray costs as much as dozens of ours.

One exchange carries the calls and aborts that came up since the last one, and brings answers back.
While the replica holds calls of ours an exchange or two wait there for an answer; a third sends the
oldest back with what is ready. An exchange leaves at once unless the last one left less than a tick
ago: a lone call waits for nothing, few calls take one exchange each, and many share one a tick.
`actors.engines.bundle_desk` is the other end.
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
_CHUNK = 64 * 1024  # Ray sends arguments of up to 100 KiB along with the call


class Bundle(NamedTuple):
    """What a caller sends."""

    caller: str
    life: int
    """Of the caller's link; the desk holds the calls of one life at a time."""
    first: bool
    """Whether a life begins: the desk ends what it holds of an earlier one."""
    tick_s: float
    """Answers go back no more often."""
    aborts: list[str]
    """Request ids."""
    calls: list[Call[Any]]


class Reply(NamedTuple):
    """What the desk sends back."""

    known: bool
    """False where it does not hold the life's calls: the process, or the link, is a new one."""
    held: int
    """Calls that the replica holds of all callers."""
    answers: list[tuple[str, Any]]
    """Request id and its `Answer` or `Failure`."""


def packed(bundle: Bundle) -> list[bytes]:
    """A bundle as arguments that travel with the call, not through the object store."""
    data = pickle.dumps(tuple(bundle), 5)
    return [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]


def unpacked(chunks: tuple[bytes, ...]) -> Bundle:
    """The bundle of `packed`, out of a message of Ray's, which Ray itself unpickles."""
    return Bundle(*pickle.loads(chunks[0] if len(chunks) == 1 else b"".join(chunks)))  # noqa: S301


class Pace:
    """How often the links of one caller exchange: so many times a second in all."""

    def __init__(self) -> None:
        self.busy = 0
        """Links with calls in their replicas."""

    @property
    def tick_s(self) -> float:
        """Shortest time between two exchanges of one link."""
        return min(_TICK_MOST_S, max(1, self.busy) / _EXCHANGES_PER_S)


class Link:
    """One caller's way to one replica, on one event loop.

    Args:
        replica: its name.
        carry: calls the replica's `exchange`; raises Ray's errors.
        pace: shared by the links of the caller.
        ended: called once for each call that was handed over, when it ends, however it does.
        lost: called when the replica went away, before its calls end: none that waits for a place
            may get one of theirs; not where its successor answers already.
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

    def hand(self, call: Call[A]) -> BundledCall[A]:
        """Send a call; it leaves with the next exchange."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._held:
            self._pace.busy += 1
        self._held[call.request_id] = future
        self._calls[call.request_id] = call
        self._soon()
        return BundledCall(self, call.request_id, future)

    def abort(self, request_id: str) -> None:
        """Stop a call in the engine. One that has ended is left alone."""
        future = self._take(request_id)
        if future is None:
            return
        future.cancel()
        if self._calls.pop(request_id, None) is None:
            self._aborts.append(request_id)
            self._soon()

    def _take(self, request_id: str) -> asyncio.Future[Any] | None:
        future = self._held.pop(request_id, None)
        if future is not None:
            if not self._held:
                self._pace.busy -= 1
            self._ended(self.replica)
        return future

    def _soon(self) -> None:
        """See to it that an exchange leaves, if one is needed, when the pace allows it."""
        if self._under_way >= (UNDER_WAY if self._known else 1):
            return  # what is under way comes here again when it returns
        now = self._loop.time()
        if self._calls or self._aborts:
            due = max(now, self._sent_at + self._pace.tick_s)
        elif self._held and not self._under_way:
            due = now + self._pace.tick_s  # a call may well come before that, and bring it along
        else:
            return
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        # call_soon as well: whoever hands calls over in this turn of the loop shares the exchange
        self._timer = (
            self._loop.call_later(due - now, self._send)
            if due > now
            else self._loop.call_soon(self._send)
        )

    def _send(self) -> None:
        self._timer = None
        if not (self._calls or self._aborts or (self._held and not self._under_way)):
            return  # what was to leave has ended meanwhile
        self._sent_at = self._loop.time()
        calls, self._calls = list(self._calls.values()), {}
        aborts, self._aborts = self._aborts, []
        tick_s = self._pace.tick_s
        bundle = Bundle(self._caller, self._life, not self._known, tick_s, aborts, calls)
        self._under_way += 1
        # Ray cancels with a request what was submitted in its context; this one is everybody's
        task = self._loop.create_task(self._exchange(bundle), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exchange(self, bundle: Bundle) -> None:
        try:
            reply = Reply(*pickle.loads(await self._carry(*packed(bundle))))  # noqa: S301
        except (ray.exceptions.RayActorError, ray.exceptions.RaySystemError) as error:
            if bundle.life == self._life:
                self._lost(self.replica)
                self._lose(f"{self.replica} went away ({type(error).__name__})", {})
        except MemoryError as error:  # the replica is not to blame, and no other one would help
            if bundle.life == self._life:
                self._lose(str(error), {}, MemoryError)
        except Exception as error:  # answers may have been lost on the way
            logger.exception("an exchange with %s failed", self.replica)
            if bundle.life == self._life:
                self._lose(f"an exchange with {self.replica} failed: {error!r}", {})
        else:
            if bundle.life == self._life and not reply.known:
                untouched = {call.request_id: call for call in bundle.calls} | self._calls
                self._lose(f"{self.replica} has begun anew", untouched)
            elif bundle.life == self._life:
                self._known = True
                for request_id, outcome in reply.answers:
                    self._tell(request_id, outcome)
                self.others = max(0, reply.held - len(self._held))
                self._returned(bundle)

    def _returned(self, bundle: Bundle) -> None:
        """An exchange is over; one of an earlier life is not counted any more."""
        if bundle.life == self._life:
            self._under_way -= 1
            self._soon()

    def _tell(self, request_id: str, outcome: Any) -> None:
        future = self._take(request_id)
        if future is not None and not future.done():
            future.set_result(outcome)

    def _lose(
        self,
        why: str,
        untouched: dict[str, Call[Any]],
        kind: type[Exception] = ReplicaLostError,
    ) -> None:
        """End all calls but the `untouched`, which go again; what they cost is not known.

        Should the replica live after all, because Ray lost the connection alone, the first exchange
        of the next life ends them there.
        """
        self._life, self._known, self._under_way = self._life + 1, False, 0
        self._calls = {name: call for name, call in untouched.items() if name in self._held}
        self._aborts, self.others = [], 0
        for request_id in [name for name in self._held if name not in self._calls]:
            future = self._take(request_id)
            if future is not None and not future.done():
                future.set_exception(kind(why))
                future.exception()  # seen, whether or not anyone waits for it
        self._soon()


class BundledCall(Generic[A]):
    """A call that a replica holds."""

    def __init__(self, link: Link, request_id: str, future: asyncio.Future[Any]) -> None:
        self.replica = link.replica
        self._link, self._request_id, self._future = link, request_id, future

    async def result(self) -> A | Failure:
        """What the engine answered; see `actors.routing.transport.Placed.result`."""
        answer: A | Failure = await self._future
        return answer

    def abort(self) -> None:
        """Stop it in the engine, which counts what it had cost."""
        self._link.abort(self._request_id)


_PROCESS = uuid.uuid4().hex[:12]
_numbers = itertools.count()


def fresh_id(role: str) -> str:
    """A request id that no other try has."""
    return f"{role}-{_PROCESS}-{next(_numbers)}"
