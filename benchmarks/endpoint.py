"""The same completions by our engine and by vLLM's own server, side by side.

    python -m benchmarks.endpoint --quick
    python -m benchmarks.endpoint --completions 2000 --at-once 128

The embedded model on CPU answers the same requests twice: in an engine of ours on a plain Ray
actor, and in ``vllm.entrypoints.openai.api_server`` behind ``runtime.generator.endpoint``, with the
same slots, one after the other. Printed are tokens/s over the makespan and the CPU time that a
completion costs the process that asks. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.machine import described

_MODEL = "models/tiny-generator"
_CONTEXT = 512


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="600 completions, under 3 minutes")
    parser.add_argument("--completions", type=int, default=2_000)
    parser.add_argument("--at-once", type=int, default=128)
    options = parser.parse_args()
    wanted = 600 if options.quick else options.completions
    print(described())
    print(f"{wanted:,} completions, {options.at_once} at once", flush=True)
    figures = {"engine": _engine(wanted, options.at_once)}
    with _server(options.at_once) as url:
        figures["endpoint"] = _endpoint(url, wanted, options.at_once)
    for name, found in figures.items():
        print(
            f"{name}: {found['tokens_per_s']:,.0f} tokens/s, "
            f"{found['cpu_ms']:.2f} ms of CPU a completion for who asks"
        )
    ratio = figures["endpoint"]["tokens_per_s"] / figures["engine"]["tokens_per_s"]
    print(json.dumps({**figures, "endpoint_over_engine": round(ratio, 3)}))


def _engine(wanted: int, at_once: int) -> dict[str, float]:
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    pool = {
        "num_gpus": 0,
        "num_cpus": 0.3,
        "engine": {
            "max_num_seqs": at_once,
            "max_num_batched_tokens": 4096,
            "enforce_eager": True,
        },
    }
    figures = _measured({"generator": pool}, wanted, at_once)
    ray.shutdown()
    return figures


def _endpoint(url: str, wanted: int, at_once: int) -> dict[str, float]:
    endpoint = {"base_urls": [url], "model": "tiny"}
    return _measured({"generator": {"endpoint": endpoint}}, wanted, at_once)


def _measured(runtime: dict[str, Any], wanted: int, at_once: int) -> dict[str, float]:
    from actors.engines.hosts import clients_of
    from actors.engines.launch import start_pools
    from actors.routing.calls import GenerateCall, Generated
    from pipeline.benchmarks.generated import arithmetic
    from pipeline.config.models import GeneratorModel
    from pipeline.config.runtime import RequestConfig, RuntimeConfig
    from pipeline.core.prompts import Message
    from pipeline.core.protocol import Request

    requests = [
        Request(
            messages=(Message("user", text),), max_tokens=256, temperature=0.7, top_p=0.95, seed=n
        )
        for n, (_, text, _) in enumerate(arithmetic(wanted, split="test", seed=0))
    ]
    model = GeneratorModel(model=_MODEL, dtype="float32", max_model_len=_CONTEXT)
    samples = {"generator": (GenerateCall(requests[0]),)}
    engines = start_pools(
        {"generator": model}, RuntimeConfig.model_validate(runtime), "bench", 256, samples
    )

    async def run() -> dict[str, float]:
        client = clients_of(engines.address, RequestConfig())["generator"]
        places = asyncio.Semaphore(at_once)

        async def one(number: int, request: Request) -> int:
            async with places:
                made = await client.call(GenerateCall(request, session=str(number)))
            if not isinstance(made, Generated):
                raise RuntimeError(made.error)
            return made.completion_tokens

        await asyncio.gather(*(one(n, r) for n, r in enumerate(requests[:at_once])))  # warm
        began, cpu = time.perf_counter(), time.process_time()
        tokens = await asyncio.gather(*(one(n, r) for n, r in enumerate(requests)))
        seconds = time.perf_counter() - began
        return {
            "tokens_per_s": round(sum(tokens) / seconds, 1),
            "tokens": sum(tokens),
            "seconds": round(seconds, 2),
            "cpu_ms": round((time.process_time() - cpu) * 1000 / len(requests), 3),
        }

    try:
        return asyncio.run(run())
    finally:
        engines.stop()


@contextmanager
def _server(at_once: int) -> Iterator[str]:
    """vLLM's server of the embedded model, in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", f"--model={_MODEL}"),
        *("--served-model-name=tiny", "--host=127.0.0.1", f"--port={port}", "--dtype=float32"),
        *(f"--max-model-len={_CONTEXT}", f"--max-num-seqs={at_once}", "--enforce-eager"),
        *("--max-num-batched-tokens=4096", "--disable-uvicorn-access-log"),
    ]
    environment = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_KVCACHE_SPACE": "1", **os.environ}
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        while process.poll() is None:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=2)  # noqa: S310 - http, as above
                break
            except OSError:
                time.sleep(0.5)
        yield f"{url}/v1"
    finally:
        process.terminate()
        process.wait(30)


if __name__ == "__main__":
    main()
