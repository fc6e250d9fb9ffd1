"""The way to Serve's replicas, with engines in this process in place of Serve."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from actors.engines.bundle_desk import Desk
from actors.routing import serve_transport
from actors.routing.address import PoolAddress
from actors.routing.bundles import BundledCall, fresh_id
from actors.routing.calls import Call, ScoreCall
from actors.routing.router import StickyLeastLoaded
from actors.routing.serve_transport import ServeTransport
from actors.routing.transport import NoReplicaError, ReplicaLostError
from pipeline.config.runtime import RequestConfig


class Replicas:
    """What Serve knows: which replicas run, and how many calls are in them and wait."""

    def __init__(self) -> None:
        self.desks: dict[str, Desk] = {}
        self.inside = self.waiting = 0
        self.over: dict[str, asyncio.Event] = {}
        self.gone = asyncio.Event()

    def start(self, name: str) -> None:
        """Serve has a replica more."""
        self.desks = {**self.desks, name: Desk(self._serve)}

    async def _serve(self, call: Call[Any]) -> str:
        assert isinstance(call, ScoreCall)
        await self.end_of(call.question).wait()
        return call.question

    def end_of(self, question: str) -> asyncio.Event:
        """Is set to let a replica answer."""
        return self.over.setdefault(question, asyncio.Event())

    def running(self) -> dict[str, Any]:
        return self.desks

    async def ask(self, replica: Desk, method: str, *arguments: Any) -> Any:
        if replica is not self.desks.get("dies"):
            return await getattr(replica, method)(*arguments)
        way = asyncio.ensure_future(replica.exchange(*arguments))
        gone = asyncio.ensure_future(self.gone.wait())
        await asyncio.wait({way, gone}, return_when=asyncio.FIRST_COMPLETED)
        if self.gone.is_set():
            way.cancel()
            raise ray.exceptions.ActorDiedError
        gone.cancel()
        return way.result()

    def began(self, replica: Any) -> None:
        self.inside += 1

    def ended(self, replica: Any) -> None:
        self.inside -= 1

    def queued(self) -> None:
        self.waiting += 1

    def unqueued(self) -> None:
        self.waiting -= 1


@pytest.fixture
def replicas(monkeypatch: pytest.MonkeyPatch) -> Replicas:
    """In place of Serve's, for all transports of a test."""
    fake = Replicas()
    monkeypatch.setattr(serve_transport, "ServeReplicas", lambda app: fake)
    policy = StickyLeastLoaded(rng=random.Random(0))
    monkeypatch.setattr(serve_transport, "policy_of", lambda settings: policy)
    return fake


def transport(most: int) -> ServeTransport:
    """The way there of one caller."""
    address = PoolAddress(host="serve", role="verifier", at={"app": "any", "most": most})
    return ServeTransport(address, RequestConfig(no_replica_timeout_s=600))


async def placed(way: ServeTransport, question: str) -> BundledCall[Any]:
    """A call that a replica has taken; it says its question once that is over."""
    call = ScoreCall(question, "any", request_id=fresh_id("t"), deadline_s=600)
    return await way.place(call, avoid=())


async def until(condition: Any) -> None:
    """Wait for something that must come."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_caller_with_nothing_in_a_full_replica_gets_in_again(replicas: Replicas) -> None:
    """What it knows of others' calls is as of its last exchange, and it has none any more."""
    replicas.start("r")
    one, other = transport(most=2), transport(most=2)
    last = await placed(one, "last")
    others = [await placed(other, "others") for _ in range(2)]  # goes over: it knows of no call
    await until(lambda: replicas.desks["r"].held == 3)
    replicas.end_of("last").set()
    assert await last.result() == "last"
    await until(lambda: one._links["r"][0].others == 2)
    replicas.end_of("others").set()
    assert [await each.result() for each in others] == ["others"] * 2
    replicas.end_of("again").set()

    async with asyncio.timeout(30):
        assert await (await placed(one, "again")).result() == "again"


