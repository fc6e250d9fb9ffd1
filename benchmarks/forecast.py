"""How often the 90 % intervals of a pilot's forecast hold what came, and how far off they are.

    python -m benchmarks.forecast [--quick]

Many pilots, 50 questions x 8 rounds each, are drawn from a pool of recorded chains of 1,000
questions x 64 rounds, and forecast accuracy and tokens of the other 950 at N = 8, 16, 32 and 64.
At one N all pilots of a pool are judged by nearly the same questions, so that one odd round counts
against all of them; hence each pilot also forecasts a round drawn by lot from those after N / 2 up
to N. Simulated chains, whose 1,000 questions are new for every pilot, have no such trouble: five
kinds of two states, and one whose rounds are draws of the question's own chance. Beside the
forecast stand the trivial predictors: the mean accuracy of the pilot's 8 rounds (all), that of
rounds 2 to 8 (later), and the pilot's mean tokens a round. Prints tables and a JSON object.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.simulated_chains import Chains, of_questions, two_states
from pipeline.core.arrays import FloatArray
from pipeline.planning.pilot import forecast_chains, forecast_tokens
from pipeline.statistics.intervals import Interval

POOLS = ("data/pools/arithmetic", "data/pools/sums")
QUESTIONS, ROUNDS = 50, 8
"""Of a pilot, unless others are asked for."""
DEPTHS = (8, 16, 32, 64)
"""Completions that are forecast."""

TWO_STATES = (
    (0.06, 0.3, 0.6),
    (0.1, 0.25, 0.5),
    (0.02, 0.05, 0.5),
    (0.01, 0.03, 0.4),
    (0.05, 0.02, 0.7),
)
"""(a, b, p0) of simulated chains: usual, with much back and forth, two slow ones, one that slowly
falls."""


def sources() -> dict[str, Callable[[np.random.Generator], Chains]]:
    """What pilots are drawn from, by name; recorded chains are the same for every pilot."""
    found: dict[str, Callable[[np.random.Generator], Chains]] = {
        Path(pool).name: partial(_recorded, read_chains(pool)) for pool in POOLS
    }
    for a, b, p0 in TWO_STATES:
        found[f"a={a:g} b={b:g}"] = partial(two_states, a=a, b=b, p0=p0)
    return found | {"questions": of_questions}


def _recorded(chains: Chains, _: np.random.Generator) -> Chains:
    return chains


def read_chains(folder: str) -> Chains:
    """The chains of an exported pool.

    Raises:
        ValueError: where a round is missing or was not graded.
    """
    columns = ["benchmark", "question_id", "pool", "round", "verdict", "completion_tokens"]
    table = pq.read_table(Path(folder) / "pool.parquet", columns=columns)
    table = table.filter(pc.equal(table["pool"], "sequential"))
    names = zip(table["benchmark"].to_pylist(), table["question_id"].to_pylist(), strict=True)
    numbers: dict[tuple[str, str], int] = {}
    question = np.array([numbers.setdefault(name, len(numbers)) for name in names])
    rounds = table["round"].to_numpy()
    right_QR, tokens_QR = (np.full((len(numbers), rounds.max() + 1), np.nan) for _ in range(2))
    verdicts = table["verdict"].to_pylist()
    right_QR[question, rounds] = [{"right": 1.0, "wrong": 0.0}.get(v, np.nan) for v in verdicts]
    tokens_QR[question, rounds] = table["completion_tokens"].to_numpy()
    if np.isnan(right_QR).any() or np.isnan(tokens_QR).any():
        raise ValueError(f"every round must be recorded and graded, in {folder} some are not")
    return right_QR, tokens_QR


def judge(
    name: str,
    source: Callable[[np.random.Generator], Chains],
    pilots: int,
    seed: int,
    shape: tuple[int, int] = (QUESTIONS, ROUNDS),
) -> list[dict[str, Any]]:
    """Coverage and errors by depth, over random pilots of so many questions and rounds."""
    rng = np.random.default_rng(seed)
    told: list[list[dict[str, float]]] = []
    for _ in range(pilots):
        right_QR, tokens_QR = source(rng)
        drawn = np.zeros(len(right_QR), dtype=bool)
        drawn[rng.choice(len(right_QR), shape[0], replace=False)] = True
        lots = [int(rng.integers(depth // 2, depth)) for depth in DEPTHS]
        told.append(_one_pilot(right_QR, tokens_QR, drawn, shape[1], lots))
    return [
        {
            "chains": name,
            "completions": depth,
            **{name: float(np.mean([t[i][name] for t in told])) for name in told[0][i]},
        }
        for i, depth in enumerate(DEPTHS)
    ]


def _one_pilot(
    right_QR: FloatArray,
    tokens_QR: FloatArray,
    drawn_Q: NDArray[np.bool_],
    rounds: int,
    lots: list[int],
) -> list[dict[str, float]]:
    pilot_QR, tokens_pilot_QR = right_QR[drawn_Q, :rounds], tokens_QR[drawn_Q, :rounds]
    of = int((~drawn_Q).sum())
    accuracies = forecast_chains(pilot_QR, [*(d - 1 for d in DEPTHS), *lots], of=of)
    at, near = accuracies[: len(DEPTHS)], accuracies[len(DEPTHS) :]
    found = []
    for depth, accuracy, lot, by_lot in zip(DEPTHS, at, lots, near, strict=True):
        reached_by_lot = float(right_QR[~drawn_Q, lot].mean())
        reached = float(right_QR[~drawn_Q, depth - 1].mean())
        spent = float(tokens_QR[~drawn_Q, :depth].sum())
        tokens = forecast_tokens(tokens_pilot_QR, depth, of)
        flat = float(tokens_pilot_QR.mean()) * depth * of
        found.append(
            {
                "held": _holds(accuracy, reached),
                "held_by_lot": _holds(by_lot, reached_by_lot),
                "half_width_points": 100 * accuracy.half_width,
                "by_lot_points": 100 * abs(by_lot.value - reached_by_lot),
                "mae_points": 100 * abs(accuracy.value - reached),
                "trivial_points": 100 * abs(float(pilot_QR.mean()) - reached),
                "trivial_later_points": 100 * abs(float(pilot_QR[:, 1:].mean()) - reached),
                "tokens_held": _holds(tokens, spent),
                "tokens_half_width_percent": 100 * tokens.half_width / spent,
                "tokens_error_percent": 100 * abs(tokens.value / spent - 1),
                "tokens_trivial_percent": 100 * abs(flat / spent - 1),
            }
        )
    return found


def _holds(interval: Interval, value: float) -> bool:
    return interval.low <= value <= interval.high


def main(argv: Sequence[str] | None = None) -> None:
    """Draw pilots, forecast, count, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pilots", type=int, default=400, help="of each kind of chains")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="of a pilot")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of a pilot")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="25 pilots of each")
    arguments = parser.parse_args(argv)
    started = time.perf_counter()
    shape = (arguments.questions, arguments.rounds)
    pilots = 25 if arguments.quick else arguments.pilots
    rows = [
        row
        for name, source in sources().items()
        for row in judge(name, source, pilots, arguments.seed, shape)
    ]
    figures = _print_pools(rows, pilots, shape)
    seconds = time.perf_counter() - started
    print(
        json.dumps(
            {"benchmark": "forecast", **figures, "rows": rows, "seconds": seconds}
            | {"machine": platform.platform()}
        )
    )


