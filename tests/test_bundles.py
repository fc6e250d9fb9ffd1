"""Bundles of calls and answers: both ends in this process, with a network that delays and loses."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from contextvars import ContextVar, copy_context
from typing import Any

import pytest
import ray
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.routing import bundles
from actors.routing.bundles import (
    Bundle,
    BundledCall,
    CallerQueue,
    CallServer,
    Link,
    Pace,
    fresh_id,
    unpack,
)
from actors.routing.calls import Call, ScoreCall
from actors.routing.transport import ReplicaLostError


class Replica:
    """An engine that repeats what it is asked, and the way to it.

    Args:
        dice: decides how long everything takes.
        slow_s: most seconds that an exchange is on its way, and that an answer takes.
    """

    def __init__(self, dice: random.Random, slow_s: float = 0.003) -> None:
        self.dice, self.slow_s = dice, slow_s
        self.server = CallServer(self._serve)
        self.gone = asyncio.Event()
        self.begun: Counter[str] = Counter()
        self.stopped: set[str] = set()
        self.carried: list[int] = []

    async def _serve(self, call: Call[Any]) -> str:
        assert isinstance(call, ScoreCall)
        self.begun[call.request_id] += 1
        try:
            if call.question == "hangs":
                await asyncio.Event().wait()
            if call.question == "raises":
                raise ValueError("odd")
            await asyncio.sleep(self.dice.random() * self.slow_s)
        except asyncio.CancelledError:
            self.stopped.add(call.request_id)
            raise
        return call.reply

    async def carry(self, *chunks: bytes) -> bytes:
        """One exchange; what was under way when the replica goes away ends with Ray's error."""
        self.carried.append(len(unpack(chunks).calls))
        server, gone = self.server, self.gone

        async def there_and_back() -> bytes:
            await asyncio.sleep(self.dice.random() * self.slow_s)
            reply = await server.exchange(*chunks)
            await asyncio.sleep(self.dice.random() * self.slow_s)
            return reply

        way = asyncio.ensure_future(there_and_back())
        lost = asyncio.ensure_future(gone.wait())
        await asyncio.wait({way, lost}, return_when=asyncio.FIRST_COMPLETED)
        lost.cancel()
        if gone.is_set():
            way.add_done_callback(lambda task: task.cancelled() or task.exception())
            raise ray.exceptions.ActorUnavailableError("gone", None)
        return way.result()

    def lose(self, *, dies: bool) -> None:
        """Cut the connection; a replica that dies comes back with nothing in it."""
        self.gone.set()
        self.gone = asyncio.Event()
        if dies:
            for queue in self.server._callers.values():
                queue.close()
            self.server = CallServer(self._serve)


