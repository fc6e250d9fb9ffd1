"""Paired comparisons against published figures, exact enumeration and simulated coverage."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pipeline.statistics.paired import (
    Difference,
    holm,
    mcnemar,
    mcnemar_power,
    paired_difference,
    pairs_needed,
)


@pytest.mark.parametrize(
    ("only_first", "only_second", "p_value"),
    [
        (6, 16, 0.0525),  # Fagerland, Lydersen and Laake (2013), exact conditional
        (1, 7, 0.0703),  # their airway data
        (0, 0, 1.0),
        (5, 0, 0.0625),
    ],
)
def test_mcnemar_is_the_exact_binomial_test_of_the_discordant_pairs(
    only_first: int, only_second: int, p_value: float
) -> None:
    """Published and hand-computed two-sided p-values."""
    assert mcnemar(only_first, only_second) == pytest.approx(p_value, abs=5e-5)


def test_thirty_questions_need_six_to_none_for_a_verdict() -> None:
    """On AIME's 30 questions 5 against 0 is not significant at 5 %, 6 against 0 is."""

    assert mcnemar(5, 0) > 0.05
    assert mcnemar(6, 0) < 0.05


@pytest.mark.parametrize(
    ("pairs", "difference", "discordant"), [(30, 0.3, 0.4), (200, 0.05, 0.12), (470, 0.05, 0.15)]
)
def test_the_power_of_mcnemar_s_test_is_that_of_simulated_comparisons(
    pairs: int, difference: float, discordant: float
) -> None:
    """20,000 simulated data sets, each tested: the share that is called in the true direction."""
    first, second = (discordant + difference) / 2, (discordant - difference) / 2
    table = np.random.default_rng(7).multinomial(
        pairs, [first, second, 1 - discordant], size=20_000
    )
    kinds, times = np.unique(table[:, :2], axis=0, return_counts=True)
    called = [won > lost and mcnemar(int(won), int(lost)) < 0.05 for won, lost in kinds]
    power = mcnemar_power(pairs, difference, discordant)

    assert power == pytest.approx(np.average(called, weights=times), abs=0.012)


def test_questions_for_a_power_are_the_first_that_reach_it() -> None:
    """One question less does not; one-sided discordance needs fewest; a difference must be
    possible."""
    needed = pairs_needed(0.05, 0.12)

    assert mcnemar_power(needed, 0.05, 0.12) >= 0.8 > mcnemar_power(needed - 1, 0.05, 0.12)
    assert pairs_needed(1.0, 1.0) == 6
    assert pairs_needed(0.05, 0.05) < needed < pairs_needed(0.05, 0.3)
    with pytest.raises(ValueError, match="difference <= discordant"):
        pairs_needed(0.2, 0.1)


def test_a_question_is_one_cluster_however_many_draws_it_has() -> None:
    """Doubling every draw of every question changes neither value nor interval nor p-value."""
    rng = np.random.default_rng(0)
    first = {q: list(rng.integers(0, 2, 4)) for q in range(30)}
    second = {q: list(rng.integers(0, 2, 3)) for q in range(30)}
    once = paired_difference(first, second, seed=1)
    twice = paired_difference(
        {q: v * 2 for q, v in first.items()}, {q: v * 2 for q, v in second.items()}, seed=1
    )

    assert once == twice
    assert once.value == pytest.approx(
        np.mean([np.mean(first[q]) - np.mean(second[q]) for q in first])
    )
    assert once.n_questions == 30


def test_the_p_value_is_that_of_all_sign_flips() -> None:
    """Seven questions: the share of the 128 sign patterns at least as extreme."""
    differences = [0.5, -0.25, 1.0, 0.75, 0.0, 0.5, 0.25]
    observed = abs(sum(differences))
    exact = np.mean(
        [
            abs(np.dot(signs, differences)) >= observed - 1e-12
            for signs in product([-1, 1], repeat=7)
        ]
    )
    found = paired_difference(
        {i: [d] for i, d in enumerate(differences)},
        {i: [0.0] for i in range(7)},
        seed=3,
        draws=40_000,
    )

    assert found.p_value == pytest.approx(exact, abs=0.005)


