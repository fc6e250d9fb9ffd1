"""How much of what vLLM can generate the whole product gets, side by side with bare loops.

    python -m benchmarks.throughput --quick
    python -m benchmarks.throughput --shape 7b --gpu --chains 1000 --mean-tokens 160 \\
        --most-tokens 400 --slots 256
    python -m benchmarks.throughput --verifier ...    # every completion is scored, in all of them
    python -m benchmarks.throughput --keep-engines --chains 1600,800 \\
        --mean-tokens 600,2000 --most-tokens 1500,4000 ...    # several workloads, on one start

The same chains of known length (`benchmarks.workload`) run as
- ``raw``: all completions independent, longest first (no chain can do better),
- ``barrier``: a batch a round,
- ``arrival`` and ``longest_first``: as many chains as slots, next as soon as one ends,
- ``product``: jobs.evaluate's own path (Ray Data, controllers, client, Serve or actors, journal),
  with the true lengths as its forecast, as ``longest_first`` has them.
With ``--verifier`` a process reward model scores each completion before its chain goes on. On GPUs
it has one of its own: two must be visible for the bare loops, and more for more replicas.
Tokens/s are over the makespan: from the first request taken to the last completion; the product's
cold start (Ray Data, controllers) is printed beside it. Each run of the product has engines of its
own, or with ``--keep-engines`` those of the run before it, which know none of its texts. The last
line is one JSON object: figures by workload.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bare_loops import LOOPS, BareEngine, measure
from benchmarks.machine import described
from benchmarks.workload import ROUNDS, Job, jobs, model_of


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="one repeat, under 4 minutes on CPU")
    parser.add_argument("--shape", choices=["tiny", "7b"], default="tiny")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--chains", type=_numbers, default=[256], help="of each workload")
    parser.add_argument("--mean-tokens", type=_numbers, default=[48], help="of each workload")
    parser.add_argument("--most-tokens", type=_numbers, default=[240], help="of each workload")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of a chain that goes on")
    parser.add_argument("--slots", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--verifier", action="store_true", help="score every completion")
    parser.add_argument("--verifiers", type=int, default=1, help="verifier replicas of the product")
    parser.add_argument("--controllers", type=int, default=1)
    parser.add_argument("--loops", default=",".join(LOOPS), help="comma-separated bare loops")
    parser.add_argument(
        "--keep-engines", action="store_true", help="one start for all runs of the product"
    )
    parser.add_argument("--models", help="keep the models here, so that what is compiled is too")
    parser.add_argument("--bare-only", help=argparse.SUPPRESS)
    return parser


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


@dataclass(frozen=True, slots=True)
class Workload:
    """Chains, and the name that their figures have."""

    name: str
    jobs: list[Job]


def _workloads(options: argparse.Namespace) -> list[Workload]:
    sizes = zip(options.chains, options.mean_tokens, options.most_tokens, strict=True)
    return [
        Workload(
            f"{chains} chains of {mean} tokens",
            jobs(chains, mean_tokens=mean, most_tokens=most, rounds=options.rounds),
        )
        for chains, mean, most in sizes
    ]


def _config(options: argparse.Namespace, models: Path, chains: int) -> dict[str, Any]:
    from benchmarks.product import SCIENCE

    most_tokens = max(options.most_tokens)
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
    verifier = {
        **model_of(options.shape, models / "verifier", "verifier"),
        # the reply once more, and a separator after each step of it
        "max_model_len": 2 * most_tokens + 64,
        "system": None,
    }
    return {
        "name": "throughput",
        "science": {
            **SCIENCE,
            "strategies": [{**SCIENCE["strategies"][0], "n": options.rounds}],
            "benchmarks": [{"name": "arithmetic", "size": chains}],
            "decoding": {"max_tokens": most_tokens},
            "generator": {
                **model_of(options.shape, models / "generator", "generator"),
                "max_model_len": most_tokens + 64,
            },
            **({"verifier": verifier} if options.verifier else {}),
        },
        "runtime": {
            "generator": pool,
            "verifier": {**pool, "replicas": options.verifiers},
            "controllers": {
                "actors": options.controllers,
                "num_cpus": 0.3,
                # slots are the chains at work, as in the bare loops
                "in_flight": round(options.slots * options.replicas * 1.1),
            },
        },
    }


async def _bare(
    options: argparse.Namespace, workloads: list[Workload], models: Path
) -> list[dict[str, Any]]:
    from actors.engines import vllm_engine, vllm_setup
    from actors.engines.engine_stats import Meter
    from actors.engines.verifier import VerifierEngine
    from pipeline.config.run import RunConfig

    config = RunConfig.parse(_config(options, models, 1))
    pool = config.runtime.generator
    os.environ.update(vllm_setup.environment(pool))
    arguments = vllm_setup.engine_args(config.science.generator, pool, enable_prefix_caching=True)
    began = time.perf_counter()
    meter = Meter(options.slots)
    with _gpu(0, options):
        llm = vllm_engine.start(arguments, pool, meter)
    judge = None
    if config.science.verifier is not None:
        with _gpu(1, options):
            judge = VerifierEngine(
                config.science.verifier.model_dump(), config.runtime.verifier.model_dump()
            )
    started_s = time.perf_counter() - began
    tokenizer = vllm_setup.tokenizer(config.science.generator)
    engine = BareEngine(llm, tokenizer, meter, seeded=True, verifier=judge)
    await measure(engine, "raw", workloads[0].jobs[: options.slots], options.slots)  # warm
    results = []
    for work in workloads:
        figures: dict[str, Any] = {"start_s": started_s}
        for name in options.loops.split(","):
            got = []
            for _ in range(options.repeats):
                got.append(await measure(engine, name, work.jobs, options.slots))
                _tell(work, name, got[-1])
            figures |= {name: _median(got, "tokens_per_s"), f"{name}_spread": _spread(got)}
            figures[f"{name}_s"] = _median(got, "seconds")
        results.append(figures)
    llm.shutdown()
    if judge is not None:
        judge.shutdown()
    return results


def _product(
    options: argparse.Namespace, workloads: list[Workload], models: Path
) -> list[dict[str, Any]]:
    from benchmarks.product import engines_up, run_chains

    runs: list[list[dict[str, float]]] = [[] for _ in workloads]
    configs = [_config(options, models, len(work.jobs)) for work in workloads]
    with engines_up(configs[0]) if options.keep_engines else nullcontext() as engines:
        for repeat in range(options.repeats):
            for work, config, got in zip(workloads, configs, runs, strict=True):
                got.append(run_chains(config, work.jobs, engines, seed=repeat))
                _tell(work, "product", got[-1])
    return [
        {
            "product": _median(got, "tokens_per_s"),
            "product_spread": _spread(got),
            "product_s": _median(got, "seconds"),
            "product_phase_s": _median(got, "phase_seconds"),
            "slots_busy": _median(got, "slots_busy"),
            "loop_lag_ms": max(run["loop_lag_ms"] for run in got),
        }
        for got in runs
    ]


def _tell(work: Workload, name: str, figures: dict[str, float]) -> None:
    rounded = {key: round(value, 2) for key, value in figures.items()}
    print(f"{work.name}, {name}:", rounded, flush=True)


def _median(runs: Sequence[dict[str, float]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def _spread(runs: Sequence[dict[str, float]]) -> float:
    rates = [run["tokens_per_s"] for run in runs]
    return (max(rates) - min(rates)) / statistics.median(rates)


@contextmanager
def _gpu(number: int, options: argparse.Namespace) -> Iterator[None]:
    """The engine started in here sees one of the visible GPUs only."""
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    if options.gpu:
        visible = (before or "0,1").split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[number]
    yield
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    if before is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = before


def _bare_in_child(arguments: list[str]) -> list[dict[str, Any]]:
    """Bare loops in a process of their own: its engine and memory are gone when it ends."""
    with tempfile.TemporaryDirectory() as folder:
        target = f"{folder}/bare.json"
        command = [sys.executable, "-m", "benchmarks.throughput", *arguments, "--bare-only", target]
        subprocess.run(command, check=True)  # noqa: S603 - this very script
        results: list[dict[str, Any]] = json.loads(Path(target).read_text("utf-8"))
    return results


def main() -> None:
    """Measure and print."""
    parser = _options()
    options = parser.parse_args()
    if options.quick:
        options.repeats = 1
    if not len(options.chains) == len(options.mean_tokens) == len(options.most_tokens):
        parser.error("--chains, --mean-tokens and --most-tokens must have one number a workload")
    workloads = _workloads(options)
    with tempfile.TemporaryDirectory() as folder:
        models = Path(options.models or folder).absolute()
        if options.bare_only:
            bare = asyncio.run(_bare(options, workloads, models))
            Path(options.bare_only).write_text(json.dumps(bare), "utf-8")
            return
        print(described())
        for work in workloads:
            print(
                f"{options.shape}: {work.name}, 1 or {options.rounds} rounds, "
                f"{sum(job.total for job in work.jobs):,} tokens, {options.slots} slots a replica, "
                f"{options.replicas} replica(s), "
                f"{options.verifiers if options.verifier else 'no'} verifier(s)",
                flush=True,
            )
        figures: list[dict[str, Any]] = [{} for _ in workloads]
        if options.loops:
            figures = _bare_in_child(sys.argv[1:])
        # after the bare loops' process is gone
        for row, more in zip(figures, _product(options, workloads, models), strict=True):
            row |= more
            for name, rival in _RIVALS.items():
                if rival in row:
                    row[f"product_over_{name}"] = row["product"] / row[rival]
    rounded = [{name: round(value, 4) for name, value in row.items()} for row in figures]
    names = [work.name for work in workloads]
    print(json.dumps(dict(zip(names, rounded, strict=True))))


_RIVALS = {"bare": "longest_first", "barrier": "barrier", "raw": "raw"}


if __name__ == "__main__":
    main()