class Caller:
    """A link, and what became of its calls."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.submitted = self.ended = self.losses = 0
        self.link = Link("r", replica.carry, Pace(), self._one_ended, self._one_lost)

    def _one_ended(self, name: str) -> None:
        assert name == "r"
        self.ended += 1

    def _one_lost(self, name: str) -> None:
        self.losses += 1

    def submit(self, question: str = "what?") -> tuple[str, BundledCall[Any]]:
        """Submit a call that is answered by its own id."""
        number = fresh_id("t")
        self.submitted += 1
        call = ScoreCall(question, number, request_id=number, deadline_s=9.0)
        return number, self.link.submit(call)


async def settled(condition: Any, within_s: float = 20.0) -> bool:
    """Whether `condition` comes to hold in time."""
    for _ in range(int(within_s / 0.005)):
        if condition():
            return True
        await asyncio.sleep(0.005)
    return bool(condition())


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(["call", "hang", "abort", "pause", "cut", "die"]), max_size=40),
    st.integers(0, 2**32),
)
def test_every_call_has_one_end_whatever_the_order_and_whatever_is_lost(
    events: list[str], seed: int
) -> None:
    """Its own answer, an abort that stops it in the engine, or the loss of its replica, of which
    nothing is left there; the pool is told of each end once, and the engine begins none twice."""

    async def play() -> None:
        dice = random.Random(seed)
        replica = Replica(dice)
        caller = Caller(replica)
        calls: dict[str, BundledCall[Any]] = {}
        aborted: set[str] = set()
        for event in events:
            if event == "call":
                calls |= [caller.submit()]
            elif event == "hang":
                calls |= [caller.submit("hangs")]
            elif event == "abort" and calls:
                number = dice.choice(list(calls))
                aborted.add(number)
                calls[number].abort()
            elif event == "pause":
                await asyncio.sleep(dice.random() * 0.012)
            elif event in ("cut", "die"):
                replica.lose(dies=event == "die")
        await asyncio.sleep(0.03)
        for number, placed in calls.items():  # those that hang, or were sent to a replica cut off
            aborted.add(number)
            placed.abort()
        told = await asyncio.gather(
            *(placed.result() for placed in calls.values()), return_exceptions=True
        )
        for number, outcome in zip(calls, told, strict=True):
            if isinstance(outcome, ReplicaLostError):
                assert {"cut", "die"} & set(events)
            elif isinstance(outcome, asyncio.CancelledError):
                assert number in aborted
            else:
                assert outcome == number
        assert caller.submitted == caller.ended
        assert set(replica.begun.values()) <= {1}
        assert len(caller.link) == 0
        _, last = caller.submit()  # one more exchange tells a replica that was cut off
        assert isinstance(await last.result(), str)
        assert await settled(lambda: replica.server.held == 0)

    asyncio.run(play())


async def test_a_process_begun_anew_between_two_exchanges_is_seen() -> None:
    """Nothing was under way when it died, so that no error of Ray says so. What it held is lost,
    what only then comes is not."""
    replica = Replica(random.Random(0), slow_s=0.0)
    caller = Caller(replica)
    _, before = caller.submit("hangs")
    await asyncio.sleep(0.02)
    replica.server = CallServer(replica._serve)
    number, after = caller.submit()

    assert await after.result() == number
    with pytest.raises(ReplicaLostError, match="was restarted"):
        await before.result()
    assert replica.begun[number] == 1


async def test_an_abort_that_overtakes_its_call_keeps_it_from_beginning() -> None:
    """Ray may deliver two exchanges in the wrong order."""
    queue = CallerQueue(CallServer(Replica(random.Random(0))._serve), 0)
    call = ScoreCall("hangs", "x", request_id="x")
    other = ScoreCall("hangs", "y", request_id="y")
    bundle = Bundle("me", 0, False, 0.005, [], [])
    queue.take(bundle._replace(aborts=["x"]))
    queue.take(bundle._replace(calls=[call, other]))

    assert queue.tasks.keys() == {"y"}
    queue.close()


async def test_a_lone_call_waits_for_no_tick_and_many_share_their_exchanges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One call is on its way in the same turn of the loop; 1,000 at once leave together."""
    monkeypatch.setattr(bundles, "_TICK_MOST_S", 0.5)
    monkeypatch.setattr(bundles, "_EXCHANGES_PER_S", 2)
    replica = Replica(random.Random(0), slow_s=0.0)
    caller = Caller(replica)
    await caller.submit()[1].result()
    await asyncio.sleep(2 * Pace().tick_s)
    replica.carried = []
    _, placed = caller.submit()
    for _ in range(3):  # turns of the loop, which take no time
        await asyncio.sleep(0)
    at_once = list(replica.carried)
    await placed.result()
    await asyncio.sleep(2 * Pace().tick_s)
    lone, replica.carried = replica.carried, []
    await asyncio.gather(*(caller.submit()[1].result() for _ in range(1_000)))

    assert at_once == lone == [1]
    assert replica.carried[0] == 1_000
    assert not any(replica.carried[1:])


async def test_an_exchange_is_not_submitted_in_the_context_of_a_request() -> None:
    """Ray cancels with a request what was submitted in its context, whosever calls it carries."""
    request: ContextVar[str | None] = ContextVar("request", default=None)
    replica, submitted = Replica(random.Random(0)), []

    async def carry(*chunks: bytes) -> bytes:
        submitted.append(request.get())
        return await replica.carry(*chunks)

    link = Link("r", carry, Pace(), lambda name: None, lambda name: None)
    for number in range(6):
        context = copy_context()
        context.run(request.set, f"request {number}")
        call = ScoreCall("what?", "so", request_id=fresh_id("t"), deadline_s=9.0)
        await context.run(link.submit, call).result()

    assert len(submitted) >= 6
    assert set(submitted) == {None}


