"""*Chain view*: accuracy of MR-Thinking by round, the fitted chain, bounds, pilots by L."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from pipeline.core.arrays import FloatArray
from pipeline.report import words
from pipeline.report.run_data import Cell
from pipeline.statistics.intervals import LEVEL, Interval, draws_interval, mean_interval, wilson
from pipeline.theory.estimate import (
    JEFFREYS,
    Bounds,
    ChainEstimate,
    bounds,
    estimate_clustered,
    prior_weights,
)
from pipeline.theory.markov import accuracy_after
from pipeline.theory.transitions import (
    Chain,
    Labels,
    QuestionKey,
    count,
    count_by_question,
    labels_of_verdicts,
)

SEED = 0
"""Of every resampling in a report: the same run gives the same report."""
DRAWS = 2_000
"""Of a Bayesian bootstrap over questions."""
_CHUNK = 200  # draws whose weights are held at once


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCurve:
    """Chains that were not stopped early, round by round."""

    name: str
    chains: Sequence[Chain]
    observed: tuple[Interval | None, ...]
    """Accuracy of the answer of round r among chains graded there."""
    tokens: tuple[Interval, ...]
    """Mean completion tokens a question, all rounds up to r."""
    predicted: tuple[Interval, ...]
    """p_r (Eq. 4) from the observed p_0 and the counted a and b: a description. Ends weigh whole
    questions."""
    fit: ChainEstimate
    forecast: tuple[Interval, ...] = ()
    """p_r with a and b that were not counted on the question, where there are any."""
    told: str = ""
    """Where a and b of `forecast` come from, and what its intervals leave out."""

    @property
    def p0(self) -> float:
        """Accuracy of round 0."""
        assert self.observed[0] is not None
        return self.observed[0].value

    @property
    def error(self) -> float:
        """Mean over rounds of |observed - predicted|."""
        return self.error_of(self.predicted)

    def error_of(self, curve: Sequence[Interval]) -> float:
        """Mean over rounds of |observed - another curve|."""
        pairs = zip(self.observed, curve, strict=True)
        return float(np.mean([abs(seen.value - p.value) for seen, p in pairs if seen is not None]))


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCurve(RoundCurve):
    """The curve of a cell."""

    cell: Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsView:
    """Neutral, upper and lower accuracy, and where p0 of the split came from."""

    bounds: Bounds | None
    """None where the split cannot be made."""
    source: str
    """In words: the pool that gave p0, or what is missing."""


def chains_of(cell: Cell) -> list[Chain]:
    """Labels of every chain of a cell, from gold verdicts; copies of a question are chains of one
    question."""
    return [
        Chain(
            benchmark=key[0],
            question_id=cell.copies.get(key, key)[1],
            labels=labels_of_verdicts(row["round_verdicts"]),
            level=row["level"],
        )
        for key, row in cell.by_question.items()
    ]


def round_curve(cell: Cell) -> CellCurve | None:
    """The curve of an MR-Thinking cell; None for other cells and where transitions are unknown."""
    if cell.kind != "mr_thinking" or cell.n < 2:
        return None
    tokens_QR = np.zeros((len(cell.rows), cell.n))  # failed rounds of unknown tokens add nothing
    for tokens_R, row in zip(tokens_QR, cell.rows, strict=True):
        spent = [tokens or 0 for tokens in row["round_tokens"]]
        tokens_R[: len(spent)] = spent
    found = curve_of(cell.name, chains_of(cell), np.cumsum(tokens_QR, axis=1))
    if found is None:
        return None
    values = {field.name: getattr(found, field.name) for field in fields(found)}
    return CellCurve(**values, cell=cell)


def curve_of(name: str, chains: Sequence[Chain], tokens_QR: FloatArray) -> RoundCurve | None:
    """The curve of chains; None where round 0 or all transitions are ungraded.

    Args:
        name: whose chains they are.
        chains: with labels by gold.
        tokens_QR: completion tokens of each chain, all rounds up to each.
    """
    rounds = tokens_QR.shape[1]
    counts = count_by_question(chains)
    observed = tuple(_share([c.labels[r : r + 1] for c in chains]) for r in range(rounds))
    if observed[0] is None or not any(c.from_right + c.from_wrong for c in counts.values()):
        return None
    fit = estimate_clustered(counts, labels=Labels.GOLD, seed=SEED)
    prior = (0.0, 0.0, *(2 * (JEFFREYS.alpha, JEFFREYS.beta)))
    draws = weighed_draws(table_of(chains)) + prior_weights(prior, DRAWS, SEED)
    p0_D, a_D, b_D = (draws[:, at] / (draws[:, at] + draws[:, at + 1]) for at in (0, 2, 4))
    known = {"p0": observed[0].value, "a": fit.a.value, "b": fit.b.value}
    return RoundCurve(
        name=name,
        chains=chains,
        observed=observed,
        tokens=tuple(mean_interval(tokens_Q) for tokens_Q in tokens_QR.T),
        predicted=tuple(
            draws_interval(accuracy_after(r, **known), accuracy_after(r, p0=p0_D, a=a_D, b=b_D))
            for r in range(rounds)
        ),
        fit=fit,
    )


def table_of(chains: Sequence[Chain]) -> FloatArray:
    """A row a question: first answers that are right and wrong, then right to wrong, right to
    right, wrong to right, wrong to wrong, over all its chains."""
    rows: dict[QuestionKey, FloatArray] = {}
    for chain in chains:
        n = count(chain.labels)
        first = chain.labels[0] if chain.labels else None
        row = [first is True, first is False, n.right_wrong, n.right_right, n.wrong_right,
               n.wrong_wrong]  # fmt: skip
        rows[chain.key] = rows.get(chain.key, np.zeros(6)) + np.array(row, dtype=np.float64)
    return np.array(list(rows.values()))


def weighed_draws(table_QC: FloatArray) -> FloatArray:
    """(DRAWS, C) sums of a table whose questions weigh unit exponentials (Bayesian bootstrap)."""
    rng = np.random.default_rng(SEED)
    sizes = np.diff([*range(0, DRAWS, _CHUNK), DRAWS])
    return np.concatenate([rng.exponential(size=(n, len(table_QC))) @ table_QC for n in sizes])


def bounds_view(curve: CellCurve, cells: Sequence[Cell]) -> BoundsView:
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
    chains = [chain for chain in curve.chains if chain.key in p0]
    if not chains:
        return BoundsView(bounds=None, source=f"no question of {pool.name} is graded")
    return BoundsView(
        bounds=bounds(chains, p0_parallel=p0, labels=Labels.GOLD, seed=SEED),
        source=f"p0 of a question is its accuracy over the {pool.n} samples of {pool.name}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A backbone in a pilot, as the paper proposes to choose among them (Section 3.4)."""

    curve: CellCurve
    n: int
    expected_accuracy: float
    """p_(n-1) of the fitted chain."""
    expected_tokens: float
    """Completion tokens a question at n: round 0, and the mean of later rounds for each other."""


