"""Pools of Ray actors with scripted engines: what dies or hangs is replaced, nothing is lost."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
import ray

from actors.engines.hosts import clients_of
from actors.engines.launch import Engines, start_pools
from actors.routing.calls import GenerateCall, Generated
from actors.routing.client import EngineClient
from actors.routing.transport import NAMESPACE
from pipeline.config.models import GeneratorModel
from pipeline.config.runtime import PoolConfig, RequestConfig, RuntimeConfig
from pipeline.core.errors import EngineError
from pipeline.core.prompts import Message
from pipeline.core.protocol import Failure, Request

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]

GENERATOR = GeneratorModel(model="none")
REQUESTS = RequestConfig(deadline_s=20, attempts=3, backoff_s=0.1, no_replica_timeout_s=180)


@contextmanager
def scripted(pool: dict[str, Any] | None = None, **script: Any) -> Iterator[Engines]:
    """A pool of scripted generators."""
    runtime = RuntimeConfig.model_validate(
        {
            "scripted": script,
            "generator": {"num_gpus": 0, "num_cpus": 0.1, **(pool or {})},
        }
    )
    engines = start_pools({"generator": GENERATOR}, runtime, "scripted", 200)
    try:
        yield engines
    finally:
        engines.stop()


def client_of(engines: Engines, settings: RequestConfig = REQUESTS) -> EngineClient:
    """A client of the generator pool."""
    return clients_of(engines.address, settings)["generator"]


def asks(text: str, seed: int = 0) -> Request:
    """A request for a reply to `text`."""
    turn = Message("user", text)
    return Request(messages=(turn,), max_tokens=500, temperature=0.7, top_p=0.95, seed=seed)


def pids(engines: Engines) -> dict[str, int]:
    """Process of each replica, once all serve."""
    names = engines.address.pools["generator"].at["replicas"]
    actors = [ray.get_actor(name, namespace=NAMESPACE) for name in names]
    give_up = time.monotonic() + 180
    while True:
        try:
            told = ray.get([actor.ping.remote() for actor in actors])
            return dict(zip(names, told, strict=True))
        except ray.exceptions.RayError:  # one is just restarting
            if time.monotonic() > give_up:
                raise
        time.sleep(0.2)


async def settled(engines: Engines, **expected: int) -> bool:
    """Whether the only replica's counts become `expected` within 5 s."""
    for _ in range(50):
        stats = (await asyncio.to_thread(engines.stats))["generator"]
        if stats and all(getattr(stats[0], name) == n for name, n in expected.items()):
            return True
        await asyncio.sleep(0.1)
    return False


async def test_a_replica_killed_with_requests_in_it_loses_none_of_them() -> None:
    """They are served by the other replica with the same seed; the dead one comes back."""
    with scripted({"replicas": 2}, tokens=100, tokens_per_s=25.0) as engines:
        client = client_of(engines)
        before = pids(engines)
        tasks = [
            asyncio.create_task(client.call(GenerateCall(asks(f"q{i}", i), session=f"s{i}")))
            for i in range(10)
        ]
        await asyncio.sleep(0.4)
        victim, pid = next(iter(before.items()))
        os.kill(pid, signal.SIGKILL)
        outcomes = await asyncio.gather(*tasks)

        assert all(isinstance(outcome, Generated) for outcome in outcomes)
        retried = [o for o in outcomes if isinstance(o, Generated) and o.attempts > 1]
        assert len(retried) == 5
        assert all(o.replica != victim and o.unknown_attempts == 1 for o in retried)
        assert pids(engines)[victim] != pid


@pytest.mark.slow
async def test_with_no_replica_alive_requests_wait_for_one() -> None:
    """The only replica is killed; the request waits for its successor."""
    with scripted(tokens=100, tokens_per_s=25.0) as engines:
        client = client_of(engines)
        task = asyncio.create_task(client.call(GenerateCall(asks("q"), session="s")))
        assert await settled(engines, running=1)
        os.kill(pids(engines)[engines.address.pools["generator"].at["replicas"][0]], signal.SIGKILL)
        outcome = await task

        assert isinstance(outcome, Generated)
        assert (outcome.attempts, outcome.unknown_attempts) == (2, 1)


