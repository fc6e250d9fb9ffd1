"""Is it one first-order chain? Tests of what the Markov model takes for granted.

The tests look at different failings but feel each other's: where questions differ (a mixture), the
past tells which kind a question is, so the order test rejects, and the questions that lose right
answers easily are the first to have lost them, so pooled a drifts. Read the mixture test first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy import special

from pipeline.core.arrays import FloatArray
from pipeline.theory.markov import accuracy_after
from pipeline.theory.transitions import Label, Transitions


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelihoodRatio:
    """A likelihood-ratio test."""

    statistic: float
    """Twice the difference of the log likelihoods, >= 0."""
    df: int
    """Degrees of freedom; 0 where the data cannot tell the models apart."""
    p_value: float
    """Chance of so large a statistic under the smaller model; 1 where df = 0. From the chi-square
    distribution, or simulated where a test says so."""


def order_test(chains: Iterable[Sequence[Label]]) -> LikelihoodRatio:
    """First order against second: does the answer before the last one matter too?

    Counts triples of known labels. Where the middle label was only ever reached from one side, it
    says nothing and takes its degree of freedom with it.
    """
    counts = np.zeros((2, 2, 2))
    for labels in chains:
        for x, y, z in zip(labels, labels[1:], labels[2:], strict=False):
            if x is not None and y is not None and z is not None:
                counts[int(x), int(y), int(z)] += 1
    statistic, df = 0.0, 0
    for middle in (0, 1):
        part = _independence(counts[:, middle, :])
        statistic, df = statistic + part.statistic, df + part.df
    return _chi_square(statistic, df)


@dataclass(frozen=True, slots=True, kw_only=True)
class Homogeneity:
    """Whether a and b stay the same over rounds."""

    a: LikelihoodRatio
    b: LikelihoodRatio
    a_by_round: tuple[float, ...]
    """Observed share from round r to r + 1; nan where no right answer was left."""
    b_by_round: tuple[float, ...]


def homogeneity_test(
    by_round: Sequence[Transitions], *, draws: int = 2_000, seed: int = 0
) -> Homogeneity:
    """Test a and b for drift over rounds.

    The p-values are shares of simulated chains that keep one a and one b, those counted over all
    rounds, with a statistic at least as large: a round of 30 questions has few transitions, too few
    for the chi-square distribution, which would call one data set in five drifting.

    Args:
        by_round: entry r holds the transitions from round r, as `count_by_round` gives them.
        draws: simulated data sets.
        seed: of the simulation.
    """
    left = np.array([(c.right_wrong, c.right_right) for c in by_round], dtype=np.float64)
    fixed = np.array([(c.wrong_right, c.wrong_wrong) for c in by_round], dtype=np.float64)
    left, fixed = left.reshape(-1, 2), fixed.reshape(-1, 2)
    test_a, test_b = _independence(left), _independence(fixed)
    if test_a.df or test_b.df:
        null_a, null_b = _without_drift(left, fixed, draws, np.random.default_rng(seed))
        test_a, test_b = _simulated(test_a, null_a), _simulated(test_b, null_b)
    return Homogeneity(
        a=test_a,
        b=test_b,
        a_by_round=tuple(c.a for c in by_round),
        b_by_round=tuple(c.b for c in by_round),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """One rate for all questions against a Beta of rates (beta-binomial)."""

    rate: float
    """The common rate: successes over trials; nan where there were no trials."""
    mean: float
    """Mean of the fitted Beta."""
    spread: float
    """1 / (alpha + beta + 1) of the fitted Beta, in [0, 1]: the correlation of two trials of one
    question. 0 is one chain for all, 1 is two kinds of questions, always and never."""
    statistic: float
    p_value: float
    """Of so large a statistic where spread is 0: half a chi-square, 0 being an end of the range."""
    n_questions: int
    """Questions with at least one trial."""


def mixture_test(successes: Sequence[int], trials: Sequence[int]) -> Mixture:
    """Test whether questions share one rate.

    Args:
        successes: by question, for a: right -> wrong transitions.
        trials: by question, for a: transitions that left a right answer.

    Raises:
        ValueError: unless 0 <= successes <= trials, one pair a question.
    """
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    if k.shape != n.shape or k.ndim != 1:
        raise ValueError(f"successes and trials must pair up, got {k.shape} and {n.shape}")
    if not np.all((k >= 0) & (k <= n)):
        raise ValueError("successes must be in [0, trials] for every question, got one outside")
    k, n = k[n > 0], n[n > 0]
    rate = float(k.sum() / n.sum()) if n.size else math.nan
    if not 0 < rate < 1 or np.all(n == 1):  # nothing that could differ, or nothing to see it by
        return Mixture(
            rate=rate, mean=rate, spread=0.0, statistic=0.0, p_value=1.0, n_questions=len(k)
        )
    common = float(np.sum(special.xlogy(k, rate) + special.xlog1py(n - k, -rate)))

    def loss(at: FloatArray) -> float:
        alpha, beta = _beta_of(at)
        return -float(np.sum(special.betaln(k + alpha, n - k + beta) - special.betaln(alpha, beta)))

    fits = [
        scipy.optimize.minimize(
            loss,
            np.array([special.logit(rate), start]),
            method="Nelder-Mead",
            bounds=[(-20.0, 20.0), (-14.0, 14.0)],
            options={"xatol": 1e-5, "fatol": 1e-8},
        )
        for start in (-3.0, 0.0)
    ]
    best = min(fits, key=lambda fit: fit.fun)
    statistic = max(0.0, 2 * (-float(best.fun) - common))
    return Mixture(
        rate=rate,
        mean=float(special.expit(best.x[0])),
        spread=float(special.expit(best.x[1])),
        statistic=statistic,
        p_value=float(0.5 * scipy.stats.chi2.sf(statistic, 1)) if statistic > 0 else 1.0,
        n_questions=len(k),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodnessOfFit:
    """How well the closed form follows an accuracy curve."""

    mean_absolute_error: float
    """Mean over rounds of |observed - predicted|, in [0, 1]."""
    chi_square: float
    """Sum over rounds of (observed - expected)^2 / variance, in questions."""
    p_value: float
    """Share of simulated chains with a chi-square at least as large. Rounds of one chain hang
    together, so no table of the chi-square distribution would do."""
    predicted: tuple[float, ...]
    """p_r of the rounds given."""


def goodness_of_fit(
    right: ArrayLike,
    n_questions: int,
    *,
    p0: float,
    a: float,
    b: float,
    draws: int = 4_000,
    seed: int = 0,
    refit: bool = False,
) -> GoodnessOfFit:
    """Compare counts by round with p_r (Eq. 4).

    Args:
        right: questions right after round 0, 1, ..., all of the same `n_questions`.
        n_questions: questions asked in every round, >= 1.
        p0: of the chain.
        a: P(right -> wrong).
        b: P(wrong -> right).
        draws: simulated data sets behind the p-value.
        seed: of the simulation.
        refit: whether p0, a and b were estimated on these very chains (p0 as the share of round 0,
            a and b under Jeffreys' prior). Each simulated data set is then fitted again; without
            that the p-value would be too high.

    Raises:
        ValueError: at counts outside [0, n_questions] or no counts.
    """
    observed = np.asarray(right, dtype=np.float64)
    if observed.ndim != 1 or not observed.size:
        raise ValueError("right must hold at least one round, got none")
    if not np.all((observed >= 0) & (observed <= n_questions)):
        raise ValueError(f"right must be in [0, {n_questions}], got a count outside")
    rounds = np.arange(observed.size)
    predicted = np.asarray(accuracy_after(rounds, p0=p0, a=a, b=b))

    def distance(counts: FloatArray, curve: FloatArray) -> FloatArray:
        expected, variance = n_questions * curve, n_questions * curve * (1 - curve)
        missed = (counts - expected) ** 2
        certain = np.where(missed > 1e-18, np.inf, 0.0)  # p_r of 0 or 1 allows no miss
        safe = np.where(variance > 0, variance, 1.0)
        return np.asarray(np.sum(np.where(variance > 0, missed / safe, certain), axis=-1))

    statistic = float(distance(observed, predicted))
    rng = np.random.default_rng(seed)
    state = rng.binomial(n_questions, p0, size=draws)
    simulated = np.empty((draws, observed.size))
    simulated[:, 0] = state
    left, mended = np.zeros(draws), np.zeros(draws)
    for r in range(1, observed.size):
        lost, won = rng.binomial(state, a), rng.binomial(n_questions - state, b)
        left, mended = left + lost, mended + won
        state = state - lost + won
        simulated[:, r] = state
    curves = predicted
    if refit:
        from_right = simulated[:, :-1].sum(axis=1)
        from_wrong = n_questions * (observed.size - 1) - from_right
        curves = np.asarray(
            accuracy_after(
                rounds,
                p0=simulated[:, :1] / n_questions,
                a=((left + 0.5) / (from_right + 1))[:, None],
                b=((mended + 0.5) / (from_wrong + 1))[:, None],
            )
        )
    as_far = int(np.sum(distance(simulated, curves) >= statistic * (1 - 1e-12)))
    return GoodnessOfFit(
        mean_absolute_error=float(np.mean(np.abs(observed / n_questions - predicted))),
        chi_square=statistic,
        p_value=(1 + as_far) / (1 + draws),
        predicted=tuple(predicted.tolist()),
    )


def _simulated(test: LikelihoodRatio, null: FloatArray) -> LikelihoodRatio:
    """The test with the share of simulated statistics that are as large; rounding is no part."""
    if not test.df:
        return test
    as_large = int(np.sum(null >= test.statistic - 1e-9))
    return replace(test, p_value=(1 + as_large) / (1 + len(null)))


def _beta_of(at: FloatArray) -> tuple[float, float]:
    """(alpha, beta) of logit(mean) and logit(spread)."""
    mean, spread = special.expit(at[0]), special.expit(at[1])
    strength = (1 - spread) / spread
    return float(mean * strength), float((1 - mean) * strength)


def _independence(table: FloatArray) -> LikelihoodRatio:
    """Whether the rows of counts (R, 2) share one distribution; empty rows say nothing."""
    rows = table[table.sum(axis=1) > 0]
    columns = rows.sum(axis=0)
    if len(rows) < 2 or np.any(columns == 0):
        return _chi_square(0.0, 0)
    expected = np.outer(rows.sum(axis=1), columns) / rows.sum()
    return _chi_square(float(2 * np.sum(special.xlogy(rows, rows / expected))), len(rows) - 1)


def _chi_square(statistic: float, df: int) -> LikelihoodRatio:
    statistic = max(0.0, statistic)
    return LikelihoodRatio(
        statistic=statistic,
        df=df,
        p_value=float(scipy.stats.chi2.sf(statistic, df)) if df else 1.0,
    )


def _without_drift(
    left: FloatArray, fixed: FloatArray, draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Statistics of a and b, (draws,) each, of chains with one a and one b in all rounds.

    Args:
        left: (R, 2), of right answers of each round those lost and those kept.
        fixed: (R, 2), of wrong answers of each round those mended and those not.

    As many chains are known in each round as were; the first round has the right answers it had.
    """
    n_right, known = left.sum(axis=1), (left + fixed).sum(axis=1)
    a = float(left[:, 0].sum() / max(1.0, n_right.sum()))
    b = float(fixed[:, 0].sum() / max(1.0, fixed.sum()))
    right = np.full(draws, int(n_right[0]))
    tables = np.empty((2, draws, len(left), 2))
    for r, chains in enumerate(known.astype(np.int64).tolist()):
        lost, won = rng.binomial(right, a), rng.binomial(chains - right, b)
        tables[0, :, r] = np.stack([lost, right - lost], axis=1)
        tables[1, :, r] = np.stack([won, chains - right - won], axis=1)
        right = right - lost + won
        if r + 1 < len(known):
            more = int(known[r + 1]) - chains
            if more < 0:
                right = rng.hypergeometric(right, chains - right, chains + more)
            elif more > 0:  # as those known already; where none was, as they were
                share = right / chains if chains else n_right[r + 1] / known[r + 1]
                right = right + rng.binomial(more, share)
    return _g_statistics(tables[0]), _g_statistics(tables[1])


def _g_statistics(tables: FloatArray) -> FloatArray:
    """(D,): likelihood-ratio statistic of independence of each of the tables (D, R, 2)."""
    rows, columns = tables.sum(axis=2), tables.sum(axis=1)
    total = columns.sum(axis=1)
    parts = [special.xlogy(x, x).sum(axis=tuple(range(1, x.ndim))) for x in (tables, rows, columns)]
    return np.asarray(2 * (parts[0] - parts[1] - parts[2] + special.xlogy(total, total)))
