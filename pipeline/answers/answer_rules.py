"""Which of the drawn completions is the answer: a fold that every strategy shares.

A strategy says on which completions its answer rests (`Stop.rounds`); a rule picks among them. The
same completions can thus be read by every rule, and gains from selection stay apart from gains
from stopping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from pipeline.answers.voting import Cluster, clusters, leader
from pipeline.core.protocol import Completion, Observation, Stop


class AnswerRule(StrEnum):
    """How the answer is chosen among the completions that a stop rests on."""

    LAST = "last"
    """The last completion, answered or not."""
    PRM_ARGMAX = "prm_argmax"
    """The highest verifier score, the first on ties. A completion without an answer is wrong for
    certain, so it is chosen only where no scored completion has one."""
    VOTE = "vote"
    """The largest cluster of equal canonical answers, the first seen on ties; completions without
    an answer do not vote."""
    PRM_WEIGHTED_VOTE = "prm_weighted_vote"
    """As `VOTE`, each completion weighing its verifier score."""

    @property
    def needs_score(self) -> bool:
        """Whether the rule reads verifier scores."""
        return self in (AnswerRule.PRM_ARGMAX, AnswerRule.PRM_WEIGHTED_VOTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The answer of a question under one rule."""

    answer: str | None
    """None where no completion could give one: counts as wrong."""
    position: int | None
    """Of the completion it is taken from, in request order over the question; for a vote the first
    of the winning cluster; None where there is none."""


NOTHING = Chosen(answer=None, position=None)
"""What is chosen where there is nothing to choose from: an answer that counts as wrong."""


def apply(rule: AnswerRule, completions: Sequence[Observation], stop: Stop) -> Chosen | None:
    """Choose the answer of a stopped question.

    Args:
        rule: how to choose.
        completions: what was drawn, in request order over the question. Failures hold their places
            and are never chosen.
        stop: its rounds are positions in `completions`; only those take part.

    Returns:
        The choice, or None where the rule needs scores and no completion has one. A completion
        without a score takes no part in the rules that need one.

    Raises:
        IndexError: if a round of `stop` is not a position in `completions`.
    """
    drawn: list[tuple[int, Completion]] = []
    for position in stop.rounds:
        if not 0 <= position < len(completions):
            raise IndexError(
                f"stop.rounds must be in [0, {len(completions)}), the completions drawn, "
                f"got {position!r}"
            )
        observation = completions[position]
        if isinstance(observation, Completion):
            drawn.append((position, observation))
    if not drawn:
        return NOTHING
    if rule.needs_score:
        drawn = [(position, c) for position, c in drawn if c.score is not None]
        if not drawn:
            return None
    match rule:
        case AnswerRule.LAST:
            position, last = drawn[-1]
            return Chosen(answer=last.answer, position=position)
        case AnswerRule.PRM_ARGMAX:
            candidates = [(p, c) for p, c in drawn if c.answer is not None] or drawn
            position, best = max(candidates, key=lambda candidate: _score(candidate[1]))
            return Chosen(answer=best.answer, position=position)
        case AnswerRule.VOTE:
            votes = clusters([c.answer for _, c in drawn])
        case AnswerRule.PRM_WEIGHTED_VOTE:
            votes = clusters([c.answer for _, c in drawn], [_score(c) for _, c in drawn])
        case _:
            assert_never(rule)
    return _elected(votes, [position for position, _ in drawn])


def _elected(votes: Sequence[Cluster], positions: Sequence[int]) -> Chosen:
    winner = leader(votes)
    if winner is None:
        return NOTHING
    return Chosen(answer=winner.answer, position=positions[winner.members[0]])


def _score(completion: Completion) -> float:
    assert completion.score is not None  # the caller has left the unscored ones out
    return completion.score
