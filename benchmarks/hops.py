"""What a call of an engine that is a Ray actor costs.

    python -m benchmarks.hops --quick
    python -m benchmarks.hops --calls 20000 --prompt-bytes 20000 --reply-chars 4500

Scripted engines answer at once, and one process calls them through the product's own client: calls
that come one at a time for latency, 64 at once for calls a second, and then chains of scored rounds
(two calls each) as a controller drives them, 256 at once. Beside rates stand CPU times, which say
more on a machine that has other work: of the caller, and of the replicas. The last line is one JSON
object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from benchmarks.control_plane import run, works_of
from benchmarks.machine import described
from benchmarks.running import titled

_AT_ONCE = 64
_CHAINS_AT_ONCE, _ROUNDS = 256, 8
_APART_S = 0.02


async def measure(engines: Any, calls: int, alone: int, prompt: str) -> dict[str, float]:
    """Latency of calls one at a time, then the rate of many at once.

    Args:
        engines: address of the pools.
        calls: many at once.
        alone: one at a time.
        prompt: of each.
    """
    from actors.engines.hosts import clients_of
    from actors.routing.calls import GenerateCall
    from pipeline.config.runtime import RequestConfig
    from pipeline.core.prompts import Message
    from pipeline.core.protocol import Failure, Request

    client = clients_of(engines, RequestConfig())["generator"]

    async def call(number: int) -> None:
        message = Message(role="user", content=prompt)
        request = Request(
            messages=(message,), max_tokens=10_000, temperature=0.7, top_p=0.95, seed=number
        )
        got = await client.call(GenerateCall(request, session=str(number % _AT_ONCE)))
        assert not isinstance(got, Failure), got

    for number in range(20):  # connections, handles and routers are made by the first calls
        await call(number)
    latencies = []
    for number in range(alone):
        await asyncio.sleep(_APART_S)
        began = time.perf_counter()
        await call(number)
        latencies.append(time.perf_counter() - began)
    numbers = iter(range(calls))

    async def worker() -> None:
        for number in numbers:
            await call(number)

    held_s = replicas_cpu_s()
    began, cpu_began = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    latencies.sort()
    return {
        "latency_p50_ms": 1e3 * statistics.median(latencies),
        "latency_p99_ms": 1e3 * latencies[int(0.99 * len(latencies))],
        "calls_per_s": calls / seconds,
        "caller_cpu_us": 1e6 * cpu_s / calls,
        "replica_cpu_us": 1e6 * (replicas_cpu_s() - held_s) / calls,
    }


def rounds_of(engines: Any, chains: int) -> dict[str, float]:
    """Scored rounds of one controller: a second, and what they take of it and of the replicas."""
    from actors.engines.hosts import clients_of
    from pipeline.config.runtime import RequestConfig

    connect = partial(clients_of, engines, RequestConfig())
    held_s = replicas_cpu_s()
    with tempfile.TemporaryDirectory() as folder:
        got = asyncio.run(run(works_of(chains, _ROUNDS), _CHAINS_AT_ONCE, connect, folder))
    assert not got["lost"], got
    return {
        "rounds_per_s": got["rounds_per_s"],
        "round_cpu_us": got["cpu_us_a_round"],
        "round_replicas_cpu_us": 1e6 * (replicas_cpu_s() - held_s) / got["rounds"],
    }


def replicas_cpu_s() -> float:
    """CPU time that the replicas' processes have taken so far."""
    replicas = titled(os.getpid(), "ray::EngineHost")
    return sum(sum(replica.cpu_times()[:2]) for replica in replicas.values())


def started(reply_chars: int) -> Any:
    """A scripted generator and a verifier that answer at once."""
    from actors.engines.launch import start_pools
    from pipeline.config.models import GeneratorModel, VerifierModel
    from pipeline.config.runtime import RuntimeConfig

    pool = {"num_gpus": 0, "num_cpus": 0.2, "engine": {"max_num_seqs": 256}}
    runtime = RuntimeConfig.model_validate(
        {
            "generator": pool,
            "verifier": pool,
            "scripted": {"reply_chars": reply_chars},
        }
    )
    models = {
        "generator": GeneratorModel(model="scripted"),
        "verifier": VerifierModel(model="scripted"),
    }
    return start_pools(models, runtime, "hops", 1_000)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.hops", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="1,000 calls, under 50 s on 2 cores")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--prompt-bytes", type=int, default=2_000)
    parser.add_argument("--reply-chars", type=int, default=0, help="of working in each reply")
    options = parser.parse_args(argv)
    calls = 1_000 if options.quick else options.calls
    from jobs.cluster import start_ray
    from pipeline.config.runtime import RuntimeConfig

    prompt = "12*34+56? " + "x" * options.prompt_bytes
    print(described())
    print(f"{calls} calls, {_AT_ONCE} at once, prompts of {len(prompt):,} bytes", flush=True)
    start_ray(RuntimeConfig())
    engines = started(options.reply_chars)
    try:
        figures = asyncio.run(measure(engines.address, calls, 100, prompt))
        figures |= rounds_of(engines.address, max(100, calls // 10))
    finally:
        engines.stop()
    print(json.dumps({"benchmark": "hops", "calls": calls, **figures}))


if __name__ == "__main__":
    main()