async def test_a_call_that_is_given_up_while_it_waits_counts_no_more(replicas: Replicas) -> None:
    """Neither for Serve's autoscaler, wherever in the queue it stands, nor in a replica later."""
    replicas.start("r")
    way = transport(most=1)
    held = await placed(way, "held")
    tasks = [asyncio.create_task(placed(way, f"q{n}")) for n in range(4)]
    await until(lambda: replicas.waiting == 4)
    for task in (tasks[1], tasks[3]):
        task.cancel()
    await asyncio.wait({tasks[1], tasks[3]})
    assert (replicas.inside, replicas.waiting) == (1, 2)

    for name in ("held", "q0", "q2"):
        replicas.end_of(name).set()
    assert await held.result() == "held"
    assert [await (await tasks[n]).result() for n in (0, 2)] == ["q0", "q2"]
    await until(lambda: (replicas.inside, replicas.waiting) == (0, 0))


async def test_a_call_that_is_given_up_as_it_is_let_in_ends_in_the_replica(
    replicas: Replicas,
) -> None:
    """Its place is free for the next one."""
    replicas.start("r")
    way = transport(most=1)
    held = await placed(way, "held")
    given_up = asyncio.create_task(placed(way, "given up"))
    next_one = asyncio.create_task(placed(way, "next"))
    await until(lambda: replicas.waiting == 2)
    held.abort()  # which lets the first one in, and it has not run yet
    assert replicas.waiting == 1
    given_up.cancel()
    replicas.end_of("next").set()

    assert await (await next_one).result() == "next"
    assert given_up.cancelled()
    await until(lambda: (replicas.inside, replicas.waiting) == (0, 0))


async def test_a_replica_that_goes_as_it_is_chosen_takes_the_call(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Serve's own thread says who runs; the exchange will fail then, and the call is tried again
    elsewhere."""
    replicas.start("r")
    way, looks = transport(most=1), iter([replicas.desks])
    monkeypatch.setattr(replicas, "running", lambda: next(looks, {}))

    assert (await placed(way, "any")).replica == "r"


async def test_no_waiting_call_goes_to_a_replica_that_has_just_died(replicas: Replicas) -> None:
    """Its places are free then, but Serve may not know of its death for seconds."""
    replicas.start("dies")
    way = transport(most=2)
    held = [await placed(way, "held") for _ in range(2)]
    waits = [asyncio.create_task(placed(way, f"q{n}")) for n in range(2)]
    await until(lambda: replicas.waiting == 2 and replicas.desks["dies"].held == 2)
    replicas.gone.set()
    for each in held:
        with pytest.raises(ReplicaLostError):
            await each.result()
    replicas.start("lives")
    for name in ("q0", "q1"):
        replicas.end_of(name).set()

    assert [await (await each).result() for each in waits] == ["q0", "q1"]


async def test_waiting_for_room_is_not_waiting_for_a_replica(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that has waited long for a place is not given up when replicas are away for a moment,
    and is when they stay away."""
    now, looks = [0.0], [0]
    monkeypatch.setattr(serve_transport, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def running() -> dict[str, Desk]:
        looks[0] += 1
        return replicas.desks

    async def look(at: float) -> None:
        now[0], seen = at, looks[0]
        await until(lambda: looks[0] >= seen + 4)  # of two in each round, of two rounds

    monkeypatch.setattr(replicas, "running", running)
    replicas.start("r")
    way = transport(most=1)
    await placed(way, "held")
    waits = asyncio.create_task(placed(way, "waits"))
    await until(lambda: replicas.waiting == 1)
    await look(1_000.0)
    replicas.desks = {}
    await look(1_001.0)
    await look(1_599.0)
    assert not waits.done()
    now[0] = 1_601.0
    with pytest.raises(NoReplicaError) as told:
        await waits

    assert told.value.gone_s == 601.0
    assert replicas.waiting == 0
