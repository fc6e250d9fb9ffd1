"""Votes: clusters, ties, weights, and those who do not vote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.answers.voting import Cluster, clusters, leader, top_two
from tests.generators import answers


def test_clusters_stand_in_the_order_first_seen() -> None:
    """Members are indices, the answer is as the first voter wrote it, None does not vote."""
    assert clusters(["2", None, "1", "2"]) == (
        Cluster(answer="2", members=(0, 3), weight=2),
        Cluster(answer="1", members=(2,), weight=1),
    )


def test_votes_compare_canonical_forms() -> None:
    """Two ways to write one number are one vote, where answers are not taken as written."""
    written = ["1{,}000", "1000"]

    assert [c.members for c in clusters(written)] == [(0, 1)]
    assert [c.members for c in clusters(written, as_written=True)] == [(0,), (1,)]


def test_no_answer_votes_where_answers_are_taken_as_written() -> None:
    """The code behind the paper's tables counts None like any answer."""
    votes = clusters([None, "1", None], as_written=True)

    assert leader(votes) == Cluster(answer=None, members=(0, 2), weight=2)
    assert leader(clusters([None, "1", None])) == Cluster(answer="1", members=(1,), weight=1)


@pytest.mark.parametrize(
    ("given_answers", "weights", "answer"),
    [
        (["1", "2"], None, "1"),
        (["2", "1", "1", "2"], None, "2"),
        (["1", "2", "2"], None, "2"),
        (["1", "2", "2"], [0.9, 0.4, 0.4], "1"),
        (["1", "2", "2"], [0.8, 0.4, 0.4], "1"),
        (["1", "2"], [0.0, 0.0], "1"),
    ],
)
def test_leader_is_the_heaviest_and_ties_go_to_the_first(
    given_answers: list[str], weights: list[float] | None, answer: str
) -> None:
    """Votes are summed; of equals the cluster seen first leads."""
    winner = leader(clusters(given_answers, weights))

    assert winner is not None
    assert winner.answer == answer


@given(st.lists(answers(), max_size=12))
def test_top_two_are_the_largest_counts(given_answers: list[str | None]) -> None:
    """v1 >= v2 are the largest of the counts by value."""
    counts = sorted((given_answers.count(a) for a in ("1", "2", "3")), reverse=True)

    assert top_two(clusters(given_answers)) == (counts[0], counts[1])
