"""What a whole run will bring and cost, forecast from a pilot: accuracy by round, tokens.

The accuracy of a round is read as p_r = p0 + g (1 - lambda^r): the two-state chain's curve (Eq. 5)
with gain g = L - p0. Around it lies noise of variance w p (1 - p) / n whose autocorrelation is
lambda^k, as a chain's is, w being the share of a question's variance that changes over the
rounds; the rest stays with the question. The priors below were written down before any forecast was
compared with what came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pipeline.core.errors import ConfigError
from pipeline.statistics.intervals import Interval

FloatArray = NDArray[np.float64]

LEVEL = 0.9
START = (0.5, 0.5)
"""Mean and deviation of p0: hardly any belief."""
GAIN = (0.1, 0.2)
"""Mean and deviation of g: revising helps a little more often than it harms."""
EIGENVALUE = (1.0, 2.0)
"""Beta parameters of lambda: most of the change comes in the first rounds."""
WITHIN = (2.0, 4.0)
"""Beta parameters of w: most of the variance stays with the question."""

LEAST_QUESTIONS = 10
_GRID = (np.arange(40) + 0.5) / 40


@dataclass(frozen=True, slots=True)
class _Curves:
    """A mixture of normal beliefs in (p0, g), one for each lambda and w of a grid."""

    weight_K: FloatArray
    eigenvalue_K: FloatArray
    within_K: FloatArray
    mean_K2: FloatArray
    cov_K22: FloatArray
    scale: float
    """p (1 - p) of the pilot."""


def forecast_accuracy(
    right_R: Sequence[int],
    questions: int,
    rounds: Sequence[int],
    *,
    of: int | None = None,
    within: Interval | None = None,
) -> list[Interval]:
    """Accuracy after each of `rounds`, with its 90 % interval.

    Args:
        right_R: right answers of the pilot after each round, each in [0, questions].
        questions: of the pilot, at least 10.
        rounds: to forecast; 0 is the first answer.
        of: how many other questions of the same kind; None: of the pilot's own questions.
        within: the share w where single questions were recorded (`within_share`).

    Raises:
        ConfigError: with too few questions, or counts that cannot be.
    """
    counted = len(right_R) > 0 and all(0 <= k <= questions for k in right_R)
    if questions < LEAST_QUESTIONS or not counted:
        raise ConfigError(
            f"a pilot must have at least {LEAST_QUESTIONS} questions and counts of right answers "
            f"in [0, questions], got {questions} questions and {[int(k) for k in right_R]}"
        )
    curves = _curves(np.asarray(right_R, np.float64) / questions, questions, within)
    found = []
    for r in rounds:
        slope_K = 1 - curves.eigenvalue_K**r
        row_K2 = np.column_stack([np.ones_like(slope_K), slope_K])
        mean_K = np.einsum("kf,kf->k", row_K2, curves.mean_K2)
        var_K = np.einsum("kf,kfg,kg->k", row_K2, curves.cov_K22, row_K2)
        if of is None:
            var_K = var_K + curves.within_K * curves.scale / questions
        else:
            var_K = var_K + (1 - curves.within_K) * curves.scale * (1 / questions + 1 / of)
            var_K = var_K + curves.within_K * curves.scale / of
        found.append(_mixture(curves.weight_K, mean_K, np.sqrt(var_K)))
    return found


def within_share(right_QT: FloatArray) -> Interval | None:
    """The share w of the variance of rightness that changes from round to round.

    Args:
        right_QT: 1 right, 0 wrong, nan not known; round 0 is left out: it is no revision.

    Returns:
        The share with its 95 % interval by the jackknife over questions; None where it cannot be
        told: fewer than three rounds or 10 questions, or nothing that varies.
    """
    later = right_QT[:, 1:]
    known = (~np.isnan(later)).sum(axis=1)
    kept = known >= 2
    if later.shape[1] < 2 or kept.sum() < LEAST_QUESTIONS:
        return None
    mean_Q = np.nanmean(later[kept], axis=1)
    own_Q = mean_Q * (1 - mean_Q) * known[kept] / (known[kept] - 1)
    n = len(mean_Q)
    total = float(mean_Q.mean() * (1 - mean_Q.mean()))
    if total == 0:
        return None
    value = float(own_Q.mean()) / total
    mean_without_Q = (mean_Q.sum() - mean_Q) / (n - 1)
    scale_Q = np.maximum(mean_without_Q * (1 - mean_without_Q), 1e-9)
    without_Q = (own_Q.sum() - own_Q) / (n - 1) / scale_Q
    error = float(np.sqrt((n - 1) / n * np.sum((without_Q - without_Q.mean()) ** 2)))
    value = min(value, 1.0)
    return Interval(
        value=value, low=max(0.0, value - 1.96 * error), high=min(1.0, value + 1.96 * error)
    )


def forecast_share(right: int, questions: int, of: int) -> Interval:
    """Share right among `of` other questions, from `right` of the pilot's: beta-binomial, 90 %."""
    a, b = right + 0.5, questions - right + 0.5
    low, high = stats.betabinom.ppf([(1 - LEVEL) / 2, (1 + LEVEL) / 2], of, a, b) / of
    return Interval(value=a / (a + b), low=float(low), high=float(high), level=LEVEL)


