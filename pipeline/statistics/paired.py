"""*Paired tests*: McNemar's exact test, its power, and Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np
import scipy

K = TypeVar("K", bound=Hashable)


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
