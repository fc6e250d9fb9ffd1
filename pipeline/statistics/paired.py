"""Two strategies on the same questions: exact McNemar, clustered bootstrap, Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import scipy
from scipy import special

from pipeline.core.arrays import FloatArray
from pipeline.statistics.intervals import check_level

K = TypeVar("K", bound=Hashable)

_CELLS = 4_000_000  # draws x questions held in memory at once


def mcnemar(only_first: int, only_second: int) -> float:
    """Two-sided p of McNemar's exact test (1947): of the discordant questions being split evenly.

    Args:
        only_first: questions that the first of two strategies alone had right.
        only_second: likewise the second.

    Returns:
        1 where there are none.
    """
    discordant = only_first + only_second
    return float(scipy.stats.binomtest(only_first, discordant).pvalue) if discordant else 1.0


def least_discordant(tests: int = 1, *, alpha: float = 0.05) -> int:
    """Questions that one strategy alone must have right, the other none, before McNemar's exact
    test calls a difference at `alpha` with this many tests: the least d with 2 (1/2)^d < alpha / m
    (Holm's first step; the smallest of m p-values is multiplied by m)."""
    return math.floor(1 - math.log2(alpha / tests)) + 1


def mcnemar_power(
    pairs: int, difference: float, discordant: float, *, alpha: float = 0.05
) -> float:
    """Chance that McNemar's exact test calls a true difference, in its direction.

    Summed over the binomial number of discordant pairs, and over their splits; no approximation.

    Args:
        pairs: questions that both strategies answer.
        difference: share that the first alone has right minus share that the second alone has.
        discordant: share of pairs that one of the two alone has right.
        alpha: level of the two-sided test.

    Raises:
        ValueError: unless pairs >= 0 and 0 < difference <= discordant <= 1.
    """
    if pairs < 0 or not 0 < difference <= discordant <= 1:
        raise ValueError(
            "pairs must be >= 0, and 0 < difference <= discordant <= 1, got "
            f"{pairs!r}, {difference!r} and {discordant!r}"
        )
    seen_D = np.arange(pairs + 1)
    lost_D = scipy.stats.binom.ppf(alpha / 2, seen_D, 0.5) - 1  # most that the first may lose
    called_D = scipy.stats.binom.cdf(lost_D, seen_D, 0.5 - difference / discordant / 2)
    return float(scipy.stats.binom.pmf(seen_D, pairs, discordant) @ called_D)


def pairs_needed(
    difference: float, discordant: float, *, power: float = 0.8, alpha: float = 0.05
) -> int:
    """Questions at which `mcnemar_power` reaches a power, by doubling and bisection.

    The power of an exact test rises in small steps and falls a little between them, so it may be
    just below `power` at slightly larger numbers.

    Raises:
        ValueError: as `mcnemar_power`.
    """
    low, high = 0, 1
    while mcnemar_power(high, difference, discordant, alpha=alpha) < power:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if mcnemar_power(middle, difference, discordant, alpha=alpha) < power:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Mean of the first minus mean of the second, each question weighing the same."""

    value: float
    low: float
    high: float
    level: float
    p_value: float
    """Two-sided, by flipping the signs of questions at random; of a mean difference of 0."""
    n_questions: int
    draws: int
    seed: int


def paired_difference(
    first: Mapping[K, Sequence[float]],
    second: Mapping[K, Sequence[float]],
    *,
    seed: int,
    level: float = 0.95,
    draws: int = 10_000,
) -> Difference:
    """Bootstrap the difference of two means over whole questions.

    A question is one cluster: all its draws go with it, and its difference is that of its two
    means, so several draws a question do not count as several questions. The percentiles are
    widened as Hesterberg (2015) does it, to what Student's t asks of so many questions.

    Args:
        first: values (right as 0 or 1, or tokens) by question, one or more each.
        second: the same questions under the other strategy.
        seed: of the resampling.
        level: share of repetitions that the interval is to hold.
        draws: resamples, for interval and p-value each.

    Raises:
        ValueError: unless both hold the same questions, at least one, and a value each.
    """
    check_level(level)
    keys = _same_keys(first, second)
    for name, values in (("first", first), ("second", second)):
        empty = [key for key in keys if not len(values[key])]
        if empty:
            raise ValueError(f"{name} must hold a value for every question, got none of {empty[0]}")
    differences = np.array([np.mean(first[key]) - np.mean(second[key]) for key in keys])
    rng = np.random.default_rng(seed)
    value = float(np.mean(differences))
    tails = _widened_tails(len(keys), level)
    low, high = np.quantile(_resampled_means(differences, draws, rng), tails)
    flipped = np.abs(_flipped_means(differences, draws, rng))
    below = flipped < abs(value) * (1 - 1e-12)  # less extreme, up to rounding; nan never is
    extreme = int(np.sum(~below))
    return Difference(
        value=value,
        low=float(low),
        high=float(high),
        level=level,
        p_value=(1 + extreme) / (1 + draws),
        n_questions=len(keys),
        draws=draws,
        seed=seed,
    )


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Adjusted p-values of a family of tests, controlling the chance of any false one (Holm 1979).

    Raises:
        ValueError: at a p-value outside [0, 1].
    """
    for key, p in p_values.items():
        if not 0 <= p <= 1:
            raise ValueError(f"p_values must be in [0, 1], got {p!r} for {key!r}")
    adjusted, running = {}, 0.0
    for rank, key in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[key]))
        adjusted[key] = running
    return {key: adjusted[key] for key in p_values}


def _same_keys(first: Mapping[K, object], second: Mapping[K, object]) -> list[K]:
    if first.keys() != second.keys():
        odd = sorted(map(str, first.keys() ^ second.keys()))
        raise ValueError(
            f"first and second must hold the same questions, got {odd[0]} in one alone"
        )
    if not first:
        raise ValueError("first and second must hold at least one question, got none")
    return list(first)


def _widened_tails(n: int, level: float) -> tuple[float, float]:
    """Percentiles that make a bootstrap interval of n values as wide as Student's t."""
    if n == 1:
        return 0.0, 1.0
    t = float(special.stdtrit(n - 1, 0.5 + level / 2))
    tail = float(special.ndtr(-np.sqrt(n / (n - 1)) * t))
    return tail, 1 - tail


def _resampled_means(values: FloatArray, draws: int, rng: np.random.Generator) -> FloatArray:
    n = len(values)
    step = max(1, _CELLS // n)
    return np.concatenate(
        [
            values[rng.integers(0, n, size=(min(step, draws - start), n))].mean(axis=1)
            for start in range(0, draws, step)
        ]
    )


def _flipped_means(values: FloatArray, draws: int, rng: np.random.Generator) -> FloatArray:
    n = len(values)
    step = max(1, _CELLS // n)
    return np.concatenate(
        [
            (rng.integers(0, 2, size=(min(step, draws - start), n)) * 2 - 1) @ values / n
            for start in range(0, draws, step)
        ]
    )