def forecast_tokens(tokens_QR: FloatArray, rounds: int, of: int) -> Interval:
    """Completion tokens of `of` other questions, `rounds` rounds each, with a 90 % interval.

    Rounds beyond the pilot's are taken to be as long as each question's later half; how far the
    mean length drifts over that half adds to the interval.

    Args:
        tokens_QR: of the pilot's questions by round; nan where a chain had ended.
        rounds: of the whole run, >= 1.
        of: questions of the whole run, >= 1.
    """
    questions, drawn = tokens_QR.shape
    taken = min(drawn, rounds)
    total_Q = np.nansum(tokens_QR[:, :taken], axis=1)
    drift = 0.0
    if rounds > drawn:
        late = tokens_QR[:, drawn // 2 :]
        alive = ~np.isnan(late).all(axis=1)
        later_Q = np.zeros(questions)
        later_Q[alive] = np.nanmean(late[alive], axis=1)
        total_Q = total_Q + (rounds - drawn) * later_Q
        mean_R = np.nanmean(late[:, ~np.isnan(late).all(axis=0)], axis=0)
        if len(mean_R) > 2:
            centre = (len(mean_R) - 1) / 2
            ahead = np.arange(len(mean_R), len(mean_R) + rounds - drawn) - centre
            drift = _slope_error(mean_R) * float(ahead.sum())
    mean, deviation = float(total_Q.mean()), float(total_Q.std(ddof=1))
    error = np.sqrt(deviation**2 * (1 / questions + 1 / of) + drift**2)
    half = float(stats.t.ppf((1 + LEVEL) / 2, questions - 1)) * error
    return Interval(
        value=mean * of, low=max(0.0, mean - half) * of, high=(mean + half) * of, level=LEVEL
    )


def _slope_error(value_R: FloatArray) -> float:
    """Standard error of the slope of the line through values; 0 where they lie on it."""
    r = np.arange(len(value_R)) - (len(value_R) - 1) / 2
    rest_R = value_R - value_R.mean() - r * (r @ value_R) / (r @ r)
    return float(np.sqrt(rest_R @ rest_R / (len(value_R) - 2) / (r @ r)))


def _curves(share_R: FloatArray, questions: int, within: Interval | None) -> _Curves:
    middle = float((share_R.mean() * questions + 0.5) / (questions + 1))
    scale = middle * (1 - middle)
    eigenvalue_K, within_K = (grid.ravel() for grid in np.meshgrid(_GRID, _GRID, indexing="ij"))
    log_K = stats.beta.logpdf(eigenvalue_K, *EIGENVALUE) + stats.beta.logpdf(within_K, *WITHIN)
    if within is not None:
        error = max((within.high - within.low) / (2 * 1.96), 0.01)
        log_K = log_K + stats.norm.logpdf(within_K, within.value, error)
    prior_mean = np.array([START[0], GAIN[0]])
    prior_precision = np.diag([START[1] ** -2, GAIN[1] ** -2])
    means, covs = np.empty((len(log_K), 2)), np.empty((len(log_K), 2, 2))
    r = np.arange(len(share_R))
    apart_RR = np.abs(r[:, None] - r)
    for eigenvalue in _GRID:
        row_R2 = np.column_stack([np.ones(len(r)), 1 - eigenvalue**r])
        noise_RR = eigenvalue**apart_RR  # of variance 1
        misfit = share_R - row_R2 @ prior_mean
        seen_R3 = np.linalg.solve(noise_RR, np.column_stack([row_R2, misfit]))
        fit_22, pull_2 = row_R2.T @ seen_R3[:, :2], row_R2.T @ seen_R3[:, 2]
        spread, log_noise = misfit @ seen_R3[:, 2], np.linalg.slogdet(noise_RR)[1]
        for k in np.flatnonzero(eigenvalue_K == eigenvalue):
            precision = questions / (within_K[k] * scale)
            covs[k] = np.linalg.inv(prior_precision + precision * fit_22)
            means[k] = prior_mean + covs[k] @ (precision * pull_2)
            log_K[k] += 0.5 * (
                np.linalg.slogdet(covs[k])[1]
                + len(r) * np.log(precision)
                - log_noise
                - precision * spread
                + precision**2 * pull_2 @ covs[k] @ pull_2
            )
    weight_K = np.exp(log_K - log_K.max())
    return _Curves(weight_K / weight_K.sum(), eigenvalue_K, within_K, means, covs, scale)


def _mixture(weight_K: FloatArray, mean_K: FloatArray, deviation_K: FloatArray) -> Interval:
    """Mean and 90 % interval of a mixture of normals, kept in [0, 1]."""

    def below(value: float) -> float:
        return float(weight_K @ stats.norm.cdf(value, mean_K, deviation_K))

    ends = (_solve(below, (1 - LEVEL) / 2), _solve(below, (1 + LEVEL) / 2))
    value = min(max(float(weight_K @ mean_K), 0.0), 1.0)
    return Interval(value=value, low=min(ends[0], value), high=max(ends[1], value), level=LEVEL)


def _solve(below: Callable[[float], float], share: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < share else (low, middle)
    return (low + high) / 2
