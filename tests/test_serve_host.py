"""Ray Serve as host, with scripted engines: the same client, and only our own apps touched."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.cluster.run_monitor import RunMonitor, monitor_name
from actors.engines.connect import clients_of
from actors.engines.launch import Engines, start_pools
from actors.engines.serve_host import reap, scaling
from actors.routing.address import NAMESPACE
from actors.routing.calls import GenerateCall, Generated
from actors.routing.client import EngineClient
from pipeline.config.models import GeneratorModel
from pipeline.config.runtime import PoolConfig, RequestConfig, RuntimeConfig
from pipeline.core.protocol import Failure, Message, Request

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("serve_ray")]

REQUESTS = RequestConfig(deadline_s=20, attempts=3, backoff_s=0.1, no_replica_timeout_s=20)


@pytest.fixture(scope="module")
def serve_ray(local_ray: None) -> Iterator[None]:
    """Serve in the session's Ray; it is shut down with this module."""
    from ray import serve

    yield
    serve.shutdown()


@asynccontextmanager
async def scripted(run_id: str, pool: dict[str, Any], **script: Any) -> AsyncIterator[Engines]:
    """A pool of scripted generators on Serve, with the watch actor that says its run lives."""
    import ray

    watch = ray.remote(RunMonitor).options(
        name=monitor_name(run_id), namespace=NAMESPACE, num_cpus=0
    )
    alive = watch.remote()
    runtime = RuntimeConfig.model_validate(
        {
            "host": "serve",
            "scripted": script,
            "generator": {"num_gpus": 0, "num_cpus": 0.1, "start_timeout_s": 60, **pool},
        }
    )
    model = GeneratorModel(model="none")
    engines = await asyncio.to_thread(start_pools, {"generator": model}, runtime, run_id, 200)
    try:
        yield engines
    finally:
        await asyncio.to_thread(engines.stop)
        ray.kill(alive)


def client_of(engines: Engines, settings: RequestConfig = REQUESTS) -> EngineClient:
    """A client of the generator pool."""
    return clients_of(engines.address, settings)["generator"]


def asks(text: str, seed: int = 0) -> Request:
    """A request for a reply to `text`."""
    turn = Message("user", text)
    return Request(messages=(turn,), max_tokens=500, temperature=0.7, top_p=0.95, seed=seed)


async def pids(engines: Engines) -> list[int]:
    """Processes of the replicas."""
    from ray import serve

    from actors.routing.serve_replicas import DEPLOYMENT

    app = engines.address.pools["generator"].at["app"]
    handle = serve.get_deployment_handle(DEPLOYMENT, app)
    return [int(pid) for pid in await handle.broadcast("ping").results_async()]


async def test_chains_stay_with_their_replica_and_both_are_used() -> None:
    """Four rounds of 24 chains over two replicas: nearly every round returns to its replica."""
    async with scripted("sticky", {"replicas": 2}, tokens=10, tokens_per_s=100.0) as engines:
        client = client_of(engines)

        async def chain(i: int) -> list[str]:
            seen = []
            for r in range(4):
                made = await client.call(GenerateCall(asks(f"q{i}", r), session=f"s{i}"))
                assert isinstance(made, Generated)
                seen.append(made.replica)
            return seen

        chains = await asyncio.gather(*(chain(i) for i in range(24)))
        stats = client.stats()

    used = Counter(replica for chain in chains for replica in chain)
    assert len(used) == 2
    assert min(used.values()) >= 24
    assert stats["sent"] == used
    assert stats["sticky_rate"] >= 0.9


async def test_a_killed_replica_loses_no_request() -> None:
    """What it held is served again with the same seed, and Serve starts another."""
    async with scripted("kill", {"replicas": 2}, tokens=100, tokens_per_s=25.0) as engines:
        client = client_of(engines)
        tasks = [
            asyncio.create_task(client.call(GenerateCall(asks(f"q{i}", i), session=f"s{i}")))
            for i in range(10)
        ]
        await asyncio.sleep(0.5)
        os.kill((await pids(engines))[0], signal.SIGKILL)
        outcomes = await asyncio.gather(*tasks)

    assert all(isinstance(outcome, Generated) for outcome in outcomes)
    retried = [o for o in outcomes if isinstance(o, Generated) and o.attempts > 1]
    assert 1 <= len(retried) <= 9
    assert {o.unknown_attempts for o in retried} == {1}


