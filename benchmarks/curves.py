"""Predict late accuracy from the first rounds of real MR-Thinking curves.

    python -m benchmarks.curves --curves mr_thinking_curves.csv

The file has the columns benchmark, rounds (completions drawn, from 1), accuracy and correct. For
each benchmark the chain is fitted to its first 8 rounds, under a prior made from the whole curves
of the other benchmarks, and predicts the mean accuracy of completions 32 to 64. Beside it stand
the trivial predictor, the mean of those 8 rounds, and the error that the paper reports. Nothing is
tuned on the result. Prints a table and, last, one JSON object.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.theory.curve import CurveFit, CurvePrior, fit_curve, prior_from_fits

FIRST_ROUNDS = 8
WINDOW = (32, 64)
"""Completions, inclusive: rounds 31 to 63."""
PAPER_MAE = 2.88
"""Points; the paper's error of L against the accuracy that was reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One benchmark's counts by round."""

    benchmark: str
    n_questions: int
    right: tuple[int, ...]

    @property
    def reached(self) -> float:
        """Mean accuracy over the window, in [0, 1]."""
        return statistics.fmean(self.right[WINDOW[0] - 1 : WINDOW[1]]) / self.n_questions

    @property
    def first_mean(self) -> float:
        """Mean accuracy of the first rounds: the trivial predictor."""
        return statistics.fmean(self.right[:FIRST_ROUNDS]) / self.n_questions


def read_curves(path: Path) -> list[Curve]:
    """The curves of a file.

    Raises:
        ValueError: naming file and benchmark where rounds are missing.
    """
    by_benchmark: dict[str, dict[int, tuple[float, int]]] = defaultdict(dict)
    with path.open() as file:
        for row in csv.DictReader(file):
            by_benchmark[row["benchmark"]][int(row["rounds"])] = (
                float(row["accuracy"]),
                int(row["correct"]),
            )
    curves = []
    for benchmark, rounds in by_benchmark.items():
        if sorted(rounds) != list(range(1, WINDOW[1] + 1)):
            raise ValueError(f"{benchmark} must have rounds 1 to {WINDOW[1]} in {path}")
        accuracy, correct = max(rounds.values())
        right = tuple(rounds[n][1] for n in range(1, WINDOW[1] + 1))
        curves.append(
            Curve(benchmark=benchmark, n_questions=round(correct / accuracy), right=right)
        )
    return curves


def fit_all(curves: Sequence[Curve]) -> list[CurveFit]:
    """Each curve's prediction under the prior of the others."""
    whole = [fit_curve(c.right, c.n_questions, prior=CurvePrior()) for c in curves]
    fits = []
    for i, curve in enumerate(curves):
        fits.append(
            fit_curve(
                curve.right[:FIRST_ROUNDS],
                curve.n_questions,
                prior=prior_from_fits([fit for j, fit in enumerate(whole) if j != i]),
                ahead=WINDOW[1] - FIRST_ROUNDS,
                average=(WINDOW[0] - 1, WINDOW[1] - 1),
            )
        )
    return fits


def main(argv: Sequence[str] | None = None) -> None:
    """Read the curves, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--curves", type=Path, required=True, help="CSV of accuracy by round")
    curves = read_curves(parser.parse_args(argv).curves)
    started = time.perf_counter()
    fits = fit_all(curves)
    seconds = time.perf_counter() - started
    print("points of accuracy; predicted from completions 1 to 8 for the mean of 32 to 64\n")
    print("benchmark    n      reached  predicted  95 % interval   error  trivial  error     L")
    rows: list[dict[str, Any]] = []
    for curve, fit in zip(curves, fits, strict=True):
        mean = fit.mean_accuracy
        assert mean is not None
        row: dict[str, Any] = {
            "benchmark": curve.benchmark,
            "n_questions": curve.n_questions,
            "reached": 100 * curve.reached,
            "predicted": 100 * mean.value,
            "low": 100 * mean.low,
            "high": 100 * mean.high,
            "trivial": 100 * curve.first_mean,
            "stationary_accuracy": asdict(fit.stationary_accuracy),
            "second_eigenvalue": asdict(fit.second_eigenvalue),
            "effective_draws": fit.effective_draws,
        }
        rows.append(row)
        print(
            f"{curve.benchmark:<12} {curve.n_questions:<6} {row['reached']:7.2f}  "
            f"{row['predicted']:9.2f}  [{row['low']:5.2f}, {row['high']:5.2f}]  "
            f"{row['predicted'] - row['reached']:+6.2f}  {row['trivial']:7.2f}  "
            f"{row['trivial'] - row['reached']:+5.2f}  {100 * fit.stationary_accuracy.value:5.2f}"
        )
    error = statistics.fmean(abs(row["predicted"] - row["reached"]) for row in rows)
    trivial = statistics.fmean(abs(row["trivial"] - row["reached"]) for row in rows)
    covered = sum(row["low"] <= row["reached"] <= row["high"] for row in rows)
    print(
        f"\nmean absolute error: chain {error:.2f}, trivial {trivial:.2f}, paper {PAPER_MAE:.2f}; "
        f"{covered} of {len(rows)} intervals hold what was reached"
    )
    print(
        json.dumps(
            {
                "benchmark": "curves",
                "mae_points": error,
                "trivial_mae_points": trivial,
                "paper_mae_points": PAPER_MAE,
                "covered": covered,
                "curves": rows,
                "seconds": seconds,
                "machine": platform.platform(),
            }
        )
    )


if __name__ == "__main__":
    main()
