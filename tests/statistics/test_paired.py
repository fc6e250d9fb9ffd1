"""Paired comparisons against published figures and simulated power."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.statistics.paired import (
    holm,
    mcnemar,
    mcnemar_power,
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


def test_a_p_value_outside_of_its_range_is_refused() -> None:
    """By name."""
    with pytest.raises(ValueError, match=r"^p_values must be in \[0, 1\], got 1.5 for 'x'$"):
        holm({"x": 1.5})