async def test_deadlines_and_cancellations_reach_the_engine() -> None:
    """Hanging requests end in the engine: one at its deadline, one when its caller gives up."""
    async with scripted("cut", {}, tokens_per_s=100.0, faults={"hang": "hang"}) as engines:
        settings = REQUESTS.model_copy(update={"deadline_s": 0.5, "attempts": 1})
        late = await client_of(engines, settings).call(GenerateCall(asks("hang"), session="s"))

        assert isinstance(late, Failure)
        assert late.error == "deadline: not within 0.5 s"
        assert late.completion_tokens

        task = asyncio.create_task(client_of(engines).call(GenerateCall(asks("hang"), session="s")))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(50):
            stats = (await asyncio.to_thread(engines.stats))["generator"][0]
            if stats.aborted == 2:
                break
            await asyncio.sleep(0.1)

    assert (stats.aborted, stats.running) == (2, 0)


async def test_requests_over_the_limit_wait_in_the_router() -> None:
    """A replica that takes two at a time still serves ten, and none is lost."""
    async with scripted(
        "full", {"max_ongoing_requests": 2}, tokens=5, tokens_per_s=50.0
    ) as engines:
        client = client_of(engines)
        outcomes = await asyncio.gather(
            *(client.call(GenerateCall(asks(f"q{i}"), session=f"s{i}")) for i in range(10))
        )

    assert all(isinstance(outcome, Generated) for outcome in outcomes)


@pytest.mark.slow
async def test_calls_in_replicas_and_calls_that_wait_make_the_pool_grow() -> None:
    """Serve's autoscaler is told of calls that go past its router: two that a replica holds and
    those that wait bring a second one, which takes some of them; none is counted for ever."""
    pool = {
        "min_replicas": 1,
        "max_replicas": 2,
        "target_ongoing_requests": 2,
        "max_ongoing_requests": 2,
        "upscale_delay_s": 0.1,
    }
    async with scripted("grows", pool, tokens=100, tokens_per_s=100.0) as engines:
        client = client_of(engines)
        metrics = client._transport._replicas._router._metrics_manager  # type: ignore[attr-defined]

        def counts() -> tuple[int, int]:
            return sum(metrics.num_requests_sent_to_replicas.values()), metrics.num_queued_requests

        tasks = [
            asyncio.create_task(client.call(GenerateCall(asks(f"q{i}", i), session=f"s{i}")))
            for i in range(40)
        ]
        while not (counted := counts())[0]:  # what the replica takes first it takes at once
            await asyncio.sleep(0.01)
        outcomes = await asyncio.gather(*tasks)
        left = counts()

    assert all(isinstance(outcome, Generated) for outcome in outcomes)
    assert len({outcome.replica for outcome in outcomes if isinstance(outcome, Generated)}) == 2
    assert counted == (2, 38)
    assert left == (0, 0)


async def test_the_reaper_takes_orphans_alone() -> None:
    """An app of a run whose watch is gone is deleted; a living run's and others' are not."""
    import ray
    from ray import serve

    @serve.deployment(ray_actor_options={"num_cpus": 0})
    class Foreign:
        """Somebody else's."""

    assert reap() == []

    async with scripted("living", {}):
        serve.run(Foreign.bind(), name="foreign", route_prefix=None)
        async with scripted("orphan", {}):
            ray.kill(ray.get_actor(monitor_name("orphan"), namespace=NAMESPACE))

            assert reap() == ["markovscale-orphan-generator"]
            assert set(serve.status().applications) == {"foreign", "markovscale-living-generator"}

    assert set(serve.status().applications) == {"foreign"}


def test_an_elastic_pool_scales_between_its_bounds() -> None:
    """Fixed pools have a number of replicas, elastic ones Serve's autoscaling."""
    elastic = PoolConfig(min_replicas=0, max_replicas=4, replicas=2, target_ongoing_requests=50)
    config = scaling(elastic)["autoscaling_config"]

    assert scaling(PoolConfig(replicas=3)) == {"num_replicas": 3}
    assert (config.min_replicas, config.initial_replicas, config.max_replicas) == (0, 2, 4)
    assert config.target_ongoing_requests == 50
