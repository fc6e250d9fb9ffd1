"""How fast a pool is swept.

    python -m benchmarks.replay --quick   # under 50 s on 2 cores
    python -m benchmarks.replay           # 1,919 questions x 64 rounds x 1,000 settings

Writes a synthetic pool to a temporary folder, reads it back (every digest checked), and sweeps it.
The seconds count reading, sweeping and making the table, not the making of the pool. Prints, last,
one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.synthetic_pool import with_priors, write_synthetic_pool
from pipeline.core.protocol import Strategy
from pipeline.replay.pools import CompletionPool, read_pool
from pipeline.replay.sweep import sweep, sweep_table
from pipeline.statistics.agreement import AgreementWeights
from pipeline.strategies.chain_agreement import Agree, ChainASC
from pipeline.strategies.markovscale import MarkovScale0, MarkovScaleStar, MarkovScaleT
from pipeline.strategies.sequential import Base, MRThinking

WEIGHTS = (
    AgreementWeights(w=(2.2, 0.1, 0.4), v=(-1.2, 0.3, -0.6, 1.5, 0.4, 0.5, 0.2, -0.1)),
    AgreementWeights(w=(2.6, 0.6, 1.2), v=(-0.8, 0.1, -0.3, 1.0, 0.6, 0.9, 0.1, 0.1)),
    None,
)
"""Of `agree`: as a fit may give them, and none."""


def settings(number: int, depth: int) -> list[tuple[str, Strategy]]:
    """`number` settings of the strategies that are replayed as arrays, spread over every field: of
    those that are drawn one in five each is `chain_asc`, `agree` and MarkovScale^0."""
    rng = np.random.default_rng(1)
    budgets = [n for n in (2, 4, 8, 16, 32, 64) if n <= depth]
    made: list[tuple[str, Strategy]] = [("base", Base())]
    made += [("mr_thinking", MRThinking(n=n)) for n in budgets]
    made += [("markovscale_t", MarkovScaleT(n=n, sigma=s)) for n in budgets for s in (-0.1, 0.0)]
    while len(made) < number:
        n, tau = int(rng.choice(budgets)), float(rng.uniform(0.5, 1.0))
        which = rng.random()
        if which < 0.2:
            made.append(("markovscale_0", MarkovScale0(n=n, tau=tau)))
            continue
        if which < 0.4:
            made.append(("chain_asc", ChainASC(n=n, threshold=tau)))
            continue
        if which < 0.6:
            weights = WEIGHTS[int(rng.integers(len(WEIGHTS)))]
            vote = float(rng.uniform(0.9, 1.0))
            made.append(("agree", Agree(n=n, tau=tau, vote_threshold=vote, weights=weights)))
            continue
        gamma = float(rng.choice([1, 2, 5, 10, 20, 50]))
        gate = bool(rng.random() < 0.8)
        star = MarkovScaleStar(n=n, tau=tau, gamma=gamma, gate=gate)
        made.append(("markovscale_star", star))
    return made[:number]


def believed(pool: CompletionPool) -> CompletionPool:
    """The pool with priors, as a predictor would give them."""
    rng = np.random.default_rng(2)
    questions = [
        replace(q, question=with_priors(q.question, p0=float(rng.beta(3, 2)), a=0.06, b=0.3))
        for q in pool.questions
    ]
    return replace(pool, questions=tuple(questions))


def main(argv: Sequence[str] | None = None) -> None:
    """Make a pool, compare, sweep, print."""
    parser = argparse.ArgumentParser(prog="benchmarks.replay", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="a smaller pool and fewer settings")
    quick = parser.parse_args(argv).quick
    n_questions, rounds, n_settings = (200, 32, 80) if quick else (1_919, 64, 1_000)
    tried = settings(n_settings, rounds)
    with tempfile.TemporaryDirectory() as folder:
        rows = write_synthetic_pool(folder, questions=n_questions, rounds=rounds)
        started, cpu_started = time.perf_counter(), time.process_time()
        pool = believed(read_pool(folder))
        read_s = time.perf_counter() - started
    result = sweep(pool, tried)
    swept_s = time.perf_counter() - started - read_s
    table = sweep_table(result, ("tau", "gamma"))
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{rows:,} rows read in {read_s:.1f} s, {n_settings:,} settings swept in {swept_s:.1f} s")
    print(f"table of {table.num_rows:,} rows made in {seconds - read_s - swept_s:.1f} s")
    print(
        json.dumps(
            {
                "benchmark": "replay",
                "question_settings_per_s": n_questions * n_settings / seconds,
                "seconds": seconds,
                "cpu_s": cpu_s,
                "read_s": read_s,
                "swept_s": swept_s,
                "peak_mib": peak_mib,
                "questions": n_questions,
                "rounds": rounds,
                "settings": n_settings,
                "cores": os.cpu_count(),
                "machine": platform.platform(),
                "python": platform.python_version(),
            }
        )
    )


if __name__ == "__main__":
    main()
