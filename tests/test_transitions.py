"""Counting transitions: what counts, what does not, and that the ways of counting agree."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.theory.transitions import (
    Chain,
    Transitions,
    average_over_questions,
    count,
    count_by_question,
    count_by_round,
    labels_of_scores,
    labels_of_verdicts,
    total,
)

R, W, U = True, False, None
labels = st.lists(st.sampled_from([R, W, U]), max_size=12).map(tuple)
chains = st.lists(
    st.builds(
        Chain,
        benchmark=st.sampled_from(["aime24", "amc23"]),
        question_id=st.sampled_from(["1", "2", "3"]),
        labels=labels,
        level=st.sampled_from([None, "1", "5"]),
    ),
    max_size=8,
)


@pytest.mark.parametrize(
    ("chain", "counts"),
    [
        ((), (0, 0, 0, 0)),
        ((R,), (0, 0, 0, 0)),
        ((R, R, W, R, W, W), (1, 2, 1, 1)),
        ((R, U, R, R), (1, 0, 0, 0)),
        ((W, U, U, R, W), (0, 1, 0, 0)),
        ((U, U), (0, 0, 0, 0)),
    ],
)
def test_a_transition_counts_where_both_ends_are_known(
    chain: tuple[bool | None, ...], counts: tuple[int, int, int, int]
) -> None:
    """An ungraded answer takes the transition into it and the one out of it from the counts."""
    rr, rw, wr, ww = counts

    assert count(chain) == Transitions(
        right_right=rr, right_wrong=rw, wrong_right=wr, wrong_wrong=ww
    )


@given(chains)
def test_every_way_of_counting_adds_up_to_the_same_total(chains: list[Chain]) -> None:
    """Per question and round sum to the sum over chains."""
    expected = total(count(chain.labels) for chain in chains)

    assert total(count_by_question(chains).values()) == expected
    assert total(count_by_round(chains)) == expected
    assert expected.from_right + expected.from_wrong <= sum(
        max(0, len(chain.labels) - 1) for chain in chains
    )


def test_rounds_and_questions_are_told_apart() -> None:
    """Question 1 of two benchmarks is two questions; entry r is the step from round r."""
    one = Chain(benchmark="aime24", question_id="1", labels=(R, W, W), level="5")
    two = Chain(benchmark="amc23", question_id="1", labels=(W, R), level=None)
    right_wrong, wrong_right = Transitions(right_wrong=1), Transitions(wrong_right=1)
    wrong_wrong = Transitions(wrong_wrong=1)

    assert count_by_question([one, two]) == {
        ("aime24", "1"): right_wrong + wrong_wrong,
        ("amc23", "1"): wrong_right,
    }
    assert count_by_round([one, two]) == (right_wrong + wrong_right, wrong_wrong)


def test_labels_come_from_verdicts_or_from_scores() -> None:
    """Ungraded is unknown unless it is asked to count as wrong; a score is right from 0.5 on."""
    verdicts = ["right", "wrong", "ungraded", None]

    assert labels_of_verdicts(verdicts) == (R, W, U, U)
    assert labels_of_verdicts(verdicts, ungraded=False) == (R, W, W, U)
    assert labels_of_scores([0.5, 0.49, None, 1.0]) == (R, W, U, R)
    assert labels_of_scores([0.5, 0.9], right_from=0.8) == (W, R)


def test_labels_that_cannot_be_are_refused_by_position() -> None:
    """A verdict of another name, a score outside [0, 1], a negative count."""
    with pytest.raises(ValueError, match=r"^verdict 1 must be right, wrong.*got 'correct'$"):
        labels_of_verdicts(["right", "correct"])
    with pytest.raises(ValueError, match=r"^score 1 must be in \[0, 1\], got nan$"):
        labels_of_scores([0.5, math.nan])
    with pytest.raises(ValueError, match=r"^right_wrong must be >= 0, got -1$"):
        Transitions(right_wrong=-1)


def test_pooled_counts_tend_to_a_and_b_and_the_papers_average_does_not() -> None:
    """20,000 chains of 8 rounds with a 0.1, b 0.25, p0 0.6: pooled shares come within 0.005, the
    mean of questions' own shares tends to 0.155 and 0.385."""
    rng = np.random.default_rng(0)
    right = np.zeros((20_000, 8), bool)
    right[:, 0] = rng.random(20_000) < 0.6
    for r in range(1, 8):
        before = right[:, r - 1]
        right[:, r] = before != (rng.random(20_000) < np.where(before, 0.1, 0.25))
    counts = {("s", str(q)): count(labels) for q, labels in enumerate(right.tolist())}
    pooled, average = total(counts.values()), average_over_questions(counts)

    assert (pooled.a, pooled.b) == pytest.approx((0.1, 0.25), abs=0.005)
    assert (average.a, average.b) == pytest.approx((0.155, 0.385), abs=0.01)
