"""How much of more replicas the product's path makes use of: 1, 2 and 4 of them.

    python -m benchmarks.scaling --quick
    python -m benchmarks.scaling --chains 2048 --repeats 3

Scripted engines with a fixed speed a sequence, so that what is measured is the path and no model:
Ray Data, controllers, client, host and journal. The same chains run on each number of replicas,
longest first. Efficiency is tokens/s over that of one replica times their number; with more slots
for the same chains the tail weighs more, so the efficiency of chains over such engines without any
overhead is printed beside it (``ideal``). The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.bare_loops import longest_first
from benchmarks.machine import described
from benchmarks.replica_model import Speed, makespan
from benchmarks.workload import Job, jobs


def ideal_s(work: Sequence[Job], slots: int, tokens_per_s: float) -> float:
    """Seconds that the chains take where nothing but the engines' speed and slots holds them."""
    return makespan(work, slots, Speed(1 / tokens_per_s, 0.0))


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.scaling", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="one repeat, under 50 s on 2 cores")
    parser.add_argument("--chains", type=int, default=384)
    parser.add_argument("--replicas", default="1,2,4", help="comma-separated")
    parser.add_argument("--slots", type=int, default=16, help="of each replica")
    parser.add_argument("--mean-tokens", type=int, default=48, help="of a completion")
    parser.add_argument("--most-tokens", type=int, default=120)
    parser.add_argument("--reply-chars", type=int, default=0, help="of working in each reply")
    parser.add_argument("--tokens-per-s", type=float, default=120, help="of one sequence")
    parser.add_argument("--controllers", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(argv)
    from benchmarks.product import run_chains, scripted_config

    options.chains = min(options.chains, 192) if options.quick else options.chains
    work = longest_first(
        jobs(options.chains, mean_tokens=options.mean_tokens, most_tokens=options.most_tokens)
    )
    tokens = sum(job.total for job in work)
    print(described())
    print(f"{len(work)} chains, {tokens:,} tokens, {options.slots} slots")
    figures: list[dict[str, Any]] = []
    for replicas in map(int, options.replicas.split(",")):
        config = scripted_config(
            len(work),
            replicas=replicas,
            slots=options.slots,
            tokens_per_s=options.tokens_per_s,
            most_tokens=options.most_tokens,
            controllers=options.controllers,
        )
        config["runtime"]["scripted"]["reply_chars"] = options.reply_chars
        runs = [run_chains(config, work) for _ in range(1 if options.quick else options.repeats)]
        rates = [run["tokens_per_s"] for run in runs]
        ideal = tokens / ideal_s(work, options.slots * replicas, options.tokens_per_s)
        figures.append(
            {
                "replicas": replicas,
                "tokens_per_s": statistics.median(rates),
                "spread": (max(rates) - min(rates)) / statistics.median(rates),
                "ideal_tokens_per_s": ideal,
                "of_ideal": statistics.median(rates) / ideal,
                "slots_busy": statistics.median(run["slots_busy"] for run in runs),
                "filled_s": statistics.median(run["filled_s"] for run in runs),
                "loop_lag_ms": max(run["loop_lag_ms"] for run in runs),
                "whole_s": statistics.median(run["whole_seconds"] for run in runs),
            }
        )
        print(figures[-1], flush=True)
    first = figures[0]
    for got in figures:
        times = got["replicas"] / first["replicas"]
        got["efficiency"] = got["tokens_per_s"] / first["tokens_per_s"] / times
        got["ideal_efficiency"] = got["ideal_tokens_per_s"] / first["ideal_tokens_per_s"] / times
    print(json.dumps({"benchmark": "scaling", "scaling": figures}))


if __name__ == "__main__":
    main()
