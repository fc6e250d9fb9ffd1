"""Fronts: what a hull is, that choosing never sees what is judged, and what is compared how."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pipeline.statistics.fronts import (
    Family,
    along,
    at_equal_accuracy,
    budgets_between,
    fronts,
    hull,
    interval_of,
    mean_over,
)

POINTS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 20)), min_size=1, max_size=12).map(
    lambda found: (np.array([c for c, _ in found], float), np.array([a for _, a in found]) / 20)
)
QUESTIONS = 12
BUDGETS = budgets_between(1.0, 40.0)


@st.composite
def families(draw: st.DrawFn, name: str = "family") -> Family:
    """A few settings over the same questions, some answers ungraded."""
    size = (draw(st.integers(1, 5)), QUESTIONS)
    right = draw(arrays(np.int8, size, elements=st.sampled_from([0, 1]))).astype(float)
    tokens = draw(arrays(np.int16, size, elements=st.integers(1, 40))).astype(float)
    return Family(
        name=name,
        settings=tuple(f"setting {s}" for s in range(size[0])),
        right_SQ=right,
        tokens_SQ=tokens,
    )


HALVES = np.arange(QUESTIONS) % 2


@given(POINTS)
def test_a_hull_rises_and_bends_down(points: tuple[Any, Any]) -> None:
    """Along it cost and accuracy rise strictly, and what one more token brings falls strictly."""
    cost, accuracy = points
    kept = hull(cost, accuracy)
    steps = np.diff(cost[kept]), np.diff(accuracy[kept])
    assert (steps[0] > 0).all()
    assert (steps[1] > 0).all()
    assert (np.diff(steps[1] / steps[0]) < 0).all()


@given(POINTS)
def test_no_setting_lies_above_a_hull(points: tuple[Any, Any]) -> None:
    """It begins at the best of the cheapest settings and ends at the most accurate; every setting,
    and so every mixture, is at most as accurate as the hull at its cost."""
    cost, accuracy = points
    kept = hull(cost, accuracy)
    assert cost[kept[0]] == cost.min()
    assert accuracy[kept[0]] == accuracy[cost == cost.min()].max()
    assert accuracy[kept[-1]] == accuracy.max()
    assert (accuracy <= along(cost[kept], accuracy[kept], cost) + 1e-12).all()


def test_settings_that_nobody_can_judge_are_on_no_hull() -> None:
    """nan is no accuracy."""
    assert hull(np.array([1.0, 2.0, 3.0]), np.array([np.nan, 0.5, np.nan])) == [1]


@given(family=families(), half=st.sampled_from([0, 1]))
@settings(max_examples=60, deadline=None)
def test_choosing_never_sees_the_half_that_is_judged(family: Family, half: int) -> None:
    """With every grade and cost of a half turned around, the settings picked for it stay."""
    mine = half == HALVES
    turned = Family(
        name=family.name,
        settings=family.settings,
        right_SQ=np.where(mine, 1 - family.right_SQ, family.right_SQ),
        tokens_SQ=np.where(mine, 41 - family.tokens_SQ, family.tokens_SQ),
    )
    before, after = fronts([family, turned], HALVES, BUDGETS, draws=1)
    assert before.picked[half] == after.picked[half]


@given(family=families(), seen=families())
@settings(max_examples=40, deadline=None)
def test_what_is_seen_chooses_and_what_is_judged_counts(family: Family, seen: Family) -> None:
    """Beliefs of a half's own are used to pick, those of the other half to judge."""
    several = min(len(family.settings), len(seen.settings))
    whole = Family(
        name="both",
        settings=family.settings[:several],
        right_SQ=family.right_SQ[:several],
        tokens_SQ=family.tokens_SQ[:several],
        seen_right_SQ=seen.right_SQ[:several],
        seen_tokens_SQ=seen.tokens_SQ[:several],
    )
    (front,) = fronts([whole], HALVES, BUDGETS, draws=1)
    for half in (0, 1):
        others, mine = half != HALVES, half == HALVES
        picked = list(front.picked[half])
        assert picked == hull(
            seen.tokens_SQ[:several, others].mean(axis=1),
            seen.right_SQ[:several, others].mean(axis=1),
        )
        judged = list(
            zip(
                family.tokens_SQ[:several, mine].mean(axis=1)[picked],
                family.right_SQ[:several, mine].mean(axis=1)[picked],
                strict=True,
            )
        )
        assert np.allclose(front.points[half], judged)


@given(family=families())
@settings(max_examples=40, deadline=None)
def test_swapping_the_halves_changes_nothing(family: Family) -> None:
    """Both are judged, and their mean is taken."""
    (one,) = fronts([family], HALVES, BUDGETS, draws=1)
    (other,) = fronts([family], 1 - HALVES, BUDGETS, draws=1)
    assert one.picked == other.picked[::-1]
    np.testing.assert_allclose(one.accuracy_DB[0], other.accuracy_DB[0])


@given(family=families())
@settings(max_examples=40, deadline=None)
def test_where_both_halves_are_alike_a_front_is_a_hull(family: Family) -> None:
    """Then nothing is lost by choosing elsewhere: it rises and bends down in tokens, in the data
    and in every mixture of budgets."""
    right, tokens = np.repeat(family.right_SQ, 2, axis=1), np.repeat(family.tokens_SQ, 2, axis=1)
    twice = Family(name="twice", settings=family.settings, right_SQ=right, tokens_SQ=tokens)
    (front,) = fronts([twice], np.arange(2 * QUESTIONS) % 2, BUDGETS, draws=1)
    accuracy = front.accuracy_DB[0]
    assert (np.diff(accuracy) >= -1e-12).all()
    inside = tokens.mean(axis=1).min() <= BUDGETS  # below the cheapest it is that one's accuracy
    slopes = np.diff(accuracy[inside]) / np.diff(BUDGETS[inside])
    assert (np.diff(slopes) <= 1e-9).all()


