"""What would saturate first on 1, 16, 64 and 256 nodes of 4 GPUs, and what to set then.

    python -m benchmarks.simulate --quick
    python -m benchmarks.simulate            # every chain of 1,000,000, several minutes

A discrete-event simulation (`benchmarks.cluster_model`) of the chains of `benchmarks.workload`, in
two lengths: short answers (160 tokens) and reasoning (2,000, at most 10,000). The speed of a GPU is
calibrated by one measured run (`benchmarks.replica_model`), everything else is a figure given on
the command line, whose default says in `--help` where it is from. With --quick at most 4 nodes
stand for the whole cluster, with as many questions a GPU, or 15,625 and the rest at the speed of
the full cluster. The last line is one JSON object.

First the loops of a measured prototype, simulated; and the same chains in the order of their true
length, of a forecast that is off by a factor of e^0.5 (one standard deviation), of what is known
without one (who is gated, and the mean), and of their arrival; and five benchmarks of the paper's
sizes one after another and in one run, which fills their tails. Then, for each size: the split of
GPUs that is balanced, rates while the cluster is full, which resource comes to its limit first with
the defaults (one controller, 8 rows a block) and how much longer the run takes for it, what to set,
and what is lost then.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from benchmarks.cluster_model import Cluster, Ran, simulate
from benchmarks.machine import described
from benchmarks.replica_model import SLOTS, Speed, calibrated, makespan
from benchmarks.workload import Job, jobs

WORK = {
    "short": {"mean_tokens": 160, "most_tokens": 400},
    "reasoning": {"mean_tokens": 2_000, "most_tokens": 10_000},
}
_PROTOTYPE = {"barrier": 97.7, "arrival": 95.9, "longest_first": 78.5, "raw": 81.6}
"""Seconds of the prototype on one H100; its ``raw`` was in arrival order."""
_BENCHMARKS = (1_319, 500, 40, 30, 30)
"""Questions of GSM8K, MATH-500, AMC 2023, AIME 2024 and AIME 2025."""
_BUSY = 0.6  # what a resource may be kept busy with the settings that are told
_QUICK = 15_625
_GPUS_A_NODE = 4


@dataclass(frozen=True, slots=True)
class Costs:
    """What the control plane costs; see the command line for where each figure is from."""

    own_s: float
    call_s: float
    latency_s: float
    tasks_per_s: float
    flush_s: float
    verifier_tokens_per_s: float

    @property
    def round_s(self) -> float:
        """CPU time of a controller for one round: its own, and one call of each pool."""
        return self.own_s + 2 * self.call_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set."""

    controllers: int = 1
    rows_per_block: int = 8


def split(gpus: int, speed: Speed, verifier_tokens_per_s: float) -> tuple[int, int]:
    """Generators and verifiers, one GPU each, of which neither waits for the other for long."""
    made = speed.tokens_per_s(SLOTS)
    return max(
        ((gpus - verifiers, verifiers) for verifiers in range(1, gpus)),
        key=lambda pools: min(pools[0] * made, pools[1] * verifier_tokens_per_s),
    )


def run(
    work: Sequence[Job], part: float, gpus: int, costs: Costs, settings: Settings, speed: Speed
) -> Ran:
    """Run the chains of one part of a cluster, which has its share of the control plane.

    Args:
        work: of this part, in the order in which it starts.
        part: of the whole cluster, in (0, 1].
        gpus: of this part.
        costs: of the control plane.
        settings: of the whole cluster.
        speed: of a generator.
    """
    generators, verifiers = split(gpus, speed, costs.verifier_tokens_per_s)
    return simulate(
        work,
        Cluster(
            generators=generators,
            slots=SLOTS,
            speed=speed,
            verifiers=verifiers,
            verifier_tokens_per_s=costs.verifier_tokens_per_s,
            round_s=costs.round_s / settings.controllers / part,
            call_s=costs.latency_s,
            feed_s=1 / (costs.tasks_per_s * settings.rows_per_block) / part,
            # what is at the verifier is not in a slot: as the product does, half as many again
            admitted=1.5,
        ),
    )


def needed(rounds_per_s: float, chains_per_s: float, costs: Costs) -> Settings:
    """Settings that keep controllers and Ray Data's feed 60 % busy at most, where settings can."""
    return Settings(
        controllers=max(1, math.ceil(rounds_per_s * costs.round_s / _BUSY)),
        rows_per_block=min(16, max(8, math.ceil(chains_per_s / (costs.tasks_per_s * _BUSY)))),
    )


