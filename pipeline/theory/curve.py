"""A chain fitted to an accuracy curve: how many questions were right after each round.

Where the labels of single questions are recorded, count transitions instead
(`pipeline.theory.transitions`); a curve holds less. The likelihood is that of the chain itself:
from round to round the right answers are Binomial(k, 1 - a) kept plus Binomial(n - k, b) mended, so
neighbouring rounds are not taken for independent draws. The prior is stated on what carries over
from one benchmark to another: the gain of L over p0 and lambda, both on the logit scale, with 0 <
lambda < 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import special

from pipeline.statistics.intervals import Interval, draws_interval

FloatArray = NDArray[np.float64]

_DEGREES = 5  # of the Student t that proposals are drawn from: tails heavier than the posterior's


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePrior:
    """Normal beliefs on the logit scale; p0 itself has Jeffreys' prior, Beta(1/2, 1/2)."""

    gain_mean: float = 0.0
    gain_sd: float = 1.5
    """Of logit(L) - logit(p0)."""
    kept_mean: float = 0.0
    kept_sd: float = 1.5
    """Of logit(lambda)."""

    def __post_init__(self) -> None:
        for name in ("gain_sd", "kept_sd"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be > 0, got {getattr(self, name)!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFit:
    """What the first rounds of a curve say about its chain."""

    p0: Interval
    a: Interval
    b: Interval
    stationary_accuracy: Interval
    second_eigenvalue: Interval
    gain: Interval
    """logit(L) - logit(p0)."""
    kept: Interval
    """logit(lambda)."""
    n_questions: int
    n_rounds: int
    """Rounds that were fitted, round 0 among them."""
    effective_draws: float
    """What the weighted draws are worth in independent ones."""
    accuracy: tuple[Interval, ...]
    """Accuracy of these questions, entry j that of round n_rounds + j: mean of the chances p_r and
    an interval of what n questions then show."""
    mean_accuracy: Interval | None
    """Mean over the rounds asked for as `average`, chance within and between rounds included."""


def fit_curve(
    right: Sequence[int],
    n_questions: int,
    *,
    prior: CurvePrior,
    ahead: int = 0,
    average: tuple[int, int] | None = None,
    level: float = 0.95,
    draws: int = 4_000,
    seed: int = 0,
) -> CurveFit:
    """Posterior of (p0, a, b) from counts by round, and the rounds that follow.

    Args:
        right: questions right after round 0, 1, ...; at least two rounds, each in [0, n_questions].
        n_questions: questions asked in every round, >= 1.
        prior: fixed before these counts are looked at.
        ahead: rounds to predict after the last one given.
        average: first and last round (inclusive) of the mean to predict, both among those ahead.
        level: share of belief within each interval.
        draws: from the posterior.
        seed: of the draws.

    Raises:
        ValueError: naming the argument that is out of range.
    """
    counts = _checked(right, n_questions)
    first, last = len(counts), len(counts) + ahead - 1
    if average is not None and not first <= average[0] <= average[1] <= last:
        raise ValueError(f"average must lie within rounds {first} to {last}, got {average!r}")
    rng = np.random.default_rng(seed)
    points, effective = _posterior_draws(counts, n_questions, prior, draws, rng)
    p0, limit, kept = _chain_of(points)
    a, b = (1 - kept) * (1 - limit), (1 - kept) * limit
    later = _simulate(counts[-1], n_questions, a, b, ahead, rng)
    expected = limit[:, None] + kept[:, None] ** np.arange(1, ahead + 1) * (
        counts[-1] / n_questions - limit[:, None]
    )

    def summary(values: FloatArray) -> Interval:
        return draws_interval(float(np.mean(values)), values, level=level)

    mean_accuracy = None
    if average is not None:
        window = slice(average[0] - first, average[1] - first + 1)
        mean_accuracy = draws_interval(
            float(np.mean(expected[:, window])), np.mean(later[:, window], axis=1), level=level
        )
    return CurveFit(
        p0=summary(p0),
        a=summary(a),
        b=summary(b),
        stationary_accuracy=summary(limit),
        second_eigenvalue=summary(kept),
        gain=summary(points[:, 1]),
        kept=summary(points[:, 2]),
        n_questions=n_questions,
        n_rounds=len(counts),
        effective_draws=effective,
        accuracy=tuple(
            draws_interval(float(np.mean(expected[:, j])), later[:, j], level=level)
            for j in range(ahead)
        ),
        mean_accuracy=mean_accuracy,
    )


def prior_from_fits(fits: Sequence[CurveFit], *, least_sd: float = 0.1) -> CurvePrior:
    """The prior for a new benchmark from fits of at least two others.

    Mean and spread of their gains and lambdas; the spread is widened by sqrt(1 + 1/m), since the
    mean itself comes from m benchmarks, and is at least `least_sd`.
    """
    if len(fits) < 2:
        raise ValueError(f"fits must hold at least two benchmarks, got {len(fits)}")
    widen = float(np.sqrt(1 + 1 / len(fits)))
    gains, kept = [fit.gain.value for fit in fits], [fit.kept.value for fit in fits]
    return CurvePrior(
        gain_mean=float(np.mean(gains)),
        gain_sd=max(least_sd, widen * float(np.std(gains, ddof=1))),
        kept_mean=float(np.mean(kept)),
        kept_sd=max(least_sd, widen * float(np.std(kept, ddof=1))),
    )


def _checked(right: Sequence[int], n_questions: int) -> list[int]:
    if n_questions < 1:
        raise ValueError(f"n_questions must be >= 1, got {n_questions!r}")
    if len(right) < 2:
        raise ValueError(f"right must hold at least two rounds, got {len(right)}")
    for r, k in enumerate(right):
        if not 0 <= k <= n_questions or k != int(k):
            raise ValueError(
                f"right must be whole numbers in [0, {n_questions}], got {k!r} in round {r}"
            )
    return [int(k) for k in right]


def _chain_of(points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(p0, L, lambda) of points (D, 3): logit p0, gain, logit lambda."""
    return (
        special.expit(points[:, 0]),
        special.expit(points[:, 0] + points[:, 1]),
        special.expit(points[:, 2]),
    )


def _log_posterior(
    points: FloatArray, counts: Sequence[int], n: int, prior: CurvePrior
) -> FloatArray:
    """Unnormalised log density (D,) at points (D, 3)."""
    log_p0, log_not_p0 = special.log_expit(points[:, 0]), special.log_expit(-points[:, 0])
    limit = points[:, 0] + points[:, 1]
    move = special.log_expit(-points[:, 2])
    log_a = move + special.log_expit(-limit)
    log_b = move + special.log_expit(limit)
    logs = np.stack([log_a, np.log1p(-np.exp(log_a)), log_b, np.log1p(-np.exp(log_b))], axis=1)
    value = (counts[0] + 0.5) * log_p0 + (n - counts[0] + 0.5) * log_not_p0
    value = value - 0.5 * ((points[:, 1] - prior.gain_mean) / prior.gain_sd) ** 2
    value = value - 0.5 * ((points[:, 2] - prior.kept_mean) / prior.kept_sd) ** 2
    for before, after in pairwise(counts):
        value = value + _log_step(logs, before, after, n)
    return np.asarray(value, dtype=np.float64)


def _log_step(logs: FloatArray, before: int, after: int, n: int) -> FloatArray:
    """log P(`after` right | `before` right), summed over how many of them stayed right."""
    stayed = np.arange(max(0, after - (n - before)), min(before, after) + 1)
    mended = after - stayed
    exponents = np.stack([before - stayed, stayed, mended, n - before - mended])
    ways = _log_choose(before, stayed) + _log_choose(n - before, mended)
    return np.asarray(special.logsumexp(logs @ exponents + ways, axis=1), dtype=np.float64)


def _log_choose(n: int, k: Any) -> Any:
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)


def _posterior_draws(
    counts: Sequence[int], n: int, prior: CurvePrior, draws: int, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Draws (D, 3) by importance resampling around the mode, and their effective number."""

    def loss(point: FloatArray) -> float:
        return -float(_log_posterior(point[None, :], counts, n, prior)[0])

    start = np.array([special.logit((counts[0] + 0.5) / (n + 1)), prior.gain_mean, prior.kept_mean])
    mode = scipy.optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-4})
    spread = np.linalg.cholesky(1.5 * (mode.hess_inv + mode.hess_inv.T) / 2 + 1e-10 * np.eye(3))
    proposed_draws = 5 * draws
    scale = np.sqrt(_DEGREES / rng.chisquare(_DEGREES, proposed_draws))[:, None]
    normal = rng.standard_normal((proposed_draws, 3)) * scale
    points = mode.x + normal @ spread.T
    log_proposal = -(_DEGREES + 3) / 2 * np.log1p(np.sum(normal**2, axis=1) / _DEGREES)
    log_weight = _log_posterior(points, counts, n, prior) - log_proposal
    weight = np.exp(log_weight - np.max(log_weight))
    weight /= np.sum(weight)
    chosen = rng.choice(proposed_draws, size=draws, p=weight)
    return points[chosen], float(1 / np.sum(weight**2))


def _simulate(
    right: int, n: int, a: FloatArray, b: FloatArray, rounds: int, rng: np.random.Generator
) -> FloatArray:
    """Accuracy (D, rounds) of n questions, `right` of which are right now."""
    k = np.full(len(a), right)
    shares = np.empty((len(a), rounds))
    for j in range(rounds):
        k = rng.binomial(k, 1 - a) + rng.binomial(n - k, b)
        shares[:, j] = k / n
    return shares
