"""*Fronts*: computes accuracy against cost, settings chosen on one half and judged on the other.

A front is what a strategy gives at every budget when its settings are tuned. For each half of the
questions the settings on the Pareto hull of the *other* half are taken; at a budget between two of
them the questions are dealt to both at random in the share that spends just that budget. The front
is the mean of both halves. Its draws resample the questions of each half and choose the settings
anew in every draw; what was fitted before (a, b, weights) and the split into halves are held fixed.

Axes: S settings, Q questions, B budgets, D draws, of which the first is the data themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.core.arrays import FloatArray, IntArray
from pipeline.statistics.intervals import Interval

DRAWS = 400
LEAST_QUESTIONS = 20
"""A half with fewer graded questions cannot choose settings."""
_STEPS = 49
_HALVES = 2
_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """The settings of one strategy over the same questions, read by one answer rule."""

    name: str
    settings: tuple[str, ...]
    """Each in words."""
    right_SQ: FloatArray
    """1 right, 0 wrong, nan where nobody can say."""
    tokens_SQ: FloatArray
    seen_right_SQ: FloatArray | None = None
    """The same as it is seen when settings are chosen, where that differs: with beliefs of the
    half that a question is in, not of the other."""
    seen_tokens_SQ: FloatArray | None = None

    @property
    def seen(self) -> tuple[FloatArray, FloatArray]:
        """(S, Q) right and tokens as they are seen when settings are chosen."""
        if self.seen_right_SQ is None or self.seen_tokens_SQ is None:
            return self.right_SQ, self.tokens_SQ
        return self.seen_right_SQ, self.seen_tokens_SQ


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Front:
    """What a family gives at every budget."""

    name: str
    accuracy_DB: FloatArray
    picked: tuple[tuple[int, ...], ...]
    """By half that is judged: the settings on the hull of the other, cheapest first."""
    points: tuple[tuple[tuple[float, float], ...], ...]
    """(tokens, accuracy) of each of them on the half that is judged."""


def hull(cost_S: FloatArray, accuracy_S: FloatArray) -> list[int]:
    """Positions of the settings that no other, and no mixture of others, beats: the upper concave
    hull from the cheapest to the most accurate, cheapest first; of equals the first.

    Args:
        cost_S: of each setting.
        accuracy_S: of each; those that are nan are left out.
    """
    order = np.lexsort((-accuracy_S, cost_S))
    order = order[~np.isnan(accuracy_S[order])]
    value = accuracy_S[order]
    rising = np.concatenate([[True], value[1:] > np.maximum.accumulate(value)[:-1]])[: len(value)]
    kept: list[int] = []
    for i in order[rising].tolist():
        while len(kept) > 1 and not _turns_down(cost_S, accuracy_S, kept[-2], kept[-1], i):
            kept.pop()
        kept.append(i)
    return kept


def _turns_down(x: FloatArray, y: FloatArray, a: int, b: int, c: int) -> bool:
    """Whether b lies above the line from a to c."""
    return bool((y[b] - y[a]) * (x[c] - x[b]) > (y[c] - y[b]) * (x[b] - x[a]))


def budgets_between(low: float, high: float, marks: Sequence[float] = ()) -> FloatArray:
    """(B,) budgets evenly spaced in log tokens, and those of the marks that lie between."""
    grid = np.geomspace(low, high, _STEPS)
    return np.unique(np.concatenate([grid, [m for m in marks if low < m < high]]))


def fronts(
    families: Sequence[Family],
    half_Q: IntArray,
    budget_B: FloatArray,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[Front]:
    """The front of every family, all resampled alike, so that differences are paired.

    Args:
        families: over the same questions.
        half_Q: the half of each question, 0 or 1.
        budget_B: mean tokens a question, rising.
        draws: resamples of the questions.
        seed: of the resampling.
    """
    rng = np.random.default_rng(seed)
    weights = []
    for half in range(_HALVES):
        n = int(np.sum(half_Q == half))
        resampled = rng.multinomial(n, np.full(n, 1 / n), size=draws)
        weights.append(np.vstack([np.ones((1, n)), resampled]))
    return [_front(family, half_Q, budget_B, weights) for family in families]


def _front(
    family: Family, half_Q: IntArray, budget_B: FloatArray, weights: Sequence[FloatArray]
) -> Front:
    seen_right, seen_tokens = family.seen
    accuracy_DB = np.zeros((len(weights[0]), len(budget_B)))
    picked, points = [], []
    for half in range(_HALVES):
        mine, others = half_Q == half, half_Q != half
        cost_DS, seen_DS = _means(seen_tokens, seen_right, others, weights[1 - half])
        spent_DS, right_DS = _means(family.tokens_SQ, family.right_SQ, mine, weights[half])
        for d in range(len(accuracy_DB)):
            chosen = hull(cost_DS[d], seen_DS[d])
            if d == 0:
                picked.append(tuple(chosen))
                points.append(tuple(zip(spent_DS[0, chosen], right_DS[0, chosen], strict=True)))
            accuracy_DB[d] += mine.mean() * along(
                spent_DS[d, chosen], right_DS[d, chosen], budget_B
            )
    return Front(
        name=family.name, accuracy_DB=accuracy_DB, picked=tuple(picked), points=tuple(points)
    )


def _means(
    tokens_SQ: FloatArray, right_SQ: FloatArray, at: NDArray[np.bool_], weight_DQ: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(D, S): mean tokens and accuracy of the questions of one half, weighed."""
    right, known = right_SQ[:, at], ~np.isnan(right_SQ[:, at])
    total = weight_DQ.sum(axis=1)[:, None]
    graded = np.broadcast_to(total, (len(total), len(right))) if known.all() else (
        weight_DQ @ known.T.astype(np.float64)
    )  # fmt: skip
    with np.errstate(divide="ignore", invalid="ignore"):
        accuracy = (weight_DQ @ np.where(known, right, 0.0).T) / graded
    return weight_DQ @ tokens_SQ[:, at].T / total, accuracy


