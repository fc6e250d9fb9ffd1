"""How much of what vLLM can generate the whole product gets, side by side with bare loops.

    python -m benchmarks.throughput --quick
    python -m benchmarks.throughput --shape 7b --gpu --chains 1024 --mean-tokens 400 --slots 256

The same chains of known length (`benchmarks.workload`) run as
- ``raw``: all completions independent, longest first (no chain can do better),
- ``barrier``: a batch a round,
- ``arrival`` and ``longest_first``: as many chains as slots, next as soon as one ends,
- ``product``: jobs.evaluate's own path (Ray Data, controllers, client, Serve or actors, journal),
  with the true lengths as its forecast, as ``longest_first`` has them.
Tokens/s are over the makespan: from the first request taken to the last completion; the product's
cold start (Ray Data, controllers) is printed beside it. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.bare_loops import LOOPS, BareEngine, measure
from benchmarks.machine import described
from benchmarks.workload import ROUNDS, Job, jobs, model_folder


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="one repeat, under 4 minutes on CPU")
    parser.add_argument("--shape", choices=["tiny", "7b"], default="tiny")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--chains", type=int, default=256)
    parser.add_argument("--mean-tokens", type=int, default=48)
    parser.add_argument("--most-tokens", type=int, default=240)
    parser.add_argument("--slots", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--loops", default=",".join(LOOPS), help="comma-separated bare loops")
    parser.add_argument("--host", choices=["actors", "serve"], default="serve")
    parser.add_argument("--no-product", action="store_true")
    parser.add_argument("--bare-only", help=argparse.SUPPRESS)
    return parser


def _config(options: argparse.Namespace, model: Path) -> dict[str, Any]:
    from benchmarks.product import SCIENCE

    pool: dict[str, Any] = {
        "replicas": options.replicas,
        "num_cpus": 1 if options.gpu else 0.3,
        "engine": {
            "max_num_seqs": options.slots,
            "max_num_batched_tokens": 16_384 if options.gpu else 4_096,
            "enforce_eager": not options.gpu,
        },
    }
    if not options.gpu:
        pool["num_gpus"] = 0
    return {
        "name": "throughput",
        "science": {
            **SCIENCE,
            "benchmarks": [{"name": "arithmetic", "size": options.chains}],
            "decoding": {"max_tokens": options.most_tokens},
            "generator": {
                "model": str(model),
                "max_model_len": options.most_tokens + 64,
                "load_format": "auto" if options.shape == "tiny" else "dummy",
                "dtype": "bfloat16",
            },
        },
        "runtime": {
            "host": options.host,
            "generator": pool,
            "controllers": {
                "num_cpus": 0.3,
                # slots are the chains at work, as in the bare loops
                "in_flight": round(options.slots * options.replicas * 1.1),
            },
        },
    }


async def _bare(options: argparse.Namespace, work: list[Job], model: Path) -> dict[str, Any]:
    from actors import vllm_setup
    from pipeline.config.run import RunConfig

    config = RunConfig.parse(_config(options, model))
    pool = config.runtime.generator
    os.environ.update(vllm_setup.environment(pool))
    arguments = vllm_setup.engine_args(
        config.science.generator, pool, enable_prefix_caching=True, disable_log_stats=True
    )
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    began = time.perf_counter()
    llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
    started_s = time.perf_counter() - began
    engine = BareEngine(llm, vllm_setup.tokenizer(config.science.generator), seeded=True)
    await measure(engine, "raw", work[: options.slots], options.slots)  # warm
    results: dict[str, Any] = {"start_s": started_s}
    for name in options.loops.split(","):
        got = [await measure(engine, name, work, options.slots) for _ in range(options.repeats)]
        rates = [row["tokens_per_s"] for row in got]
        results[name] = statistics.median(rates)
        results[f"{name}_spread"] = (max(rates) - min(rates)) / statistics.median(rates)
        results[f"{name}_s"] = statistics.median(row["seconds"] for row in got)
        print(f"{name}: {results[name]:,.0f} tokens/s, {results[f'{name}_s']:.1f} s", flush=True)
    llm.shutdown()
    return results


def _bare_in_child(options: argparse.Namespace, arguments: list[str]) -> dict[str, Any]:
    """Bare loops in a process of their own: its engine and memory are gone when it ends."""
    with tempfile.TemporaryDirectory() as folder:
        target = f"{folder}/bare.json"
        command = [sys.executable, "-m", "benchmarks.throughput", *arguments, "--bare-only", target]
        subprocess.run(command, check=True)  # noqa: S603 - this very script
        results: dict[str, Any] = json.loads(Path(target).read_text("utf-8"))
    return results


def main() -> None:
    """Measure and print."""
    options = _options().parse_args()
    if options.quick:
        options.repeats = 1
    work = jobs(options.chains, mean_tokens=options.mean_tokens, most_tokens=options.most_tokens)
    with tempfile.TemporaryDirectory() as folder:
        model = model_folder(options.shape, Path(folder) / "model")
        if options.bare_only:
            results = asyncio.run(_bare(options, work, model))
            Path(options.bare_only).write_text(json.dumps(results), "utf-8")
            return
        print(described())
        print(
            f"{options.shape}: {len(work)} chains of 1 or {ROUNDS} rounds, "
            f"{sum(job.total for job in work):,} tokens, {options.slots} slots a replica, "
            f"{options.replicas} replica(s), host {options.host}",
            flush=True,
        )
        figures = _bare_in_child(options, sys.argv[1:]) if options.loops else {}
        if not options.no_product:
            from benchmarks.product import run_chains  # after the bare loops' process is gone

            config = _config(options, model)
            runs = [run_chains(config, work) for _ in range(options.repeats)]
            rates = [run["tokens_per_s"] for run in runs]
            figures |= {
                "product": statistics.median(rates),
                "product_spread": (max(rates) - min(rates)) / statistics.median(rates),
                "product_s": statistics.median(run["seconds"] for run in runs),
                "product_phase_s": statistics.median(run["phase_seconds"] for run in runs),
                "slots_busy": statistics.median(run["slots_busy"] for run in runs),
                "loop_lag_ms": max(run["loop_lag_ms"] for run in runs),
            }
            for name, rival in (("bare", "longest_first"), ("barrier", "barrier"), ("raw", "raw")):
                if rival in figures:
                    figures[f"product_over_{name}"] = figures["product"] / figures[rival]
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
