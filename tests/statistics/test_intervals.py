"""Intervals against published figures, scipy and simulated coverage."""

import math

import numpy as np
import pytest
from scipy import stats

from pipeline.statistics.intervals import (
    draws_interval,
    wilson,
)


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_newcombe_s_published_intervals(
    right: int, n: int, low: float, high: float
) -> None:
    """Table I of Newcombe (1998), method 3, to its four digits."""
    found = wilson(right, n)

    assert (round(found.low, 4), round(found.high, 4)) == (low, high)
    assert found.value == right / n


@pytest.mark.parametrize(("right", "n"), [(0, 1), (1, 1), (16, 30), (30, 30), (448, 500)])
def test_wilson_agrees_with_scipy(right: int, n: int) -> None:
    """scipy's binomtest, at the ends of the range too."""
    theirs = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
    found = wilson(right, n)

    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_wilson_covers_95_percent_of_10_000_runs() -> None:
    """Over accuracies drawn uniformly, 95 % +- 1 % of intervals hold the truth at AIME's 30."""
    rng = np.random.default_rng(1)
    truth = rng.random(10_000)
    of_count = [wilson(right, 30) for right in range(31)]
    found = [of_count[right] for right in rng.binomial(30, truth)]
    held = [one.low <= p <= one.high for one, p in zip(found, truth, strict=True)]

    assert np.mean(held) == pytest.approx(0.95, abs=0.01)


def test_draws_that_are_not_defined_are_left_out() -> None:
    """Quantiles of the draws that are numbers; nan ends where there is none."""
    known = draws_interval(0.5, [0.0, math.nan, 1.0])
    none = draws_interval(0.5, [math.nan])

    assert (known.low, known.high) == pytest.approx((0.025, 0.975))
    assert math.isnan(none.low)
    assert math.isnan(none.high)


def test_counts_out_of_range_are_refused() -> None:
    """The error names the argument and shows what came."""
    with pytest.raises(ValueError, match=r"^n must be >= 1, got 0$"):
        wilson(0, 0)
    with pytest.raises(ValueError, match=r"^right must be in \[0, n\], got 31 of 30$"):
        wilson(31, 30)
