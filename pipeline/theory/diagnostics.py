"""*homogeneity_test*: tests whether a and b stay the same over rounds, as the two-state chain says.

Where questions differ, those that lose right answers easily are the first to have lost them, so
pooled a drifts though no question's own does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from scipy import special

from pipeline.core.arrays import FloatArray
from pipeline.theory.transitions import Transitions


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


def _simulated(test: LikelihoodRatio, null: FloatArray) -> LikelihoodRatio:
    """The test with the share of simulated statistics that are as large; rounding is no part."""
    if not test.df:
        return test
    as_large = int(np.sum(null >= test.statistic - 1e-9))
    return replace(test, p_value=(1 + as_large) / (1 + len(null)))


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
        fixed: (R, 2), of wrong answers of each round those corrected and those not.

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
