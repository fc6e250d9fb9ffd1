"""Averages over benchmarks: macro accuracies, mean gains, range of savings, error of the chain.

Each benchmark weighs the same. Intervals take the benchmarks as given and resample their questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.core.arrays import FloatArray
from pipeline.paper.curves import Convergence
from pipeline.paper.evaluation import AT_BEST, BEST_RULE, Evaluation
from pipeline.report.published import Published
from pipeline.results.csv_lines import ends_of
from pipeline.statistics.intervals import Interval, mean_interval

STAR, RIVAL = "markovscale_star", "mr_thinking"
ROWS = ("base", RIVAL, BEST_RULE, AT_BEST, "markovscale_t", STAR, "markovscale_0")

Rows = list[dict[str, Any]]


def aggregate_rows(
    made: Sequence[Evaluation],
    curves: Mapping[str, Convergence | None],
    published: Published,
) -> Rows:
    """The paper's aggregate claims of every backbone, and the same formulas over its own tables.

    Args:
        made: every benchmark and backbone.
        curves: by title.
        published: the paper's numbers.
    """
    rows: Rows = []
    for backbone in dict.fromkeys(one.backbone for one in made):
        own = [one for one in made if one.backbone == backbone]
        budgets = sorted({n for one in own for n in one.chain_budgets})

        def paper(kind: str, measure: int, one: Evaluation, n: int) -> float | None:
            return published.main(one.backbone, kind, one.benchmark, n)[measure]

        for n in budgets:
            for kind in ROWS:
                columns = [one.get(kind, n) for one in own]
                if all(column is not None for column in columns):
                    what = f"macro average accuracy, {own[0].names[kind]}, N = {n}"
                    ours = macro([column.right_Q for column in columns if column is not None])
                    theirs = [paper(kind, 0, one, n) for one in own]
                    rows.append(_row(backbone, what, len(own), ours, _mean(theirs)))
        for rival, name in ((RIVAL, "MR-Thinking"), ("base", "Base")):
            gains = [g for one in own if (g := _gains(one, rival)) is not None]
            theirs = [
                None if a is None or b is None else a - b
                for one in own
                for n in one.chain_budgets
                for a, b in [(paper(STAR, 0, one, n), paper(rival, 0, one, n))]
            ]
            if gains:
                what = f"mean gain in accuracy over {name}, all benchmarks and N"
                rows.append(_row(backbone, what, len(gains), macro(gains), _mean(theirs)))
        for end, pick in (("least", min), ("most", max)):
            found = _saved(own, pick, lambda one, kind, n: _tokens(one, kind, n))
            theirs_saved = _saved(own, pick, lambda one, kind, n: paper(kind, 1, one, n))
            if found is not None:
                what = f"{end} share of MR-Thinking's cost saved, all benchmarks and N"
                rows.append(_row(backbone, what, len(own), _point(found), theirs_saved))
        known = [curve for one in own if (curve := curves.get(one.title)) is not None]
        if known:
            error = float(np.mean([curve.error(curve.forecast) for curve in known]))
            what = "mean absolute error of accuracy by round, a and b of other questions"
            rows.append(_row(backbone, what, len(known), _point(error), None))
    return rows


def macro(values: Sequence[FloatArray]) -> Interval:
    """The mean over benchmarks of the mean over questions, nan left out."""
    means = [mean_interval(one[~np.isnan(one)]) for one in values]
    value = float(np.mean([mean.value for mean in means]))
    half = float(np.sqrt(np.sum([mean.half_width**2 for mean in means]))) / len(means)
    return Interval(value=value, low=value - half, high=value + half)


def _gains(one: Evaluation, rival: str) -> FloatArray | None:
    """(Q,) right of MarkovScale^* minus that of a rival, mean over N."""
    pairs = [(one.get(STAR, n), one.get(rival, n)) for n in one.chain_budgets]
    found = [a.right_Q - b.right_Q for a, b in pairs if a is not None and b is not None]
    return np.mean(found, axis=0) if found else None


def _tokens(one: Evaluation, kind: str, n: int) -> float | None:
    column = one.get(kind, n)
    return None if column is None or column.tokens is None else column.tokens.value


def _saved(
    own: Sequence[Evaluation],
    pick: Callable[[list[float]], float],
    cost: Callable[[Evaluation, str, int], float | None],
) -> float | None:
    pairs = [(cost(one, STAR, n), cost(one, RIVAL, n)) for one in own for n in one.chain_budgets]
    found = [1 - mine / theirs for mine, theirs in pairs if mine is not None and theirs]
    return pick(found) if found else None


def _mean(values: Sequence[float | None]) -> float | None:
    """None unless all are known."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _point(value: float) -> Interval:
    return Interval(value=value, low=float("nan"), high=float("nan"))


def _row(
    backbone: str, what: str, benchmarks: int, ours: Interval, paper: float | None
) -> dict[str, Any]:
    ends = {k: None if v != v else v for k, v in ends_of("ours", ours).items()}
    return {"backbone": backbone, "aggregate": what, "benchmarks": benchmarks, **ends,
            "paper": paper}  # fmt: skip