@given(family=families(), dearer=st.integers(0, 5), drop=arrays(np.bool_, QUESTIONS))
@settings(max_examples=60, deadline=None)
def test_a_dominated_family_is_never_ahead(family: Family, dearer: int, drop: Any) -> None:
    """Settings that are nowhere cheaper nor right where the others are wrong give no better front
    at any budget, and need no fewer tokens at equal accuracy, where both halves are alike."""
    right, tokens = np.repeat(family.right_SQ, 2, axis=1), np.repeat(family.tokens_SQ, 2, axis=1)
    better = Family(name="better", settings=family.settings, right_SQ=right, tokens_SQ=tokens)
    worse = Family(
        name="worse",
        settings=family.settings,
        right_SQ=np.where(np.repeat(drop, 2), 0.0, right),
        tokens_SQ=tokens + dearer,
    )
    one, other = fronts([better, worse], np.arange(2 * QUESTIONS) % 2, BUDGETS, draws=1)
    above = other.points[0][0][0] <= BUDGETS  # where the worse can be had at all
    assert (one.accuracy_DB[0] >= other.accuracy_DB[0] - 1e-12)[above].all()


@given(st.lists(st.floats(0, 1), min_size=len(BUDGETS), max_size=len(BUDGETS)))
def test_mean_over_budgets_lies_among_the_accuracies(values: list[float]) -> None:
    """It is a mean, that of a constant is the constant, and that of twice as much is twice it."""
    accuracy = np.array([values])
    mean = mean_over(accuracy, BUDGETS)[0]
    assert min(values) - 1e-9 <= mean <= max(values) + 1e-9
    assert mean_over(np.full_like(accuracy, 0.3), BUDGETS)[0] == pytest.approx(0.3)
    assert mean_over(2 * accuracy, BUDGETS)[0] == pytest.approx(2 * mean)


@given(st.lists(st.lists(st.integers(0, 20), min_size=9, max_size=9), min_size=2, max_size=2))
def test_tokens_at_equal_accuracy_are_symmetric_and_reach_it(values: list[list[int]]) -> None:
    """Turned around, so are the two numbers; no budget before has that accuracy."""
    budgets = np.geomspace(1, 256, 9)
    one, other = (np.array([own]) / 20 for own in values)
    mine, theirs, level = at_equal_accuracy(one, other, budgets)
    back = at_equal_accuracy(other, one, budgets)
    assert (mine[0], theirs[0], level[0]) == (back[1][0], back[0][0], back[2][0])
    assert level[0] == min(one.max(), other.max())
    for tokens, accuracy in ((mine[0], one[0]), (theirs[0], other[0])):
        there = np.interp(np.log(tokens), np.log(budgets), accuracy)
        cheapest = tokens == budgets[0]  # where it is passed already
        assert there == pytest.approx(level[0]) or (cheapest and there > level[0])
        assert (accuracy[budgets < tokens * (1 - 1e-9)] < level[0]).all()


@given(family=families(), other=families(name="other"))
@settings(max_examples=20, deadline=None)
def test_draws_are_seeded_paired_and_around_the_value(family: Family, other: Family) -> None:
    """The same seed gives the same draws whatever stands beside; a family against itself differs
    by nothing; the value lies within its interval."""
    alone = fronts([family], HALVES, BUDGETS, draws=20)[0]
    beside = fronts([other, family], HALVES, BUDGETS, draws=20)[1]
    np.testing.assert_array_equal(alone.accuracy_DB, beside.accuracy_DB)
    found = interval_of(mean_over(alone.accuracy_DB, BUDGETS))
    assert found.low <= found.value <= found.high
    none = interval_of(mean_over(alone.accuracy_DB - beside.accuracy_DB, BUDGETS))
    assert (none.low, none.value, none.high) == (0, 0, 0)


def test_intervals_cover_the_difference_of_two_families() -> None:
    """Over 40 made-up worlds of 200 questions the 95 % interval of the mean difference holds the
    true one, that of 20,000 questions, in at least 35."""
    held, n = 0, 200

    def world(rng: np.random.Generator, questions: int) -> list[Family]:
        hard = rng.beta(2, 1, questions)
        made = []
        for name, gains in (("one", (0.0, 0.1, 0.15)), ("other", (0.0, 0.05, 0.2))):
            right = rng.random((3, questions)) < np.minimum(hard + np.array(gains)[:, None], 1)
            tokens = np.repeat([[1.0], [4.0], [12.0]], questions, axis=1)
            made.append(
                Family(name=name, settings=("1", "4", "12"), right_SQ=right.astype(float),
                       tokens_SQ=tokens)
            )  # fmt: skip
        return made

    def difference(rng: np.random.Generator, questions: int) -> Any:
        both = fronts(world(rng, questions), np.arange(questions) % 2, BUDGETS,
                      draws=100 if questions == n else 1)  # fmt: skip
        return mean_over(both[0].accuracy_DB - both[1].accuracy_DB, BUDGETS)

    truth = float(difference(np.random.default_rng(1), 20_000)[0])
    for seed in range(40):
        found = interval_of(difference(np.random.default_rng(100 + seed), n))
        held += found.low <= truth <= found.high
    assert held >= 35
