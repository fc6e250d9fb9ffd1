"""What a request costs the processes that all requests of an endpoint go through.

    python -m benchmarks.serving --quick
    python -m benchmarks.serving --requests 20000 --at-once 512

``jobs.serve`` over scripted engines that answer at once: whatever it takes is its own. All requests
go through Serve's HTTP proxy and through the one process that answers them, so that CPU time of
each a request, which other work on the machine does not move, says how many a second there can be.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.machine import described
from benchmarks.running import titled

_MODELS = ("markovscale/base", "markovscale/mr_thinking-8")
_TITLES = {"proxy": "ray::ProxyActor", "answers": "ray::ServeReplica"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="1,000 requests of each, a minute")
    parser.add_argument("--requests", type=int, default=5_000)
    parser.add_argument("--at-once", type=int, default=128)
    options = parser.parse_args()
    wanted = 1_000 if options.quick else options.requests
    print(described())
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder)) as (job, url):
        for model in _MODELS:
            asyncio.run(_ask(url, model, 100, options.at_once))  # connections, caches
            before, began = _cpu_s(job), time.perf_counter()
            completions = asyncio.run(_ask(url, model, wanted, options.at_once))
            seconds, after = time.perf_counter() - began, _cpu_s(job)
            each_ms = {n: round((after[n] - before[n]) * 1000 / wanted, 2) for n in _TITLES}
            figures[model] = {
                "requests_per_s": round(wanted / seconds),
                "completions": completions / wanted,
                "cpu_ms": each_ms,
                "at_most_per_s": round(1000 / max(each_ms.values())),
            }
            print(
                f"{model}, {completions / wanted:.1f} completions a request: {wanted / seconds:.0f}"
                f" requests/s; CPU a request: {each_ms['proxy']} ms of the proxy, "
                f"{each_ms['answers']} ms of the process that answers",
                flush=True,
            )
    print(json.dumps(figures))


async def _ask(url: str, model: str, wanted: int, at_once: int) -> int:
    """Ask so many questions; returns how many completions were drawn for them."""
    import httpx

    left, drawn = iter(range(wanted)), 0

    async def client() -> None:
        nonlocal drawn
        async with httpx.AsyncClient(timeout=300) as http:
            for number in left:
                messages = [{"role": "user", "content": f"{number}+7?"}]
                body = {"model": model, "messages": messages}
                reply = await http.post(f"{url}/chat/completions", json=body)
                reply.raise_for_status()
                drawn += reply.json()["markovscale"]["completions"]

    await asyncio.gather(*(client() for _ in range(at_once)))
    return drawn


@contextmanager
def _served(folder: Path) -> Iterator[tuple[int, str]]:
    """The job's process id, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    engines = {"num_gpus": 0, "num_cpus": 0.3, "engine": {"max_num_seqs": 1024}}
    config = {
        "name": "serving",
        "science": {
            "benchmarks": [{"name": "arithmetic", "limit": 1}],
            "strategy": {"n": 8},
            "strategies": [model.partition("/")[2].partition("-")[0] for model in _MODELS],
            "generator": {"model": "scripted"},
            "verifier": {"model": "scripted"},
        },
        "runtime": {
            "generator": engines,
            "verifier": engines,
            "controllers": {"num_cpus": 0.3, "in_flight": 1024},
            "scripted": {},
        },
    }
    (folder / "serving.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "jobs.serve", "--config", str(folder / "serving.yaml")]
    job = subprocess.Popen(  # noqa: S603 - our own command
        [*command, "--port", str(port)],
        stdout=subprocess.PIPE,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "MARKOVSCALE_API_KEY"},
    )
    assert job.stdout is not None
    try:
        if not job.stdout.readline().startswith("serving"):
            raise RuntimeError("jobs.serve did not start")
        yield job.pid, job.stdout.readline().removeprefix("at ").strip()
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(60)


def _cpu_s(job: int) -> dict[str, float]:
    """CPU time so far of the processes that every request goes through."""
    spent = {}
    for name, title in _TITLES.items():
        times = [process.cpu_times() for process in titled(job, title).values()]
        spent[name] = sum(each.user + each.system for each in times)
    return spent


if __name__ == "__main__":
    main()
