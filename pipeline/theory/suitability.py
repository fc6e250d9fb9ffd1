"""Which kind of strategy suits a generator and its verifier, told from recorded chains.

Three questions: does the verifier tell the answers of one question apart, do rounds forget as the
two-state chain says, and is the accuracy curve as noisy as that chain makes it. Each comes with one
sentence on what it means for the choice of a strategy.

Axes: Q questions, T rounds, S parallel samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from pipeline.core.arrays import FloatArray
from pipeline.statistics.calibration import roc_auc
from pipeline.statistics.intervals import Interval
from pipeline.theory.markov import accuracy_after

LAGS = (1, 2, 4, 8)
LEAST_QUESTIONS = 20
"""Fewer questions, or questions with both right and wrong answers, tell nothing."""
_DRAWS = 400
_LEAST_ROUNDS = 6
_APART, _BLIND, _STILL = 0.65, 0.6, 0.9
_SURE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LagCorrelation:
    """How far the rightness of a round says that of a later one."""

    lag: int
    """Rounds between the two."""
    observed: Interval
    """Pearson correlation over all pairs of rounds; resampled by question."""
    chain: float
    """lambda^lag = (1 - a - b)^lag: of a two-state chain with the counted a and b."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suitability:
    """The diagnostics of one benchmark."""

    questions: int
    rounds: int
    auc_pooled: Interval | None
    """P(a right completion scores higher than a wrong one), over all completions."""
    auc_within: Interval | None
    """The same between completions of one question, mean over the questions that have both."""
    lags: tuple[LagCorrelation, ...]
    samples: Interval | None
    """Correlation of rightness between two independent samples of one question."""
    curve_variance: float | None
    """Variance of the accuracy curve around the fitted chain's, over what such a chain gives."""
    curve_chance: float | None
    """Chance that such a chain gives no more than that."""

    @property
    def tells_apart(self) -> bool | None:
        """Whether the verifier tells the answers of one question apart; None where that is open."""
        within = self.auc_within
        if within is None or (within.high >= _BLIND and within.low <= _APART):
            return None
        return within.low > _APART

    def sentences(self) -> tuple[str, ...]:
        """What each diagnostic means for the choice of a strategy."""
        said = [
            _of_verifier(self.auc_within, self.auc_pooled, self.tells_apart),
            _of_lags(self.lags, self.samples),
        ]
        return (*filter(None, [*said, _of_curve(self.curve_variance, self.curve_chance)]),)


def suitability(
    chains: Sequence[Sequence[bool | None]],
    scores: Sequence[Sequence[float | None]],
    samples: Sequence[Sequence[bool | None]] = (),
    *,
    seed: int = 0,
) -> Suitability | None:
    """The diagnostics of chains that no strategy has stopped.

    Args:
        chains: whether each round is right, a sequence a question; None where it is not known.
        scores: verifier scores in [0, 1] at the same places; None where there is none.
        samples: whether each parallel sample is right, a sequence a question.
        seed: of the bootstrap over questions.

    Returns:
        The diagnostics; None with fewer than `LEAST_QUESTIONS` chains of two rounds or more.
    """
    kept = [q for q, chain in enumerate(chains) if len(chain) > 1]
    if len(kept) < LEAST_QUESTIONS:
        return None
    right_QT = _matrix([chains[q] for q in kept])
    score_QT = _matrix([scores[q] for q in kept])
    before, after = right_QT[:, :-1], right_QT[:, 1:]
    known = ~np.isnan(before) & ~np.isnan(after)
    a = _share(after[known & (before == 1)] == 0)
    b = _share(after[known & (before == 0)] == 1)
    lags = [
        (lag, _correlation(_lagged(right_QT, lag), seed)) for lag in LAGS if lag < right_QT.shape[1]
    ]
    variance, chance = _curve_variance(right_QT, a, b) or (None, None)
    return Suitability(
        questions=len(kept),
        rounds=right_QT.shape[1],
        auc_pooled=_clustered_auc(score_QT, right_QT),
        auc_within=_auc_within(score_QT, right_QT),
        lags=tuple(
            LagCorrelation(lag=lag, observed=found, chain=float((1 - a - b) ** lag))
            for lag, found in lags
            if found is not None
        ),
        samples=_correlation(_paired_samples(_matrix(samples)), seed) if samples else None,
        curve_variance=variance,
        curve_chance=chance,
    )


