"""The chain behind MR-Thinking: accuracy by round, the closed form, diagnostics and bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.report.run_data import Cell
from pipeline.statistics.intervals import LEVEL, Interval, mean_interval, wilson
from pipeline.theory.diagnostics import (
    GoodnessOfFit,
    Homogeneity,
    LikelihoodRatio,
    Mixture,
    goodness_of_fit,
    homogeneity_test,
    mixture_test,
    order_test,
)
from pipeline.theory.estimate import Bounds, ChainEstimate, bounds, estimate_clustered
from pipeline.theory.markov import accuracy_after
from pipeline.theory.transitions import (
    Chain,
    Labels,
    QuestionKey,
    count_by_question,
    count_by_round,
    labels_of_verdicts,
)

SEED = 0
"""Of every resampling in a report: the same run gives the same report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCurve:
    """Chains that were not stopped early, round by round."""

    cell: Cell
    observed: tuple[Interval | None, ...]
    """Accuracy of the answer of round r among chains graded there."""
    tokens: tuple[float, ...]
    """Mean completion tokens a question, all rounds up to r."""
    predicted: tuple[float, ...]
    """p_r (Eq. 4) from the observed p_0 and the counted a and b."""
    fit: ChainEstimate
    p0: float
    error: float
    """Mean over rounds of |observed - predicted|."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Whether the chains look like one first-order chain."""

    order: LikelihoodRatio
    drift: Homogeneity
    mixture_a: Mixture
    mixture_b: Mixture
    fit: GoodnessOfFit | None
    """Over chains graded in every round; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsView:
    """Neutral, upper and lower accuracy, and where p0 of the split came from."""

    bounds: Bounds | None
    """None where the split cannot be made."""
    source: str
    """In words: the pool that gave p0, or what is missing."""


def chains_of(cell: Cell) -> list[Chain]:
    """Labels of every chain of a cell, from gold verdicts."""
    return [
        Chain(
            benchmark=row["benchmark"],
            question_id=row["question_id"],
            labels=labels_of_verdicts(row["round_verdicts"]),
            level=row["level"],
        )
        for row in cell.rows
    ]


def round_curve(cell: Cell) -> RoundCurve | None:
    """The curve of an MR-Thinking cell; None for other cells and where transitions are unknown."""
    if cell.kind != "mr_thinking" or cell.n < 2:
        return None
    chains = chains_of(cell)
    counts = count_by_question(chains)
    observed = tuple(_share([c.labels[r : r + 1] for c in chains]) for r in range(cell.n))
    if observed[0] is None or not any(c.from_right + c.from_wrong for c in counts.values()):
        return None
    fit = estimate_clustered(counts, labels=Labels.GOLD, level=LEVEL, seed=SEED)
    p0 = observed[0].value
    predicted = tuple(accuracy_after(r, p0=p0, a=fit.a.value, b=fit.b.value) for r in range(cell.n))
    misses = [
        abs(seen.value - p) for seen, p in zip(observed, predicted, strict=True) if seen is not None
    ]
    return RoundCurve(
        cell=cell,
        observed=observed,
        tokens=_tokens_by_round(cell),
        predicted=predicted,
        fit=fit,
        p0=p0,
        error=math.fsum(misses) / len(misses),
    )


def diagnose(curve: RoundCurve) -> Diagnosis:
    """Test the chains of a curve against what the model takes for granted."""
    cell = curve.cell
    chains = chains_of(cell)
    counts = list(count_by_question(chains).values())
    whole = [
        chain.labels
        for chain in chains
        if len(chain.labels) == cell.n and all(label is not None for label in chain.labels)
    ]
    return Diagnosis(
        order=order_test(chain.labels for chain in chains),
        drift=homogeneity_test(count_by_round(chains), seed=SEED),
        mixture_a=mixture_test([c.right_wrong for c in counts], [c.from_right for c in counts]),
        mixture_b=mixture_test([c.wrong_right for c in counts], [c.from_wrong for c in counts]),
        fit=goodness_of_fit(
            np.sum(np.array(whole, dtype=np.float64), axis=0),
            len(whole),
            p0=curve.p0,
            a=curve.fit.a.value,
            b=curve.fit.b.value,
            seed=SEED,
            refit=True,
        )
        if whole
        else None,
    )


def bounds_view(curve: RoundCurve, cells: Sequence[Cell]) -> BoundsView:
    """The paper's bounds, where independent samples of the same questions give p0.

    Taking p0 from the chains themselves would sort transitions by where they start.
    """
    pools = [
        cell
        for cell in cells
        if cell.kind in ("self_consistency", "best_of_n")
        and cell.n >= 2
        and (cell.run, cell.benchmark) == (curve.cell.run, curve.cell.benchmark)
    ]
    if not pools:
        return BoundsView(
            bounds=None,
            source="upper and lower bound need independent samples of the same questions "
            "(Self-Consistency or Best-of-N in the same run), which were not run",
        )
    pool = max(pools, key=lambda cell: cell.n)
    p0 = _p0_of(pool)
    chains = [chain for chain in chains_of(curve.cell) if chain.key in p0]
    if not chains:
        return BoundsView(bounds=None, source=f"no question of {pool.name} is graded")
    return BoundsView(
        bounds=bounds(chains, p0_parallel=p0, labels=Labels.GOLD, level=LEVEL, seed=SEED),
        source=f"p0 of a question is its accuracy over the {pool.n} samples of {pool.name}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A backbone in a pilot, as the paper proposes to choose among them (Section 3.4)."""

    curve: RoundCurve
    n: int
    expected_accuracy: float
    """p_(n-1) of the fitted chain."""
    expected_tokens: float
    """Completion tokens a question at n: round 0, and the mean of later rounds for each other."""


def candidates(curves: Sequence[RoundCurve], n: int) -> list[Candidate]:
    """Pilots ranked by L, the highest first."""
    ranked = sorted(curves, key=lambda curve: -curve.fit.stationary_accuracy.value)
    return [
        Candidate(
            curve=curve,
            n=n,
            expected_accuracy=accuracy_after(
                n - 1, p0=curve.p0, a=curve.fit.a.value, b=curve.fit.b.value
            ),
            expected_tokens=curve.tokens[0]
            + (n - 1) * (curve.tokens[-1] - curve.tokens[0]) / (len(curve.tokens) - 1),
        )
        for curve in ranked
    ]


def _share(labels: Sequence[Sequence[bool | None]]) -> Interval | None:
    known = [label[0] for label in labels if label and label[0] is not None]
    return wilson(sum(known), len(known), level=LEVEL) if known else None


def _tokens_by_round(cell: Cell) -> tuple[float, ...]:
    """Failed rounds whose tokens are unknown add nothing."""
    table = np.zeros((len(cell.rows), cell.n))
    for row, outcome in zip(table, cell.rows, strict=True):
        spent = [tokens or 0 for tokens in outcome["round_tokens"]]
        row[: len(spent)] = spent
    return tuple(np.cumsum(np.mean(table, axis=0)).tolist())


def _p0_of(pool: Cell) -> dict[QuestionKey, float]:
    shares = {}
    for chain in chains_of(pool):
        known = [float(label) for label in chain.labels if label is not None]
        if known:
            shares[chain.key] = mean_interval(known).value
    return shares