def size(
    name: str, nodes: int, questions: int, costs: Costs, speed: Speed, *, quick: bool
) -> dict[str, Any]:
    """Figures of one size of cluster for one kind of work."""
    part = min(1.0, 4 / nodes) if quick else 1.0
    gpus = round(nodes * _GPUS_A_NODE * part)
    wanted = round(questions * part)
    drawn = jobs(min(wanted, _QUICK) if quick else wanted, **WORK[name])
    work = sorted(drawn, key=lambda job: -job.total)
    free = replace(costs, own_s=0.0, call_s=0.0, tasks_per_s=math.inf)
    unbound = run(work, part, gpus, free, Settings(), speed)
    full = unbound.full_tokens / unbound.full_s / part
    rounds = full / (unbound.tokens / unbound.rounds)
    chains = full / (unbound.tokens / unbound.chains)
    settings = needed(rounds, chains, costs)
    more = (wanted / len(work) - 1) * unbound.tokens / part  # tokens that are not simulated
    seconds = {"unbound": unbound.seconds}
    for label, chosen in (("default", Settings()), ("set", settings)):
        seconds[label] = run(work, part, gpus, costs, chosen, speed).seconds
    row_bytes = journal_row_bytes(round(unbound.tokens / unbound.rounds))
    busy = utilisations(rounds, chains, costs, Settings())
    return {
        "work": name,
        "nodes": nodes,
        "split": split(nodes * _GPUS_A_NODE, speed, costs.verifier_tokens_per_s),
        "hours": (unbound.seconds + more / full) / 3_600,
        "tokens_per_s": full,
        "rounds_per_s": rounds,
        "chains_per_s": chains,
        "slots_used": unbound.slots_used,
        "verifiers_used": unbound.verifiers_used,
        "saturates_first": max(busy, key=lambda resource: busy[resource]),
        "busy_by_default": busy,
        "slower_by_default": seconds["default"] / seconds["unbound"],
        "settings": asdict(settings),
        "busy_as_set": utilisations(rounds, chains, costs, settings),
        "slower_as_set": seconds["set"] / seconds["unbound"],
        "journal_mb_per_s": rounds * row_bytes / 1e6,
        "journal_gb": questions * unbound.rounds / unbound.chains * row_bytes / 1e9,
        "puts_per_s": settings.controllers / costs.flush_s,
    }


def utilisations(
    rounds_per_s: float, chains_per_s: float, costs: Costs, settings: Settings
) -> dict[str, float]:
    """How busy the control plane is, 1 being all it can."""
    return {
        "controllers": rounds_per_s * costs.round_s / settings.controllers,
        "ray_data_feed": chains_per_s / (costs.tasks_per_s * settings.rows_per_block),
        "journal_puts": settings.controllers / costs.flush_s / 3_500,  # of one S3 prefix
    }


def journal_row_bytes(tokens: int) -> float:
    """Bytes of a round in a segment, its text being random words of 1.3 tokens each."""
    from pipeline.records.trajectory import SCHEMA, table_of
    from pipeline.store.parquet import parquet_bytes

    rng = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlu"))
    words = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(2_000)]
    texts = [" ".join(rng.choice(words, max(1, round(tokens / 1.3)))) for _ in range(64)]
    rows = [
        {
            **dict.fromkeys(SCHEMA.names),
            **{"run": "r", "attempt": 1, "strategy": "s", "benchmark": "b", "pool": "sequential"},
            **{"question_id": str(number), "chain": 0, "round": 0, "sample": 0, "seed": number},
            **{"request_digest": f"{number:064x}", "text": text, "completion_tokens": tokens},
        }
        for number, text in enumerate(texts)
    ]
    return len(parquet_bytes(table_of(rows))) / len(rows)


def prototype() -> list[Job]:
    """Chains like those of the prototype, whose own lengths are not recorded.

    A mean of 400 tokens and at most four times as many: 913,424 tokens, where it had 929,000.
    """
    return jobs(1_024, mean_tokens=400, most_tokens=1_600)


def validation(speed: Speed) -> dict[str, float]:
    """Simulated over measured seconds of the prototype's loops, 1 being right."""
    work = prototype()
    loops = {name: "raw_arrival" if name == "raw" else name for name in _PROTOTYPE}
    return {
        name: makespan(work, loop, SLOTS, speed) / _PROTOTYPE[name] for name, loop in loops.items()
    }