def _matrix(rows: Sequence[Sequence[float | None]]) -> FloatArray:
    """Rows of any length as one matrix, nan where nothing is known."""
    matrix = np.full((len(rows), max(map(len, rows))), np.nan)
    for q, row in enumerate(rows):
        matrix[q, : len(row)] = [np.nan if value is None else value for value in row]
    return matrix


def _share(happened: NDArray[np.bool_]) -> float:
    return float(happened.mean()) if happened.size else 0.0


def _clustered_auc(score_QT: FloatArray, right_QT: FloatArray) -> Interval | None:
    """AUC over all completions; its variance takes a question's completions together
    (Obuchowski 1997)."""
    use = ~np.isnan(score_QT) & ~np.isnan(right_QT)
    score, right = score_QT[use], right_QT[use] == 1
    m, n = int(right.sum()), int((~right).sum())
    if not m or not n:
        return None
    auc = roc_auc(score, right)
    place = np.empty(len(score))  # share of the other kind that scores worse
    place[right] = (scipy.stats.rankdata(score)[right] - scipy.stats.rankdata(score[right])) / n
    place[~right] = (
        1 - (scipy.stats.rankdata(score)[~right] - scipy.stats.rankdata(score[~right])) / m
    )
    influence = (place - auc) / np.where(right, m, n)
    of_question = np.bincount(np.nonzero(use)[0], weights=influence, minlength=len(score_QT))
    questions = int(use.any(axis=1).sum())
    return _on_logit(auc, float(np.sqrt(np.sum(of_question**2))), questions)


def _auc_within(score_QT: FloatArray, right_QT: FloatArray) -> Interval | None:
    aucs = []
    for score_T, right_T in zip(score_QT, right_QT, strict=True):
        use = ~np.isnan(score_T) & ~np.isnan(right_T)
        if 0 < right_T[use].sum() < use.sum():
            aucs.append(roc_auc(score_T[use], right_T[use] == 1))
    if len(aucs) < LEAST_QUESTIONS:
        return None
    n = len(aucs)
    return _on_logit(float(np.mean(aucs)), float(np.std(aucs, ddof=1) / np.sqrt(n)), n)


def _on_logit(value: float, error: float, questions: int) -> Interval:
    """The 95 % interval of a probability whose logit is about normal; where every question says 0,
    or every one 1, that of as many equal outcomes."""
    if not 0 < value < 1:
        far = 1 - 0.025 ** (1 / questions)
        return Interval(value=value, low=max(0.0, value - far), high=min(1.0, value + far))
    logit, half = np.log(value / (1 - value)), 1.96 * error / (value * (1 - value))
    low, high = (float(1 / (1 + np.exp(-end))) for end in (logit - half, logit + half))
    return Interval(value=value, low=low, high=high)


def _lagged(right_QT: FloatArray, lag: int) -> FloatArray:
    """(Q, 6): pairs of each question, and their sums of x, y, x^2, y^2 and x y."""
    x, y = right_QT[:, :-lag], right_QT[:, lag:]
    known = ~np.isnan(x) & ~np.isnan(y)
    x, y = np.where(known, x, 0.0), np.where(known, y, 0.0)
    parts = [known, x, y, x * x, y * y, x * y]
    return np.column_stack([np.asarray(part, np.float64).sum(axis=1) for part in parts])


def _paired_samples(right_QS: FloatArray) -> FloatArray:
    """As `_lagged`, for all ordered pairs of two samples of a question."""
    m, k = (~np.isnan(right_QS)).sum(axis=1), np.nansum(right_QS, axis=1)
    one = k * (m - 1)
    return np.column_stack([m * (m - 1), one, one, one, one, k * (k - 1)]).astype(np.float64)


def _correlation(sums_QF: FloatArray, seed: int) -> Interval | None:
    """Pearson's correlation from sums of questions, questions resampled with replacement."""
    value = _pearson(sums_QF.sum(axis=0)[None])[0]
    if np.isnan(value):
        return None
    rng = np.random.default_rng(seed)
    questions = len(sums_QF)
    times_DQ = rng.multinomial(questions, np.full(questions, 1 / questions), size=_DRAWS)
    low, high = np.nanquantile(_pearson(times_DQ @ sums_QF), [0.025, 0.975])
    return Interval(value=float(value), low=float(low), high=float(high))


def _pearson(sums_DF: FloatArray) -> FloatArray:
    n, x, y, xx, yy, xy = sums_DF.T
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = xy / n - x / n * y / n
        scale = np.sqrt((xx / n - (x / n) ** 2) * (yy / n - (y / n) ** 2))
        return np.asarray(np.where(scale > 0, covariance / scale, np.nan))


