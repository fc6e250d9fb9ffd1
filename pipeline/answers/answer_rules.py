"""Which of the drawn completions is the answer: a fold that every strategy shares.

A strategy says on which completions its answer rests (`Stop.rounds`); a rule picks among them. The
same completions can thus be read by every rule, and gains from selection stay apart from gains
from stopping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.answers.own_rules import NO_CHOICE, OwnRule
from pipeline.answers.voting import Cluster, clusters, leader
from pipeline.core.plugins import short_name
from pipeline.core.protocol import Completion, Observation, Stop

_LEAST_ENTROPY = 1e-10


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
    CONFIDENCE_WEIGHTED_VOTE = "confidence_weighted_vote"
    """As `VOTE`, each completion weighing its mean token confidence
    (DeepConf, arXiv 2508.15260)."""
    INVERSE_ENTROPY_VOTE = "inverse_entropy_vote"
    """As `VOTE`, each completion weighing 1 / max(H, 1e-10) with H its mean token entropy
    (arXiv 2511.02309)."""

    @property
    def needs_score(self) -> bool:
        """Whether the rule reads verifier scores."""
        return self in (AnswerRule.PRM_ARGMAX, AnswerRule.PRM_WEIGHTED_VOTE)

    @property
    def needs_logprobs(self) -> bool:
        """Whether the rule reads log-probabilities (``science.generator.logprobs``)."""
        return self in (AnswerRule.CONFIDENCE_WEIGHTED_VOTE, AnswerRule.INVERSE_ENTROPY_VOTE)

    def weight(self, completion: Completion) -> float | None:
        """What a completion weighs, >= 0; None where it has not what the rule reads."""
        match self:
            case AnswerRule.LAST | AnswerRule.VOTE:
                return 1.0
            case AnswerRule.PRM_ARGMAX | AnswerRule.PRM_WEIGHTED_VOTE:
                return completion.score
            case AnswerRule.CONFIDENCE_WEIGHTED_VOTE:
                return completion.token_confidence
            case AnswerRule.INVERSE_ENTROPY_VOTE:
                entropy = completion.token_entropy
                return None if entropy is None else 1.0 / max(entropy, _LEAST_ENTROPY)


Rule = AnswerRule | OwnRule
"""A shipped rule or a user's own; both have a `value`, which names columns."""

RULES: tuple[Rule, ...] = tuple(AnswerRule)
"""Those that every run reports, whatever its configuration adds."""


def rule_named(name: str) -> Rule:
    """The rule of a strategy's ``default_rule``: a shipped one, or ``package.module:name``."""
    if name in set(AnswerRule):
        return AnswerRule(name)
    return OwnRule(short_name(name), name)


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


def apply(rule: Rule, completions: Sequence[Observation], stop: Stop) -> Chosen | None:
    """Choose the answer of a stopped question.

    Args:
        rule: how to choose.
        completions: what was drawn, in request order over the question. Failures hold their places
            and are never chosen.
        stop: its rounds are positions in `completions`; only those take part.

    Returns:
        The choice, or None where the rule reads something (scores, log-probabilities) that no
        completion has, or a user's own raised. A completion without it takes no part.

    Raises:
        IndexError: if a round of `stop` is not a position in `completions`.
        ConfigError: where the code of a user's own rule cannot be imported.
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
    if not drawn:  # a run that recorded no log-probabilities says nothing under their rules
        return None if rule.needs_logprobs else NOTHING
    if isinstance(rule, OwnRule):
        return _own(rule, drawn)
    weighed = [(p, c, w) for p, c in drawn if (w := rule.weight(c)) is not None]
    if not weighed:
        return None
    match rule:
        case AnswerRule.LAST:
            position, last, _ = weighed[-1]
            return Chosen(answer=last.answer, position=position)
        case AnswerRule.PRM_ARGMAX:
            candidates = [each for each in weighed if each[1].answer is not None] or weighed
            position, best, _ = max(candidates, key=lambda candidate: candidate[2])
            return Chosen(answer=best.answer, position=position)
        case _:
            votes = clusters([c.answer for _, c, _ in weighed], [w for *_, w in weighed])
    return _elected(votes, [position for position, *_ in weighed])


def _own(rule: OwnRule, drawn: Sequence[tuple[int, Completion]]) -> Chosen | None:
    read = [each for each in drawn if rule.reads(each[1])]
    if not read:
        return None
    chosen = rule.choose([completion for _, completion in read])
    if chosen is None or chosen == NO_CHOICE:
        return None if chosen is None else NOTHING
    position, completion = read[chosen]
    return Chosen(answer=completion.answer, position=position)


def _elected(votes: Sequence[Cluster], positions: Sequence[int]) -> Chosen:
    winner = leader(votes)
    if winner is None:
        return NOTHING
    return Chosen(answer=winner.answer, position=positions[winner.members[0]])
