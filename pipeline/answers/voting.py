"""*Voting*: groups equal answers into clusters and finds the leading one.

Two answers are equal where their canonical forms are (`pipeline.answers.canonical`), an equivalence
relation; pairwise graders are neither symmetric nor transitive and take no part in votes. Clusters
stand in the order in which they were first seen, which also decides ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeline.answers import canonical
from pipeline.core.forms import is_json


@lru_cache(maxsize=16_384)  # strategies vote over the same answers again and again
def _key(answer: str) -> str:
    """What equal answers share; programs, JSON and calls of tools vote for their own text."""
    if is_json(answer):
        return answer
    program = "\n" in answer and "\\" not in answer
    return answer.strip() if program else canonical(answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Votes for one answer."""

    answer: str | None
    """As its first voter wrote it; None is the cluster of those without an answer."""
    members: tuple[int, ...]
    """Indices of the voters, ascending."""
    weight: float
    """The number of members, or the sum of their weights."""


def clusters(
    answers: Sequence[str | None],
    weights: Sequence[float] | None = None,
    *,
    as_written: bool = False,
    silent: bool = False,
) -> tuple[Cluster, ...]:
    """Group answers into clusters, in the order in which they were first seen.

    Args:
        answers: one a voter; None where there is no answer.
        weights: one a voter; 1 each where None.
        as_written: compare answers as strings and let None vote like any answer, as the code
            behind the paper's tables does. Otherwise canonical forms are compared and None does
            not vote.
        silent: let None vote like any answer among canonical forms too.

    Raises:
        ValueError: if `weights` are not one a voter.
    """
    if weights is not None and len(weights) != len(answers):
        raise ValueError(f"weights must be {len(answers)}, one an answer, got {len(weights)}")
    members: dict[str | None, list[int]] = {}
    for index, answer in enumerate(answers):
        if as_written or (silent and answer is None):
            members.setdefault(answer, []).append(index)
        elif answer is not None:
            members.setdefault(_key(answer), []).append(index)
    return tuple(
        Cluster(
            answer=answers[voters[0]],
            members=tuple(voters),
            weight=len(voters) if weights is None else sum(weights[voter] for voter in voters),
        )
        for voters in members.values()
    )


def forms(answers: Sequence[str | None]) -> list[int]:
    """The number of each answer among the distinct ones, in order of first appearance; -1 where
    there is no answer."""
    numbers: dict[str, int] = {}
    return [
        -1 if answer is None else numbers.setdefault(_key(answer), len(numbers))
        for answer in answers
    ]


def leader(votes: Sequence[Cluster]) -> Cluster | None:
    """The heaviest cluster, the first seen on ties; None where nobody voted."""
    return max(votes, key=lambda cluster: cluster.weight, default=None)


def top_two(votes: Sequence[Cluster]) -> tuple[int, int]:
    """How many votes the two largest clusters have, v1 >= v2; 0 for one that is not there."""
    v1, v2, *_ = (*sorted((len(cluster.members) for cluster in votes), reverse=True), 0, 0)
    return v1, v2
