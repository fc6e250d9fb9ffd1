"""BEACON: the index is the Bayes-optimal one, and the strategy does what it says."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from pipeline.core.protocol import Failure, Stop, StopReason
from pipeline.replay.exact import drive
from pipeline.strategies.best_of_n import Beacon
from pipeline.theory.gaussian_search import LEAST, goes_on, search_index
from tests.generators import completion, question

SCORES = st.lists(st.floats(0, 1), min_size=LEAST, max_size=7)


def gain(z: Any, df: int) -> Any:
    """E (u - z)^+ in closed form."""
    return (df + z * z) / (df - 1) * stats.t.pdf(z, df) - z * stats.t.sf(z, df)


def test_with_one_draw_left_the_index_is_its_expected_gain() -> None:
    """Nothing can follow, so a draw is worth what it is expected to add to the best, by
    integration."""
    for n in (4, 7, 12):
        z_Z, index_Z = search_index(n)[-1]
        for z, index in list(zip(z_Z.tolist(), index_Z.tolist(), strict=True))[::12]:
            tail = functools.partial(lambda u, z, df: (u - z) * stats.t.pdf(u, df), z=z, df=n - 2)
            integrated, _ = integrate.quad(tail, z, np.inf)
            assert integrated == pytest.approx(gain(z, n - 2))
            assert index == pytest.approx(integrated, rel=0.02)


def test_with_two_draws_left_the_index_is_that_of_the_whole_tree() -> None:
    """At the index, stopping is worth as much as drawing once and then as is best, summed over the
    next draw."""
    n, k = 9, 7
    u = np.linspace(-80, 80, 40_001)
    r = np.sqrt((k + 2) * (k - 1 + u * u)) / (k + 1)
    z_Z, index_Z = search_index(n)[k - LEAST]
    for z, index in list(zip(z_Z.tolist(), index_Z.tolist(), strict=True))[::8]:
        new = (np.maximum(z, u) - u / (k + 1)) / r
        worth = r * np.maximum(0.0, gain(new, k) - index / r) * stats.t.pdf(u, k - 1)
        assert gain(z, k - 1) + np.trapezoid(worth, u) == pytest.approx(index, rel=0.02)


def test_a_larger_best_and_fewer_draws_left_are_worth_less() -> None:
    """The index falls in z, and rises with the draws that are left; it is never negative."""
    shallow, deep = search_index(8), search_index(24)
    for (z_Z, few_Z), (_, many_Z) in zip(shallow, deep, strict=False):
        assert (np.diff(few_Z) <= 1e-12).all()
        assert (many_Z >= few_Z - 1e-9).all()
        assert (few_Z >= 0).all()
        assert (np.diff(z_Z) > 0).all()


def test_it_beats_every_fixed_number_under_its_own_assumptions() -> None:
    """Where means and spreads differ from question to question, best less cost is higher than with
    any number of draws that is the same for all."""
    rng = np.random.default_rng(0)
    n, cost, questions = 24, 0.05, 3_000
    spread = np.exp(rng.normal(-0.5, 1.0, questions))
    drawn = rng.normal(0, 1, (questions, n)) * spread[:, None]
    stopped = []
    for values in drawn:
        k = LEAST
        while goes_on(values[:k].tolist(), cost, n):
            k += 1
        stopped.append(values[:k].max() - cost * k)
    fixed = [float((drawn[:, :k].max(axis=1) - cost * k).mean()) for k in range(LEAST, n + 1)]
    assert np.mean(stopped) > max(fixed) + 0.05


@given(scores=SCORES, cost=st.floats(0.001, 1), shift=st.floats(-5, 5), scale=st.floats(0.1, 10))
@settings(max_examples=60, deadline=None)
def test_only_differences_in_units_of_the_cost_count(
    scores: list[float], cost: float, shift: float, scale: float
) -> None:
    """Moved and stretched together with the cost, the same is decided, but for rounding; dearer
    draws never go on where cheaper ones stop."""
    if np.std(scores) < 1e-3:
        return
    moved = [shift + scale * score for score in scores]
    for near in (0.999, 1.001):
        if goes_on(scores, cost * near, 8) != goes_on(scores, cost, 8):
            return  # on the edge
    assert goes_on(moved, cost * scale, 8) == goes_on(scores, cost, 8)
    assert goes_on(scores, cost, 8) >= goes_on(scores, 2 * cost, 8)


def played(beacon: Beacon, scores: list[float | None]) -> tuple[int, Stop]:
    """Samples drawn and the stop, given scores; None fails."""
    told = iter(
        Failure(error="engine: lost") if score is None else completion("1", score)
        for score in scores
    )
    done = drive(beacon, question(0), lambda request: next(told))
    return len(done.completions), done.stop


def test_a_failed_sample_costs_budget_and_tells_nothing() -> None:
    """Three scores are waited for, and the stop rests on what was had."""
    drawn, stop = played(Beacon(n=8), [None, 0.4, 0.4, 0.4, 0.4])
    assert (drawn, stop.reason, stop.rounds) == (4, StopReason.CONFIDENT, (1, 2, 3))
    drawn, stop = played(Beacon(n=4), [None, None, 0.5, None])
    assert (drawn, stop.reason, stop.rounds) == (4, StopReason.BUDGET, (2,))
    assert played(Beacon(n=3), [None] * 3)[1].reason is StopReason.FAILED