def test_equal_strategies_differ_by_nothing() -> None:
    """The same values on both sides: zero, an interval of no width, p = 1."""
    values = {i: [float(i)] for i in range(5)}

    assert paired_difference(values, values, seed=0, draws=50) == Difference(
        value=0.0, low=0.0, high=0.0, level=0.95, p_value=1.0, n_questions=5, draws=50, seed=0
    )
    assert paired_difference({1: [1.0]}, {1: [0.0]}, seed=0, draws=50).low == 1.0


def coverage(runs: int, draws: int) -> float:
    """Share of intervals that hold the true difference of right shares, 30 questions of 2 draws."""
    rng = np.random.default_rng(8)
    covered = 0
    for seed in range(runs):
        first_p, second_p = rng.beta(4, 2, 30), rng.beta(3, 3, 30)
        first = rng.binomial(2, first_p) / 2
        second = rng.binomial(2, second_p) / 2
        found = paired_difference(
            dict(enumerate(first[:, None])),
            dict(enumerate(second[:, None])),
            seed=seed,
            draws=draws,
        )
        covered += found.low <= 4 / 6 - 3 / 6 <= found.high
    return covered / runs


def test_the_bootstrap_covers_about_95_percent() -> None:
    """1,000 runs, up to their own error of 0.7 % and the shape of so few questions."""

    assert coverage(1_000, 400) == pytest.approx(0.95, abs=0.02)


@pytest.mark.slow
def test_the_bootstrap_covers_95_percent_of_10_000_runs() -> None:
    """95 % +- 1 %."""

    assert coverage(10_000, 2_000) == pytest.approx(0.95, abs=0.01)


def test_differences_of_tokens_are_as_wide_as_student_s_t() -> None:
    """For 30 normal differences the interval is that of the t-test within a tenth."""
    tokens = np.random.default_rng(4).normal(1_000, 300, 30)
    found = paired_difference(
        dict(enumerate(tokens[:, None])), {i: [0.0] for i in range(30)}, seed=0
    )
    t = stats.ttest_1samp(tokens, 0).confidence_interval(0.95)

    assert (found.low, found.high) == pytest.approx((t.low, t.high), rel=0.02)
    assert found.high - found.low == pytest.approx(t.high - t.low, rel=0.1)


def test_holm_gives_the_textbook_adjustment() -> None:
    """Four tests: 0.005 x 4, 0.01 x 3, then 0.03 x 2 carried over to 0.04."""
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})

    assert found == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert list(found) == ["a", "b", "c", "d"]
    assert holm({}) == {}


@given(st.dictionaries(st.integers(), st.floats(0, 1), max_size=8))
def test_holm_lies_between_no_correction_and_bonferroni(p_values: dict[int, float]) -> None:
    """Never below the raw p, never above Bonferroni, in the same order."""
    found = holm(p_values)

    for key, p in p_values.items():
        assert p <= found[key] <= min(1.0, len(p_values) * p)
    by_raw = sorted(p_values, key=lambda key: p_values[key])
    assert [found[key] for key in by_raw] == sorted(found.values())


def test_what_cannot_be_paired_is_refused() -> None:
    """Other questions, none at all, one without a value, a p-value out of range."""
    with pytest.raises(ValueError, match=r"^first and second must hold the same questions, got 2"):
        paired_difference({1: [1.0]}, {1: [1.0], 2: [0.0]}, seed=0)
    with pytest.raises(ValueError, match=r"^first and second must hold at least one question"):
        paired_difference({}, {}, seed=0)
    with pytest.raises(ValueError, match=r"^second must hold a value for every question.*of 7$"):
        paired_difference({7: [1.0]}, {7: []}, seed=0)
    with pytest.raises(ValueError, match=r"^p_values must be in \[0, 1\], got 1.5 for 'x'$"):
        holm({"x": 1.5})


def test_a_difference_that_is_not_known_is_not_significant() -> None:
    """A value that is no number has no difference and no small p-value."""
    found = paired_difference({1: [math.nan], 2: [1]}, {1: [0], 2: [0]}, seed=0, draws=100)

    assert math.isnan(found.value)
    assert found.p_value == 1
