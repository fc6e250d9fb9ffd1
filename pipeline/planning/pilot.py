"""Forecasts from a pilot: accuracy by round, and tokens, of a whole run.

The forecast of accuracy is that of S, the chain whose changes die out, with an interval that lets
questions differ. Lengths of rounds settle likewise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from pipeline.core.arrays import FloatArray
from pipeline.core.errors import ConfigError
from pipeline.statistics.intervals import Interval
from pipeline.theory.settling import changes, fit_mixed, settling_draws

LEVEL = 0.9
_NORMAL = 1.645  # half a 90 % interval, in standard deviations
LENGTH_EIGENVALUE = (1.0, 2.0)
"""Beta parameters of rho: most of the settling of lengths comes in the first rounds."""

LEAST_QUESTIONS = 10
_MANY = 20_000
"""Questions from which on the lot of theirs adds nothing; the beta-binomial takes as many steps."""
_GRID = (np.arange(40) + 0.5) / 40


def forecast_chains(
    right_QR: FloatArray, rounds: Sequence[int], *, of: int, draws: int = 400, seed: int = 0
) -> list[Interval]:
    """Accuracy of other questions after each of `rounds`, with its 90 % interval, from chains.

    The forecast is that of S, whose changes die out by the round (`pipeline.theory.settling`):
    fitted to the transitions, its limit lies between p0 and b / (a + b). The interval holds the
    error of the fit (Bayesian bootstrap over questions), the lot of the other questions, and half
    the distance to the forecast of RU, which lets questions differ.

    Args:
        right_QR: 1 right, 0 wrong, of the pilot's questions by round; at least 10 of them.
        rounds: to forecast; 0 is the first answer.
        of: how many other questions of the same kind.
        draws: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        ConfigError: with too few questions.
    """
    if len(right_QR) < LEAST_QUESTIONS:
        raise ConfigError(
            f"a pilot must have at least {LEAST_QUESTIONS} questions, got {len(right_QR)}"
        )
    if right_QR.shape[1] == 1:
        share = forecast_share(int(right_QR.sum()), len(right_QR), of)
        return [share for _ in rounds]
    value_D3, p_D = settling_draws(right_QR, "round", draws=draws, seed=seed)
    a_D, b_D, kept_D = value_D3.T
    last, size_D, curve_RD = max(rounds), np.ones_like(p_D), [p_D]
    for _ in range(last):
        p_D = p_D + size_D * (b_D - (a_D + b_D) * p_D)
        size_D = size_D * kept_D
        curve_RD.append(p_D)
    mixed_R = fit_mixed(right_QR, changes(right_QR, "run")).curve(last + 1)
    found = []
    for r in rounds:
        value, drawn = float(curve_RD[r][0]), curve_RD[r][1:]
        apart = (value - float(mixed_R[r])) / 2
        other = apart**2 + value * (1 - value) / of
        ends = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        below, above = (np.hypot(end - value, _NORMAL * np.sqrt(other)) for end in ends)
        found.append(
            Interval(
                value=value,
                low=max(0.0, value - float(below)),
                high=min(1.0, value + float(above)),
                level=LEVEL,
            )
        )
    return found


def forecast_share(right: int, questions: int, of: int) -> Interval:
    """Share right among `of` other questions, from `right` of the pilot's: beta-binomial, 90 %;
    among very many its limit, beta."""
    a, b = right + 0.5, questions - right + 0.5
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = (
        stats.beta.ppf(ends, a, b) if of > _MANY else stats.betabinom.ppf(ends, of, a, b) / of
    )
    return Interval(value=a / (a + b), low=float(low), high=float(high), level=LEVEL)


def forecast_tokens(tokens_QR: FloatArray, rounds: int, of: int) -> Interval:
    """Completion tokens of `of` other questions, `rounds` rounds each, with a 90 % interval.

    Rounds beyond the pilot's are taken to be as long as each question's later half, and to settle
    from there on as the pilot's revisions settled (`_settling`).

    Args:
        tokens_QR: of the pilot's questions by round; nan where a chain had ended.
        rounds: of the whole run, >= 1.
        of: questions of the whole run, >= 1.
    """
    questions, drawn = tokens_QR.shape
    taken = min(drawn, rounds)
    total_Q = np.nansum(tokens_QR[:, :taken], axis=1)
    change, doubt = 0.0, 0.0
    if rounds > drawn:
        late = tokens_QR[:, drawn // 2 :]
        alive = ~np.isnan(late).all(axis=1)
        later_Q = np.zeros(questions)
        later_Q[alive] = np.nanmean(late[alive], axis=1)
        total_Q = total_Q + (rounds - drawn) * later_Q
        change, doubt = _settling(tokens_QR, rounds)
    mean, deviation = float(total_Q.mean()) + change, float(total_Q.std(ddof=1))
    error = np.sqrt(deviation**2 * (1 / questions + 1 / of) + doubt**2)
    half = float(stats.t.ppf((1 + LEVEL) / 2, questions - 1)) * error
    return Interval(
        value=mean * of, low=max(0.0, mean - half) * of, high=(mean + half) * of, level=LEVEL
    )


def _settling(tokens_QR: FloatArray, rounds: int) -> tuple[float, float]:
    """Tokens of a question that rounds after the pilot's add to as many of its later half: mean and
    deviation.

    Revision r has the mean length m + d rho^r, with d ~ N(0, m^2).
    """
    drawn = tokens_QR.shape[1]
    seen = [r for r in range(1, drawn) if not np.isnan(tokens_QR[:, r]).all()]
    if len(seen) < 3:
        return 0.0, 0.0
    length_R = np.nanmean(tokens_QR[:, seen], axis=0)
    noise = _noise(tokens_QR[:, seen], length_R)
    if noise == 0:
        return 0.0, 0.0
    log_K, change_K, var_K = (np.empty(len(_GRID)) for _ in range(3))
    for k, rho in enumerate(_GRID):
        x_R = rho ** np.array(seen)
        x_R = x_R - x_R.mean()
        precision = x_R @ x_R / noise + length_R.mean() ** -2
        d = x_R @ length_R / noise / precision
        ahead = rho ** np.arange(drawn, rounds)
        apart = float(np.sum(ahead - np.mean(rho ** np.arange(drawn // 2, drawn))))
        change_K[k], var_K[k] = d * apart, apart**2 / precision
        log_K[k] = (
            stats.beta.logpdf(rho, *LENGTH_EIGENVALUE) + (d**2 * precision - np.log(precision)) / 2
        )
    weight_K = np.exp(log_K - log_K.max())
    weight_K /= weight_K.sum()
    change = float(weight_K @ change_K)
    return change, float(np.sqrt(weight_K @ (var_K + (change_K - change) ** 2)))


def _noise(tokens_QR: FloatArray, length_R: FloatArray) -> float:
    """Variance of a round's mean length: what questions show, at least what rounds do."""
    r = np.arange(len(length_R)) - (len(length_R) - 1) / 2
    bent_R = length_R - length_R.mean() - r * (r @ length_R) / (r @ r)
    of_rounds = float(bent_R @ bent_R) / (len(length_R) - 2)
    known = ~np.isnan(tokens_QR)
    whole = tokens_QR[known.all(axis=1)]
    if len(whole) < 2:
        return of_rounds
    rest_QR = whole - whole.mean(axis=1, keepdims=True) - whole.mean(axis=0) + whole.mean()
    freedom = (len(whole) - 1) * (whole.shape[1] - 1)
    return max(of_rounds, float(np.sum(rest_QR**2) / freedom / len(whole)))