def _curve_variance(right_QT: FloatArray, a: float, b: float) -> tuple[float, float] | None:
    """How much the accuracy of rounds 1 to T - 1 varies around the chain's, over the expected, and
    the chance of no more (Satterthwaite's chi-square).

    Rounds r and s of a homogeneous chain at p have the covariance p (1 - p) lambda^|r - s| n_rs /
    (n_r n_s), n being the questions graded in each and in both.
    """
    rounds = right_QT.shape[1] - 1
    if rounds < _LEAST_ROUNDS or np.isnan(right_QT).all(axis=0).any():
        return None
    curve_T = np.nanmean(right_QT, axis=0)
    expected_T = np.asarray(accuracy_after(np.arange(1, rounds + 1), p0=curve_T[0], a=a, b=b))
    observed = float(np.var(curve_T[1:] - expected_T, ddof=1))
    p = float(curve_T[1:].mean())
    known_QT = (~np.isnan(right_QT[:, 1:])).astype(np.float64)
    both_TT, graded_T = known_QT.T @ known_QT, known_QT.sum(axis=0)
    r = np.arange(rounds)
    covariance_TT = (1 - a - b) ** np.abs(r[:, None] - r) * both_TT / np.outer(graded_T, graded_T)
    apart_TT = np.eye(rounds) - 1 / rounds
    around_TT = apart_TT @ covariance_TT @ apart_TT
    spread = float(np.trace(around_TT))
    chain = p * (1 - p) * spread / (rounds - 1)
    if chain <= 1e-12:
        return None
    freedom = spread**2 / float(np.sum(around_TT**2))
    ratio = observed / chain
    return ratio, float(scipy.stats.chi2.cdf(ratio * freedom, freedom))


def _of_verifier(
    within: Interval | None, pooled: Interval | None, tells_apart: bool | None
) -> str | None:
    if within is None:
        return None
    beside = "" if pooled is None else f", over all completions {_two(pooled.value)}"
    told = f"AUC within a question {_with_ends(within)}{beside}"
    if tells_apart is False:
        return (
            f"This verifier does not tell the answers of one question apart ({told}): prefer vote "
            f"over prm_argmax."
        )
    if tells_apart:
        return (
            f"This verifier tells the answers of one question apart ({told}): prm_argmax and "
            f"stopping by its scores can pay."
        )
    if within.low <= 0.5:
        return (
            f"Too few questions have both right and wrong answers to say whether the verifier "
            f"tells them apart ({told}): prefer vote until more do."
        )
    return (
        f"This verifier tells the answers of one question apart a little ({told}): compare rules."
    )


def _of_lags(lags: Sequence[LagCorrelation], samples: Interval | None) -> str | None:
    if not lags or lags[-1].lag == 1:  # that is how the chain was fitted
        return None
    last = lags[-1]
    told = (
        f"rightness {last.lag} rounds apart correlates {_with_ends(last.observed)}, the fitted "
        f"chain says {_two(last.chain)}"
    )
    beside = "" if samples is None else f", independent samples {_two(samples.value)}"
    if min(lags[0].chain, last.chain, last.observed.value) > _STILL:
        return (
            f"Answers hardly ever change from right to wrong or back ({told}{beside}): revising "
            f"changes little; prefer base, or independent samples."
        )
    if last.observed.low > max(last.chain, 0.0) + 0.1:
        return (
            f"A question stays easy or hard over its rounds ({told}{beside}): a and b do not "
            f"forecast late rounds; prefer chain_asc, which stops on agreement."
        )
    if last.observed.high > max(last.chain, 0.0) + 0.2:
        return (
            f"Too few questions to say whether rounds forget as the two-state chain says "
            f"({told}{beside}): draw more before you rely on its gate and stopping rule."
        )
    return (
        f"Rounds forget as the two-state chain says ({told}{beside}): what its gate and "
        f"stopping rule assume holds."
    )


def _of_curve(ratio: float | None, chance: float | None) -> str | None:
    if ratio is None or chance is None:
        return None
    end = ": questions differ, and late rounds are better forecast by the mean of earlier ones"
    return (
        f"Accuracy varies over rounds {ratio:.2f} times as much as the two-state chain expects"
        f"{end if chance < _SURE else ''}."
    )


def _with_ends(interval: Interval) -> str:
    return f"{_two(interval.value)} [{_two(interval.low)}, {_two(interval.high)}]"


def _two(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # no minus before a zero
