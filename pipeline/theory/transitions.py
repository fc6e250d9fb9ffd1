"""Counting right and wrong answers that follow each other in a chain.

A label is True (right), False (wrong) or None (not known: ungraded, failed, not scored). A
transition counts only where both of its labels are known, so an ungraded answer takes the
transition into it and the one out of it from the counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import pairwise

Label = bool | None
QuestionKey = tuple[str, str]
"""(benchmark, question_id); an id is unique within its benchmark only."""


class Labels(StrEnum):
    """What "right" meant when transitions were counted."""

    GOLD = "gold"
    """The answer equals the gold answer."""
    SCORE = "score"
    """The verifier's score is high enough; no gold answer was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transitions:
    """How often each pair of labels followed each other; counts >= 0."""

    right_right: int = 0
    right_wrong: int = 0
    wrong_right: int = 0
    wrong_wrong: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise ValueError(f"{field.name} must be >= 0, got {getattr(self, field.name)!r}")

    def __add__(self, other: Transitions) -> Transitions:
        names = [field.name for field in fields(self)]
        return Transitions(**{n: getattr(self, n) + getattr(other, n) for n in names})

    @property
    def from_right(self) -> int:
        """Transitions that leave a right answer: the trials behind a."""
        return self.right_right + self.right_wrong

    @property
    def from_wrong(self) -> int:
        """Transitions that leave a wrong answer: the trials behind b."""
        return self.wrong_right + self.wrong_wrong

    @property
    def a(self) -> float:
        """Observed share of right -> wrong; nan where no right answer was left."""
        return self.right_wrong / self.from_right if self.from_right else math.nan

    @property
    def b(self) -> float:
        """Observed share of wrong -> right; nan where no wrong answer was left."""
        return self.wrong_right / self.from_wrong if self.from_wrong else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The labels of one chain of one question, by round."""

    benchmark: str
    question_id: str
    labels: tuple[Label, ...]
    level: str | None = None
    """Difficulty level of the question; None where the benchmark has none."""

    @property
    def key(self) -> QuestionKey:
        """(benchmark, question_id)."""
        return (self.benchmark, self.question_id)


def labels_of_verdicts(
    verdicts: Iterable[str | None], *, ungraded: Label = None
) -> tuple[Label, ...]:
    """Labels from recorded verdicts; None (a failed request) is not known.

    Args:
        verdicts: ``right``, ``wrong``, ``ungraded`` or None, by round.
        ungraded: label of an answer that could not be graded; False counts it as wrong, as the
            paper does.

    Raises:
        ValueError: at a verdict that is none of right, wrong, ungraded.
    """
    known = {"right": True, "wrong": False, "ungraded": ungraded, None: None}
    labels: list[Label] = []
    for position, verdict in enumerate(verdicts):
        if verdict not in known:
            raise ValueError(
                f"verdict {position} must be right, wrong, ungraded or None, got {verdict!r}"
            )
        labels.append(known[verdict])
    return tuple(labels)


def labels_of_scores(
    scores: Iterable[float | None], *, right_from: float = 0.5
) -> tuple[Label, ...]:
    """Labels from verifier scores: right where a score is at least `right_from`.

    Raises:
        ValueError: at a score outside [0, 1], nan included.
    """
    labels: list[Label] = []
    for position, score in enumerate(scores):
        if score is not None and not 0 <= score <= 1:
            raise ValueError(f"score {position} must be in [0, 1], got {score!r}")
        labels.append(None if score is None else score >= right_from)
    return tuple(labels)


def count(labels: Sequence[Label]) -> Transitions:
    """Transitions of one chain; those with an unknown end are left out."""
    pairs = [
        (before, after)
        for before, after in pairwise(labels)
        if before is not None and after is not None
    ]
    return Transitions(
        right_right=pairs.count((True, True)),
        right_wrong=pairs.count((True, False)),
        wrong_right=pairs.count((False, True)),
        wrong_wrong=pairs.count((False, False)),
    )


def total(counts: Iterable[Transitions]) -> Transitions:
    """The sum of counts."""
    return sum(counts, start=Transitions())


def count_by_question(chains: Iterable[Chain]) -> dict[QuestionKey, Transitions]:
    """Transitions of each question, all its chains together, in order of first appearance."""
    counted: dict[QuestionKey, Transitions] = {}
    for chain in chains:
        counted[chain.key] = counted.get(chain.key, Transitions()) + count(chain.labels)
    return counted


def count_by_round(chains: Iterable[Chain]) -> tuple[Transitions, ...]:
    """Entry r holds the transitions from round r to round r + 1."""
    counted: list[Transitions] = []
    for chain in chains:
        for r in range(len(chain.labels) - 1):
            if r == len(counted):
                counted.append(Transitions())
            counted[r] += count(chain.labels[r : r + 2])
    return tuple(counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionMeans:
    """a and b as means over questions, each question weighing the same (Section 4.2); biased."""

    a: float | None
    """None where no question ever left a right answer."""
    b: float | None
    """None where no question ever left a wrong answer."""
    n_a: int
    """Questions that say something on a."""
    n_b: int
    """Questions that say something on b."""


def average_over_questions(counts: Mapping[QuestionKey, Transitions]) -> QuestionMeans:
    """Average the questions' own a and b, leaving out those that say nothing.

    A question whose answers were never right says nothing on a. This is the paper's estimate for
    ^*, and it is inconsistent: chains of 8 rounds with a = 0.1, b = 0.25 and p0 = 0.6 give 0.155
    and 0.385 however many there are, since a question with one transition weighs as much as one
    with seven (streak selection, Miller and Sanjurjo 2018). Use `total`, whose shares tend to a
    and b.
    """
    shares_a = [counted.a for counted in counts.values() if counted.from_right]
    shares_b = [counted.b for counted in counts.values() if counted.from_wrong]
    return QuestionMeans(
        a=math.fsum(shares_a) / len(shares_a) if shares_a else None,
        b=math.fsum(shares_b) / len(shares_b) if shares_b else None,
        n_a=len(shares_a),
        n_b=len(shares_b),
    )