def orders(speed: Speed) -> dict[str, float]:
    """Seconds that one GPU takes for the chains of the prototype, by the order they start in."""
    work = prototype()
    errors = np.random.default_rng(1).lognormal(0.0, 0.5, len(work))
    keys = {
        "oracle": [job.total for job in work],
        "predicted": [job.total * error for job, error in zip(work, errors, strict=True)],
        "running_mean": [job.rounds for job in work],
        "arrival": [0] * len(work),
    }
    seconds = {}
    for name, key in keys.items():
        order = sorted(range(len(work)), key=lambda number, key=key: -key[number])
        seconds[name] = makespan([work[number] for number in order], "arrival", SLOTS, speed)
    return seconds


def tails(speed: Speed) -> dict[str, float]:
    """Seconds that one GPU takes for the five benchmarks, one after another and all in one run."""
    work = [jobs(size, **WORK["reasoning"], seed=seed) for seed, size in enumerate(_BENCHMARKS)]
    return {
        "one_after_another": sum(makespan(part, "longest_first", SLOTS, speed) for part in work),
        "in_one_run": makespan(
            [job for part in work for job in part], "longest_first", SLOTS, speed
        ),
    }


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.simulate", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="under 50 s on 2 cores")
    parser.add_argument("--questions", type=int, default=1_000_000)
    parser.add_argument("--nodes", default="1,16,64,256", help="comma-separated")
    parser.add_argument("--work", choices=[*WORK, "both"], default="both")
    add = parser.add_argument
    add("--rounds-per-s", type=float, default=3_000, help="a controller alone: control_plane")
    add("--calls-per-s", type=float, default=5_800, help="Serve calls of a process: hops")
    add("--latency", type=float, default=0.003, help="seconds of a Serve call: hops")
    add("--tasks-per-s", type=float, default=160, help="Ray Data tasks a second, an assumption")
    add("--flush", type=float, default=5.0, help="runtime.journal_flush_s")
    add(
        "--verifier-tokens-per-s",
        type=float,
        default=26_000,
        help="40 %% of an H100's 989 TFLOP/s over 2 x 7.6e9 a token; not measured",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Simulate and print."""
    options = _options().parse_args(argv)
    costs = Costs(
        own_s=1 / options.rounds_per_s,
        call_s=1 / options.calls_per_s,
        latency_s=options.latency,
        tasks_per_s=options.tasks_per_s,
        flush_s=options.flush,
        verifier_tokens_per_s=options.verifier_tokens_per_s,
    )
    speed = calibrated()
    print(described())
    print(
        f"a step takes {speed.base_s * 1e3:.2f} ms and {speed.sequence_s * 1e6:.1f} us a sequence: "
        f"{speed.tokens_per_s(SLOTS):,.0f} tokens/s with {SLOTS}"
    )
    right = validation(speed)
    print("simulated over measured:", ", ".join(f"{k} {v:.2f}" for k, v in right.items()))
    by_order = orders(speed)
    print("seconds by order:", ", ".join(f"{k} {v:.1f}" for k, v in by_order.items()))
    shared = tails(speed)
    print("seconds of five benchmarks:", ", ".join(f"{k} {v:,.0f}" for k, v in shared.items()))
    figures = []
    for name in WORK if options.work == "both" else [options.work]:
        for nodes in map(int, options.nodes.split(",")):
            got = size(name, nodes, options.questions, costs, speed, quick=options.quick)
            figures.append(got)
            print(
                f"{name}, {nodes} nodes, {got['split'][0]} + {got['split'][1]} GPUs: "
                f"{got['hours']:.2f} h, {got['rounds_per_s']:,.0f} rounds/s; "
                f"{got['saturates_first']} first, by default x {got['slower_by_default']:.2f}; "
                f"set {got['settings']}: x {got['slower_as_set']:.2f}; journal "
                f"{got['journal_mb_per_s']:.1f} MB/s, {got['journal_gb']:.0f} GB",
                flush=True,
            )
    print(
        json.dumps(
            {
                "benchmark": "simulate",
                "questions": options.questions,
                "step_base_ms": speed.base_s * 1e3,
                "step_sequence_us": speed.sequence_s * 1e6,
                "simulated_over_measured": right,
                "seconds_by_order": by_order,
                "seconds_of_five_benchmarks": shared,
                "sizes": figures,
            }
        )
    )


if __name__ == "__main__":
    main()