def _print_pools(
    rows: Sequence[dict[str, Any]], pilots: int, shape: tuple[int, int]
) -> dict[str, Any]:
    print(f"{pilots} pilots of {shape[0]} questions x {shape[1]} rounds; other questions at N\n")
    print("                 accuracy, points")
    print("                   at N         by lot       at N, trivial    tokens, %")
    print("chains          N   held error   held error  all  later half   held  half error trivial")
    for r in rows:
        print(
            f"{r['chains']:<14} {r['completions']:>2}  {r['held']:5.3f} {r['mae_points']:5.2f}  "
            f"{r['held_by_lot']:5.3f} {r['by_lot_points']:5.2f} {r['trivial_points']:5.2f} "
            f"{r['trivial_later_points']:5.2f} {r['half_width_points']:5.1f}  "
            f"{r['tokens_held']:5.3f} {r['tokens_half_width_percent']:5.2f} "
            f"{r['tokens_error_percent']:5.2f} {r['tokens_trivial_percent']:7.2f}"
        )
    shares = {
        name: float(np.mean([r[name] for r in rows]))
        for name in ("held", "held_by_lot", "tokens_held")
    }
    print(
        f"\nof 90 % intervals held: accuracy at N {shares['held']:.3f}, by lot "
        f"{shares['held_by_lot']:.3f}, tokens {shares['tokens_held']:.3f}"
    )
    return {"pilots": pilots, "questions": shape[0], "rounds": shape[1], **shares}


if __name__ == "__main__":
    main()
