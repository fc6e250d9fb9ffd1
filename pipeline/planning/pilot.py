"""Forecasts from a pilot: accuracy by round, and tokens, of a whole run.

The forecast of accuracy is that of S, the chain whose changes die out, with an interval that lets
questions differ.
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
LEAST_QUESTIONS = 10
_MANY = 20_000
"""Questions from which on the lot of theirs adds nothing; the beta-binomial takes as many steps."""


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
        half_distance = (value - float(mixed_R[r])) / 2
        other = half_distance**2 + value * (1 - value) / of
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

    Rounds beyond the pilot's are taken to be as long as each question's later half.

    Args:
        tokens_QR: of the pilot's questions by round; nan where a chain had ended.
        rounds: of the whole run, >= 1.
        of: questions of the whole run, >= 1.
    """
    questions, drawn = tokens_QR.shape
    known = min(drawn, rounds)
    total_Q = np.nansum(tokens_QR[:, :known], axis=1)
    if rounds > drawn:
        late = tokens_QR[:, drawn // 2 :]
        alive = ~np.isnan(late).all(axis=1)
        later_Q = np.zeros(questions)
        later_Q[alive] = np.nanmean(late[alive], axis=1)
        total_Q = total_Q + (rounds - drawn) * later_Q
    mean, deviation = float(total_Q.mean()), float(total_Q.std(ddof=1))
    error = deviation * np.sqrt(1 / questions + 1 / of)
    half = float(stats.t.ppf((1 + LEVEL) / 2, questions - 1)) * error
    return Interval(
        value=mean * of, low=max(0.0, mean - half) * of, high=(mean + half) * of, level=LEVEL
    )