async def test_the_calls_of_a_caller_that_is_gone_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would take their answers, and no other caller need come by; a caller that was only
    asleep is told that they are lost."""
    monkeypatch.setattr(bundles, "_CALLER_SILENT_S", 1.0)
    replica = Replica(random.Random(0))
    asleep = Caller(replica)
    _, placed = asleep.submit("hangs")

    assert await settled(lambda: replica.server.held == 1)
    assert await settled(lambda: replica.server.held == 0)
    with pytest.raises(ReplicaLostError):
        await asyncio.wait_for(placed.result(), 20)


async def test_a_replica_that_was_asleep_itself_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its callers were silent for it alone."""
    monkeypatch.setattr(bundles, "_CALLER_SILENT_S", 0.8)
    monkeypatch.setattr(bundles, "WAIT_S", 0.1)
    replica = Replica(random.Random(0))
    caller = Caller(replica)
    caller.submit("hangs")
    await settled(lambda: replica.server.held == 1)
    time.sleep(1.5)
    await asyncio.sleep(0.5)

    assert replica.server.held == 1


async def test_a_caller_without_memory_does_not_blame_the_replica() -> None:
    """Its calls end with that error, which no retry elsewhere would mend."""
    replica = Replica(random.Random(0))

    async def carry(*chunks: bytes) -> bytes:
        await replica.carry(*chunks)
        raise MemoryError

    link = Link("r", carry, Pace(), lambda name: None, lambda name: None)
    call = ScoreCall("hangs", "x", request_id=fresh_id("verifier"))
    with pytest.raises(MemoryError):
        await asyncio.wait_for(link.submit(call).result(), 20)


async def test_a_replica_whose_loop_hangs_is_lost_after_three_times_its_longest_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its calls end with the loss, it is reported once, and it serves again once it answers; before
    that a caller waited a whole deadline for each of its calls."""
    monkeypatch.setattr(bundles, "SILENT_S", 0.2)
    replica, hangs = Replica(random.Random(0), slow_s=0.0), asyncio.Event()

    async def carry(*chunks: bytes) -> bytes:
        if not hangs.is_set():
            await asyncio.sleep(60)
        return await replica.carry(*chunks)

    losses: list[str] = []
    link = Link("r", carry, Pace(), lambda name: None, losses.append)
    began = time.monotonic()
    calls = [ScoreCall("what?", "so", request_id=fresh_id("t"), deadline_s=9.0) for _ in range(20)]
    told = await asyncio.gather(
        *(link.submit(call).result() for call in calls), return_exceptions=True
    )
    waited_s = time.monotonic() - began
    hangs.set()
    again = ScoreCall("what?", "so", request_id=fresh_id("t"), deadline_s=9.0)

    assert {type(each) for each in told} == {ReplicaLostError}
    assert "hangs" in str(told[0])
    assert losses == ["r"]
    assert 0.2 <= waited_s < 8.0
    assert await link.submit(again).result() == "so"


async def test_a_caller_that_hung_itself_does_not_blame_the_replica(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the replica replied meanwhile is still to be read: an exchange has its time again."""
    monkeypatch.setattr(bundles, "SILENT_S", 0.5)
    caller = Caller(Replica(random.Random(0), slow_s=0.2))
    number, placed = caller.submit()
    await asyncio.sleep(0.01)
    time.sleep(2.0)

    assert await placed.result() == number
    assert caller.losses == 0


async def test_a_call_that_asks_to_be_alone_has_its_replica_to_itself() -> None:
    """It begins once all others have ended, those that come meanwhile wait for it, also those of
    other callers, and an abort while it waits lets the others go on."""
    running: list[str] = []
    seen: dict[str, list[str]] = {}
    may_end = asyncio.Event()

    async def serve(call: Call[Any]) -> str:
        assert isinstance(call, ScoreCall)
        running.append(call.reply)
        await may_end.wait()
        seen[call.reply] = [each for each in running if each != call.reply]
        running.remove(call.reply)
        return call.reply

    server = CallServer(serve)

    def call(name: str, *, alone: bool = False) -> asyncio.Task[Any]:
        asked = ScoreCall("q", name, request_id=name, alone=alone)
        return asyncio.create_task(server.answer(asked))

    async def some(*names: str) -> list[asyncio.Task[Any]]:
        tasks = [call(name, alone=name.startswith("alone")) for name in names]
        await asyncio.sleep(0.01)
        return tasks

    tasks = [*await some("a", "b"), *await some("alone 1", "c"), *await some("alone 2", "d")]
    assert running == ["a", "b"]
    may_end.set()
    assert await asyncio.wait_for(asyncio.gather(*tasks), 20)
    assert (seen["alone 1"], seen["alone 2"]) == ([], [])
    assert set(seen["a"] + seen["b"]) <= {"a", "b"}
    assert set(seen["c"] + seen["d"]) <= {"c", "d"}

    waits = (await some("e", "alone 3"))[1]
    waits.cancel()
    assert await asyncio.wait_for(call("f"), 20) == "f"
