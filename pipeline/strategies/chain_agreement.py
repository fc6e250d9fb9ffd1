"""Chains that stop once their own answers agree: by votes, or by votes and scores.

They draw the rounds that MR-Thinking draws, in the same order and with the same seeds, so one pool
of chains replays them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.answers.voting import clusters, forms, top_two
from pipeline.core.protocol import Decisions, Question, Statistics, Stop, StopReason, Strategy
from pipeline.statistics.agreement import VOTE, AgreementWeights, agreement
from pipeline.strategies.self_consistency import p_majority_lasts
from pipeline.strategies.sequential import Revisions, check_budget, check_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainASC(Strategy):
    """Revise until P(Beta(v1+1, v2+1) > 1/2) >= `threshold`, at most `n` rounds, and vote: the test
    of Adaptive-Consistency (arXiv 2305.11860) with the rounds of one chain as voters.

    v1 and v2 are the votes of the two largest clusters of answers; rounds without an answer do not
    vote. A unanimous chain stops after its 4th round under the default threshold. It needs no
    verifier, no labels, no a and b.
    """

    kind: ClassVar[str] = "chain_asc"
    default_rule: ClassVar[str] = "vote"
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Completions a question at most, >= 1."""
    threshold: float = 0.95
    """Probability that the majority must reach, in [0, 1]."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_unit("threshold", self.threshold)

    def decide(self, question: Question, statistics: Statistics | None = None) -> Decisions:
        """Revise until the majority is likely to last or the budget is spent."""
        chain = Revisions(question, self)
        reason = StopReason.BUDGET
        while len(chain.completions) < self.n:
            if (yield from chain.draw(score=self.score)) is None:
                reason = StopReason.FAILED
                break
            v1, v2 = top_two(clusters(chain.answers))
            if v1 > 0 and p_majority_lasts(v1, v2) >= self.threshold:
                reason = StopReason.AGREED
                break
        return Stop(reason=reason, rounds=tuple(range(len(chain.completions))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agree(Strategy):
    """Revise until P(the leading answer is right) >= `tau` or ASC's test says `vote_threshold`.

    The probability that each distinct answer of the chain is right is a conditional logit in its
    votes and scores (`pipeline.statistics.agreement`); its weights are fitted on labelled questions
    by ``jobs.train``. The stop rests on the rounds that gave the leading answer, so every answer
    rule returns it.
    """

    kind: ClassVar[str] = "agree"
    default_rule: ClassVar[str] = "vote"
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Completions a question at most, >= 1."""
    tau: float = 0.95
    """Probability of being right that is enough, in [0, 1]."""
    vote_threshold: float = 0.99
    """P(Beta(v1+1, v2+1) > 1/2) that is enough whatever the weights say, in [0, 1]."""
    weights: AgreementWeights | None = None
    """Of votes and scores; in a configuration inline, or the file that ``jobs.train`` wrote. None:
    the answer is the vote's and `vote_threshold` alone stops, as `chain_asc` does. A completion
    without a score counts as one of 1/2."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_unit("tau", self.tau)
        check_unit("vote_threshold", self.vote_threshold)

    def decide(self, question: Question, statistics: Statistics | None = None) -> Decisions:
        """Revise until one answer is probably right or the budget is spent."""
        chain = Revisions(question, self)
        reason, leading, form = StopReason.BUDGET, -1, list[int]()
        while len(chain.completions) < self.n:
            if (yield from chain.draw(score=self.score)) is None:
                reason = StopReason.FAILED
                break
            form = forms(chain.answers)
            scores = [np.nan if c.score is None else c.score for c in chain.completions]
            found = agreement(np.array([form]), np.array([scores]), self.weights or VOTE)
            leading = int(found.leading_QT[0, -1])
            if leading < 0:
                continue
            if self.weights is not None and found.probability_QT[0, -1] >= self.tau:
                reason = StopReason.CONFIDENT
                break
            if found.lasts_QT[0, -1] >= self.vote_threshold:
                reason = StopReason.AGREED
                break
        # where nothing has an answer, the stop rests on all rounds, and every rule finds none
        rounds = tuple(round for round, number in enumerate(form) if number == leading)
        return Stop(reason=reason, rounds=rounds)
