"""*Calibration*: AUC, reliability and calibration error of scores, and maps that correct them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pipeline.core.arrays import BoolArray, FloatArray
from pipeline.statistics.calibration_maps import IsotonicMap

BINS = 10
"""Of equal width, over which the calibration error is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """How well predicted probabilities agree with outcomes."""

    n: int
    ece: float
    """Expected calibration error: mean over predictions of their bin's |predicted - right|."""
    brier: float
    """Mean squared distance of prediction and outcome, in [0, 1]; lower is better."""
    auc: float
    """Chance that a right answer is scored above a wrong one; nan where one kind is missing."""


def roc_auc(scores: ArrayLike, right: ArrayLike) -> float:
    """Chance that a right one is scored above a wrong one, ties counting half, in [0, 1].

    nan where there is none of one kind. Equals the Mann-Whitney statistic over its maximum.

    Raises:
        ValueError: at scores that are not finite or of another length than `right`.
    """
    values, outcome = _checked(scores, right)
    n_right = int(np.sum(outcome))
    n_wrong = len(outcome) - n_right
    if not n_right or not n_wrong:
        return math.nan
    ranks = scipy.stats.rankdata(values)
    above = float(np.sum(ranks[outcome])) - n_right * (n_right + 1) / 2
    return above / (n_right * n_wrong)


def reliability(predicted: ArrayLike, right: ArrayLike) -> Reliability:
    """Compare predicted probabilities with outcomes in ten bins of equal width.

    Raises:
        ValueError: at predictions outside [0, 1], or none at all.
    """
    values, outcome = _checked(predicted, right)
    if not np.all((values >= 0) & (values <= 1)):
        raise ValueError("predicted must be in [0, 1], got a value outside")
    place = np.minimum((values * BINS).astype(np.int64), BINS - 1)
    gap = np.bincount(place, weights=values - outcome, minlength=BINS)
    return Reliability(
        n=len(values),
        ece=float(np.abs(gap).sum()) / len(values),
        brier=float(np.mean((values - outcome) ** 2)),
        auc=roc_auc(values, outcome),
    )


def fit_isotonic(scores: ArrayLike, right: ArrayLike) -> IsotonicMap:
    """The non-decreasing map of least squared error, linear between its blocks."""
    values, outcome = _checked(scores, right)
    knots, where, weights = np.unique(values, return_inverse=True, return_counts=True)
    shares = np.bincount(where, weights=outcome) / weights
    fitted = np.clip(scipy.optimize.isotonic_regression(shares, weights=weights).x, 0.0, 1.0)
    changes = np.diff(fitted) > 0
    ends = np.concatenate(([True], changes)) | np.concatenate((changes, [True]))
    return IsotonicMap(
        scores=tuple(knots[ends].tolist()), probabilities=tuple(fitted[ends].tolist())
    )


def calibrate(
    scores: Sequence[float],
    right: Sequence[bool],
    questions: Sequence[Hashable],
    *,
    seed: int,
) -> tuple[Reliability, Reliability]:
    """Fits an isotonic map on half of the questions; returns how well the scores of the other half
    agree with outcomes, raw and mapped.

    Args:
        scores: raw scores in [0, 1].
        right: outcomes.
        questions: the question of each score; all scores of one go to the same half.
        seed: of the split into halves.

    Raises:
        ValueError: where lengths differ or there are fewer than two questions.
    """
    values, outcome = _checked(scores, right)
    if len(questions) != len(values):
        raise ValueError(f"questions must be one a score, {len(values)}, got {len(questions)}")
    names = list(dict.fromkeys(questions))
    if len(names) < 2:
        raise ValueError(f"questions must hold at least two, got {len(names)}")
    order = np.random.default_rng(seed).permutation(len(names))
    fitting = {names[i] for i in order[: len(names) // 2]}
    fit = np.array([question in fitting for question in questions])
    found = fit_isotonic(values[fit], outcome[fit])
    mapped = [found(score) for score in values[~fit]]
    return reliability(values[~fit], outcome[~fit]), reliability(mapped, outcome[~fit])


def _checked(scores: ArrayLike, right: ArrayLike) -> tuple[FloatArray, BoolArray]:
    values, outcome = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=np.bool_)
    if values.ndim != 1 or values.shape != outcome.shape or not len(values):
        raise ValueError(
            f"scores and right must be of one length >= 1, got {values.shape} and {outcome.shape}"
        )
    if not np.all(np.isfinite(values)):
        raise ValueError(f"scores must be finite, got {values[~np.isfinite(values)][0]!r}")
    return values, outcome