async def test_a_deadline_and_a_cancellation_reach_the_engine() -> None:
    """Hanging requests end in the engine: one at its deadline, one when its caller gives up."""
    with scripted(tokens_per_s=100.0, faults={"hang": "hang"}) as engines:
        settings = REQUESTS.model_copy(update={"deadline_s": 0.5, "attempts": 1})
        late = await client_of(engines, settings).call(GenerateCall(asks("hang"), session="s"))

        assert isinstance(late, Failure)
        assert late.error == "deadline: not within 0.5 s"
        assert late.completion_tokens
        assert await settled(engines, aborted=1, running=0)

        task = asyncio.create_task(client_of(engines).call(GenerateCall(asks("hang"), session="s")))
        assert await settled(engines, running=1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await settled(engines, aborted=2, running=0)


async def test_an_engine_that_dies_inside_a_live_actor_is_replaced() -> None:
    """The host ends its own process, so that Ray starts another and callers are told."""
    with scripted(faults={"die": "dead"}, fault_times=1) as engines:
        client = client_of(engines, REQUESTS.model_copy(update={"attempts": 1}))
        before = pids(engines)
        lost = await client.call(GenerateCall(asks("die"), session="s"))
        served = await client.call(GenerateCall(asks("q"), session="s"))

        assert isinstance(lost, Failure)
        assert lost.error.startswith("replica_lost: ")
        assert isinstance(served, Generated)
        assert pids(engines) != before


def test_an_engine_that_cannot_start_says_why_and_leaves_nothing() -> None:
    """A model that is not there reaches the driver as one error with the cause in it."""
    import ray

    runtime = RuntimeConfig.model_validate({"generator": {"num_gpus": 0}})
    missing = GeneratorModel(model="/no/such/model")
    with pytest.raises(EngineError, match=r"(?s)^a generator did not start: .*/no/such/model"):
        start_pools({"generator": missing}, runtime, "missing", 200)

    assert not [name for name in names_of_actors(ray) if "missing" in name]


def names_of_actors(ray: Any) -> list[str]:
    """Names of all actors that live."""
    return [actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True)]


def test_a_pool_cannot_have_more_than_its_most_replicas() -> None:
    """An elastic pool starts one replica at least."""
    pool = PoolConfig(min_replicas=0, max_replicas=2)
    assert (pool.least_replicas, pool.most_replicas) == (1, 2)
    with pytest.raises(ValueError, match="min_replicas must be at most max_replicas 2, got 3"):
        PoolConfig(min_replicas=3, max_replicas=2)


async def test_an_elastic_pool_serves_with_its_fewest_replicas() -> None:
    """The others wait for resources; statistics, calls and the end do not wait for them."""
    elastic = {"min_replicas": 1, "max_replicas": 40, "num_cpus": 1}
    with scripted(elastic, slots=10) as engines:
        began = time.monotonic()
        stats = engines.stats()["generator"]
        looked_s = time.monotonic() - began
        outcome = await client_of(engines).call(GenerateCall(asks("q")))

    assert 1 <= len(stats) <= 2
    assert looked_s < 4
    assert isinstance(outcome, Generated)
    assert (engines.address.in_flight, engines.address.most) == (15, 600)


@pytest.mark.slow
async def test_an_elastic_pool_gives_idle_replicas_back_and_takes_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Down to its fewest, and no call fails of it: a replica that is quiet is asked before it gets
    one. Where requests wait, the pool grows again, and callers find the new replica by its name."""
    monkeypatch.setattr("actors.engines.actor_host.IDLE_S", 2.0)
    monkeypatch.setattr("actors.routing.actor_transport._QUIET_S", 0.0)
    serving: set[str] = set()

    async def look() -> None:
        while True:
            stats = (await asyncio.to_thread(engines.stats))["generator"]
            serving.clear()
            serving.update(each.replica for each in stats)
            await asyncio.sleep(0.2)

    async def served_by() -> set[str]:
        """Who answers six calls of new sessions, which go to the least loaded replica."""
        calls = (client.call(GenerateCall(asks("q"), session=uuid4().hex)) for _ in range(6))
        outcomes = await asyncio.gather(*calls)
        assert all(isinstance(each, Generated) and each.attempts == 1 for each in outcomes)
        return {each.replica for each in outcomes if isinstance(each, Generated)}

    elastic = {"min_replicas": 1, "max_replicas": 2}
    with scripted(elastic, slots=2, tokens=20, tokens_per_s=20.0) as engines:
        client = client_of(engines)
        looking = asyncio.create_task(look())
        async with asyncio.timeout(240):
            while len(await served_by()) < 2:
                pass
            while len(serving) != 1:
                await asyncio.sleep(0.1)
            while len(await served_by()) < 2:
                pass
        looking.cancel()


async def test_controllers_are_sized_for_what_the_kv_cache_may_turn_out_to_hold() -> None:
    """A small KV cache bounds what a run begins with, and not what it may come to; a fixed number
    is both."""
    with scripted({"replicas": 2}, slots=100, kv_tokens=25) as engines:
        small = engines.address
    runtime = RuntimeConfig.model_validate(
        {
            "generator": {"num_gpus": 0, "num_cpus": 0.1},
            "scripted": {},
            "controllers": {"in_flight": 33},
        }
    )
    engines = start_pools({"generator": GENERATOR}, runtime, "fixed", 200)
    fixed = engines.address
    engines.stop()

    assert (small.in_flight, small.most) == (150, 300)
    assert (fixed.in_flight, fixed.most) == (33, 33)