def candidates(curves: Sequence[CellCurve], n: int) -> list[Candidate]:
    """Pilots ranked by L, the highest first."""
    ranked = sorted(curves, key=lambda curve: -curve.fit.stationary_accuracy.value)
    return [
        Candidate(
            curve=curve,
            n=n,
            expected_accuracy=accuracy_after(
                n - 1, p0=curve.p0, a=curve.fit.a.value, b=curve.fit.b.value
            ),
            expected_tokens=curve.tokens[0].value
            + (n - 1) * (curve.tokens[-1].value - curve.tokens[0].value) / (len(curve.tokens) - 1),
        )
        for curve in ranked
    ]


PILOTS = ("backbone", "run", "L [95 %]", "p0", "accuracy at N", "tokens at N", "questions")


def pilot_rows(curves: Sequence[CellCurve], n: int) -> list[tuple[str, ...]]:
    """`candidates` in words, a row each, by the columns of `PILOTS`."""
    return [
        (
            one.curve.cell.backbone,
            one.curve.cell.run,
            words.percent_with(one.curve.fit.stationary_accuracy),
            words.percent(one.curve.p0),
            f"{words.percent(one.expected_accuracy)} at {one.n}",
            words.count(one.expected_tokens),
            str(len(one.curve.cell.rows)),
        )
        for one in candidates(curves, n)
    ]


def _share(labels: Sequence[Sequence[bool | None]]) -> Interval | None:
    known = [label[0] for label in labels if label and label[0] is not None]
    return wilson(sum(known), len(known), level=LEVEL) if known else None


def _p0_of(pool: Cell) -> dict[QuestionKey, float]:
    shares = {}
    for chain in chains_of(pool):
        known = [float(label) for label in chain.labels if label is not None]
        if known:
            shares[chain.key] = mean_interval(known).value
    return shares
