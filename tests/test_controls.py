"""Controls and bounds against enumeration and simulation."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.answers.answer_rules import AnswerRule
from pipeline.answers.voting import clusters, leader
from pipeline.report.counterfactuals import (
    best_of_n_expected,
    dealt_stops,
    majority_expected,
    oracle_stop,
    prefix_answers,
    random_stopping,
    subset_mean,
)
from tests.generators import answers, completion

CHAIN = [completion("1", 0.5), completion("2", 0.9), completion("1", 0.4), completion("3", 0.2)]


def test_prefix_answers_read_a_chain_under_every_rule() -> None:
    """Entry j is the answer after j + 1 completions: last, selected, and voted."""
    read = {
        rule: [None if c is None else c.answer for c in prefix_answers(rule, CHAIN)]
        for rule in AnswerRule
        if not rule.needs_logprobs  # of which this chain has none
    }

    assert read == {
        AnswerRule.LAST: ["1", "2", "1", "3"],
        AnswerRule.PRM_ARGMAX: ["1", "2", "2", "2"],
        AnswerRule.VOTE: ["1", "1", "1", "1"],
        AnswerRule.PRM_WEIGHTED_VOTE: ["1", "2", "1", "1"],
    }


@pytest.mark.parametrize(
    ("right", "drawn"),
    [([True, False], 1), ([False, False, True, True], 3), ([False, False], 2), ([], 0)],
)
def test_oracle_stops_at_the_first_right_round(right: list[bool], drawn: int) -> None:
    """All rounds are drawn where none is right."""
    assert oracle_stop(right) == drawn


def test_random_stopping_is_the_mean_over_all_permutations() -> None:
    """The exact value equals the mean over every way to deal three stops out."""
    values_QT = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    drawn = [1, 2, 3]
    dealt = [
        np.mean([values_QT[q, stop - 1] for q, stop in enumerate(order)])
        for order in permutations(drawn)
    ]

    assert random_stopping(values_QT, drawn) == (1.0, pytest.approx(np.mean(dealt)))


@pytest.mark.parametrize("drawn", [[1], [1, 0], [1, 4]])
def test_random_stopping_refuses_stops_outside_the_rounds(drawn: list[int]) -> None:
    """One stop a question, each a number of completions that there is."""
    with pytest.raises(ValueError, match=r"drawn must be 2 numbers in \[1, 3\], one a question"):
        random_stopping(np.zeros((2, 3)), drawn)


def test_dealt_stops_are_a_permutation_by_seed() -> None:
    """The same seed deals alike, and the budget stays what it was."""
    drawn = list(range(1, 21))

    assert dealt_stops(drawn, 3) == dealt_stops(drawn, 3) != dealt_stops(drawn, 4)
    assert sorted(dealt_stops(drawn, 3)) == drawn


POOLS = st.lists(st.tuples(answers(), st.sampled_from([0.1, 0.5, 0.9])), min_size=1, max_size=6)


@given(pool=POOLS, data=st.data())
@settings(max_examples=25, deadline=None)
def test_best_of_n_expectation_is_the_mean_over_all_subsets(
    pool: list[tuple[str | None, float]], data: st.DataObject
) -> None:
    """The closed form equals enumeration: answered first, then the value, then the position."""
    n = data.draw(st.integers(1, len(pool)))
    right = [answer == "1" for answer, _ in pool]
    won = [
        right[max(subset, key=lambda i: (pool[i][0] is not None, pool[i][1], -i))]
        for subset in combinations(range(len(pool)), n)
    ]

    assert best_of_n_expected(
        [value for _, value in pool], [answer is not None for answer, _ in pool], right, n
    ) == pytest.approx(np.mean(won))


@given(pool=st.lists(answers(), min_size=1, max_size=6), data=st.data())
@settings(max_examples=25, deadline=None)
def test_majority_expectation_is_the_mean_over_all_ordered_draws(
    pool: list[str | None], data: st.DataObject
) -> None:
    """The closed form equals the vote itself over every ordered draw, ties to the first seen."""
    n = data.draw(st.integers(1, len(pool)))
    won = []
    for draw in permutations(pool, n):
        winner = leader(clusters(draw))
        won.append(winner is not None and winner.answer == "1")

    assert majority_expected(pool, [answer == "1" for answer in pool], n) == pytest.approx(
        np.mean(won)
    )


def test_majority_expectation_is_exact_for_large_pools() -> None:
    """64 samples, all of them drawn: the vote of the pool itself, with two right answers of which
    neither leads alone."""
    pool = ["1"] * 30 + ["2"] * 33 + ["3"]

    assert majority_expected(pool, [answer == "1" for answer in pool], 64) == 0.0
    assert majority_expected(pool, [answer != "1" for answer in pool], 64) == 1.0
    assert majority_expected(pool, [answer == "1" for answer in pool], 1) == pytest.approx(30 / 64)


def test_subset_mean_agrees_with_the_closed_form_within_its_error() -> None:
    """A seeded Monte-Carlo mean of best-of-3, within four of its standard errors; n = k is sure."""
    values, right = [0.2, 0.9, 0.4, 0.7, 0.6], [True, False, True, False, True]

    def best(draw: tuple[int, ...]) -> float:
        return float(right[max(draw, key=lambda sample: values[sample])])

    found = subset_mean(best, 5, 3, draws=2_000, seed=1)
    exact = best_of_n_expected(values, [True] * 5, right, 3)

    assert found == subset_mean(best, 5, 3, draws=2_000, seed=1)
    assert 0 < found.standard_error < 0.012
    assert abs(found.mean - exact) < 4 * found.standard_error
    assert subset_mean(best, 5, 5, draws=2, seed=1).mean == 0.0


def test_arguments_out_of_range_are_named() -> None:
    """n beyond the samples, too few draws, and lists of different lengths."""
    with pytest.raises(ValueError, match=r"n must be in \[1, 2\]"):
        majority_expected(["1", "2"], [True, False], 3)
    with pytest.raises(ValueError, match=r"one entry a sample, got \[2, 2, 1\]"):
        best_of_n_expected([0.1, 0.2], [True, True], [True], 1)
    with pytest.raises(ValueError, match=r"n must be in \[1, 2\]"):
        subset_mean(lambda _: 0.0, 2, 0, draws=2, seed=0)
    with pytest.raises(ValueError, match="draws must be >= 2, got 1"):
        subset_mean(lambda _: 0.0, 2, 1, draws=1, seed=0)
