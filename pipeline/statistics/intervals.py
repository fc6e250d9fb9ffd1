"""*Interval*: a value with its ends, and intervals of shares, means and differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from pipeline.core.arrays import FloatArray

LEVEL = 0.95
"""Of every interval of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value and the ends of its interval."""

    value: float
    low: float
    high: float
    level: float = 0.95
    """Share of repetitions (or of belief) that the interval is to hold."""

    @property
    def half_width(self) -> float:
        """Half the distance of the ends."""
        return (self.high - self.low) / 2


def interval_in(row: Mapping[str, float], name: str = "value") -> Interval:
    """A value of a row with its ends, ``low`` and ``high``."""
    return Interval(value=row[name], low=row["low"], high=row["high"])


def wilson(right: int, n: int) -> Interval:
    """Wilson's 95 % score interval for `right` of `n`; close to its level on average.

    Raises:
        ValueError: unless 0 <= right <= n and n >= 1.
    """
    if n < 1:
        raise ValueError(f"n must be >= 1, got {n!r}")
    if not 0 <= right <= n:
        raise ValueError(f"right must be in [0, n], got {right!r} of {n!r}")
    z = float(special.ndtri(0.5 + LEVEL / 2))
    centre = (right + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * math.sqrt(right * (n - right) / n + z * z / 4)
    low, high = 0.0 if right == 0 else centre - half, 1.0 if right == n else centre + half
    return Interval(value=right / n, low=low, high=high, level=LEVEL)


def draws_interval(value: float, draws: Any) -> Interval:
    """Equal-tailed 95 % quantiles of draws; nan draws (a quantity not defined) are left out."""
    known = np.asarray(draws, dtype=np.float64)
    known = known[~np.isnan(known)]
    if known.size == 0:
        return Interval(value=value, low=math.nan, high=math.nan, level=LEVEL)
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value=value, low=float(low), high=float(high), level=LEVEL)


def mean_interval(values: Sequence[float] | FloatArray) -> Interval:
    """A mean with Student's interval; a single value has no interval but itself."""
    n = len(values)
    mean = math.fsum(values) / n
    spread = float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else 0.0
    half = float(special.stdtrit(max(1, n - 1), 0.5 + LEVEL / 2)) * spread
    return Interval(value=mean, low=mean - half, high=mean + half, level=LEVEL)


def share_interval(shares: Sequence[float] | FloatArray) -> Interval:
    """A mean of shares in [0, 1], one a question: Wilson's interval where all are 0 or 1, Student's
    else, cut to [0, 1]."""
    values = np.asarray(shares, dtype=np.float64)
    if np.isin(values, (0, 1)).all():
        return wilson(int(values.sum()), len(values))
    mean = mean_interval(values)
    return Interval(value=mean.value, low=max(0.0, mean.low), high=min(1.0, mean.high))


def share_saved(
    first: Sequence[float] | FloatArray, second: Sequence[float] | FloatArray
) -> Interval | None:
    """1 - mean(first) / mean(second), paired, by the delta method; None where second is all 0."""
    below = math.fsum(second) / len(second)
    if below == 0:
        return None
    ratio = math.fsum(first) / len(first) / below
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return mean_interval(1 - ratio + (ratio * y - x) / below)


def adjusted_wald(
    only_first: int, only_second: int, n: int, level: float = LEVEL
) -> tuple[float, float]:
    """Interval of a difference of paired shares with one question added to each discordant cell
    (Bonett and Price 2012): holds its level where few questions or none differ."""
    z = float(special.ndtri(0.5 + level / 2))
    one, other = (only_first + 1) / (n + 2), (only_second + 1) / (n + 2)
    half = z * math.sqrt((one + other - (one - other) ** 2) / (n + 2))
    return max(-1.0, one - other - half), min(1.0, one - other + half)
