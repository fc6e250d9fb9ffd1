"""Measure pools of `steps-K` cell by cell: one row a generator and level, from the files alone.

    python -m tools.measure data/pools/steps-small data/pools/steps-medium data/pools/steps-large

AUC is within a question, by pairs, over the chain (rounds) and over the samples. `L` is b / (a + b)
of pooled transitions from round 1 on; correlations are of rightness over all questions of a cell.
`last`, `vote` and `best` are the accuracies of a chain of 8 rounds read by its last answer, by the
most frequent one and by the best scored one.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from tools.problems import LEVELS
from tools.train import auc_within

BUDGET = 8


class Cell(NamedTuple):
    """Completions of one generator and level: arrays (questions, places)."""

    right: np.ndarray
    score: np.ndarray
    answer: np.ndarray


def cells_of(folder: Path) -> dict[tuple[str, str], Cell]:
    """By benchmark and pool (sequential, parallel)."""
    columns = ["benchmark", "pool", "question_id", "round", "sample", "verdict", "score", "answer"]
    table = pq.read_table(folder / "pool.parquet", columns=columns).to_pandas()
    table = table.sort_values(["benchmark", "pool", "question_id", "round", "sample"])
    found = {}
    for key, rows in table.groupby(["benchmark", "pool"], observed=True):
        size = (rows["question_id"].nunique(), -1)
        found[key] = Cell(
            (rows["verdict"] == "right").to_numpy().reshape(size),
            rows["score"].to_numpy().reshape(size),
            rows["answer"].to_numpy().reshape(size),
        )
    return found


def measured(chain: Cell, samples: Cell) -> dict[str, float]:
    """The figures of one generator and level."""
    before, after = chain.right[:, 1:-1], chain.right[:, 2:]
    a = (before & ~after).sum() / max(1, before.sum())
    b = (~before & after).sum() / max(1, (~before).sum())
    first = chain.answer[:, :BUDGET]
    votes = [Counter(row.tolist()).most_common(1)[0][0] for row in first]
    voted = [
        bool(right[answers.tolist().index(vote)])
        for vote, answers, right in zip(votes, first, chain.right, strict=True)
    ]
    best = chain.right[np.arange(len(first)), chain.score[:, :BUDGET].argmax(1)]
    return {
        "questions": len(first),
        "p0": samples.right.mean(),
        "spread": samples.right.mean(1).std(),
        "a": a,
        "b": b,
        "L": b / (a + b),
        "late": chain.right[:, 32:].mean(),
        "last": chain.right[:, BUDGET - 1].mean(),
        "vote": float(np.mean(voted)),
        "best": best.mean(),
        "lag 1": _correlation(before, after),
        "lag 8": _correlation(chain.right[:, 1:-8], chain.right[:, 9:]),
        "AUC rounds": auc_within(chain.score, chain.right) or np.nan,
        "AUC samples": auc_within(samples.score, samples.right) or np.nan,
        "score 10 %": np.quantile(samples.score, 0.1),
        "score 90 %": np.quantile(samples.score, 0.9),
    }


def main(argv: list[str] | None = None) -> int:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(prog="tools.measure", description=__doc__)
    parser.add_argument("pools", nargs="+", type=Path)
    rows = []
    for folder in parser.parse_args(argv).pools:
        cells = cells_of(folder)
        for level in LEVELS:
            name = f"steps-{level}"
            figures = measured(cells[name, "sequential"], cells[name, "parallel"])
            rows.append({"pool": folder.name, "benchmark": name, **figures})
    names = list(rows[0])
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for row in rows:
        shown = [f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()]
        print("| " + " | ".join(shown) + " |")
    return 0


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(x.ravel(), y.ravel())[0, 1])


if __name__ == "__main__":
    raise SystemExit(main())