def along(cost_S: FloatArray, accuracy_S: FloatArray, budget_B: FloatArray) -> FloatArray:
    """(B,) accuracy at each budget: between two settings on the line through both; below the
    cheapest, and above the dearest, that setting's own."""
    order = np.argsort(cost_S, kind="stable")
    return np.interp(budget_B, cost_S[order], accuracy_S[order])


def mean_over(accuracy_DB: FloatArray, budget_B: FloatArray) -> FloatArray:
    """(D,) mean over budgets, each doubling of tokens weighing the same."""
    log = np.log(budget_B)
    return np.asarray(np.trapezoid(accuracy_DB, log, axis=1) / (log[-1] - log[0]))


def at_equal_accuracy(
    first_DB: FloatArray, second_DB: FloatArray, budget_B: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The tokens with which each of two fronts first reaches what both reach in the end.

    Returns:
        (D,) tokens of the first, of the second, and that accuracy: the lesser of their highest.
    """
    level_D = np.minimum(first_DB.max(axis=1), second_DB.max(axis=1))
    return (
        _reached(first_DB, budget_B, level_D),
        _reached(second_DB, budget_B, level_D),
        level_D,
    )


def _reached(accuracy_DB: FloatArray, budget_B: FloatArray, level_D: FloatArray) -> FloatArray:
    log = np.log(budget_B)
    at = (accuracy_DB >= level_D[:, None] - _TOLERANCE).argmax(axis=1)
    rows, before = np.arange(len(at)), np.maximum(at - 1, 0)
    low, high = accuracy_DB[rows, before], accuracy_DB[rows, at]
    share = np.where(high > low, (level_D - low) / np.where(high > low, high - low, 1.0), 1.0)
    share = np.clip(np.where(at == 0, 1.0, share), 0.0, 1.0)
    return np.asarray(np.exp(log[before] + share * (log[at] - log[before])))


def interval_of(value_D: FloatArray) -> Interval:
    """The first draw with the spread of the others around their own mean, at 95 %: settings that
    are chosen on resampled questions are chosen a little worse, which is no error of the value."""
    value, others = float(value_D[0]), value_D[1:]
    low, high = np.quantile(others, [0.025, 0.975]) - others.mean()
    return Interval(
        value=value, low=value + min(float(low), 0.0), high=value + max(float(high), 0.0)
    )
