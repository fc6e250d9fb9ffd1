"""Chains that stop once their own answers agree: by votes, or by votes and scores.

They draw the rounds that MR-Thinking draws, in the same order and with the same seeds, so one pool
of chains replays them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.answers.voting import clusters, forms, top_two
from pipeline.core.arrays import IntArray
from pipeline.core.errors import DataError
from pipeline.core.protocol import Stop, StopReason
from pipeline.statistics.agreement import (
    VOTE,
    Agreement,
    AgreementWeights,
    agreement,
    recent_leader,
    runs,
)
from pipeline.strategies.self_consistency import p_majority_lasts
from pipeline.strategies.sequential import Revisions, RevisionStrategy, check_budget, check_unit

NO_STOP_FLAG = (
    "every reply must have its stop flag recorded for stop_flag of settled, some have none: draw "
    "them with science.generator.stop_flag"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainASC(RevisionStrategy):
    """Revise until P(Beta(v1+1, v2+1) > 1/2) >= `threshold`, at most `n` rounds, and vote: the test
    of Adaptive-Consistency (arXiv 2305.11860) with the rounds of one chain as voters.

    v1 and v2 are the votes of the two largest clusters of answers; rounds without an answer do not
    vote. A unanimous chain stops after its 4th round under the default threshold. It needs no
    verifier, no labels, no a and b.
    """

    kind: ClassVar[str] = "chain_asc"

    n: int = 8
    """Completions a question at most, >= 1."""
    threshold: float = 0.95
    """Probability that the majority must reach, in [0, 1]."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_unit("threshold", self.threshold)

    def reason_to_stop(self, chain: Revisions) -> StopReason | None:
        """Whether the majority is likely enough to last."""
        v1, v2 = top_two(clusters(chain.answers))
        agrees = v1 > 0 and p_majority_lasts(v1, v2) >= self.threshold
        return StopReason.AGREED if agrees else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agree(RevisionStrategy):
    """Revise until P(the leading answer is right) >= `tau` or ASC's test says `vote_threshold`.

    The probability that each distinct answer of the chain is right is a conditional logit in its
    votes and scores (`pipeline.statistics.agreement`); its weights are fitted on labelled questions
    by ``jobs.train``. The stop rests on the rounds that gave the leading answer, so every answer
    rule returns it.
    """

    kind: ClassVar[str] = "agree"

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

    repeat: int | None = None
    """Equal answers in a row that are enough whatever the weights say, >= 2; None for never."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_unit("tau", self.tau)
        check_unit("vote_threshold", self.vote_threshold)
        check_repeat(self.repeat)

    def reason_to_stop(self, chain: Revisions) -> StopReason | None:
        """Whether one answer is probably right."""
        form, found = self._agreement(chain)
        if found.leading_QT[0, -1] < 0:
            return None
        if self.weights is not None and found.probability_QT[0, -1] >= self.tau:
            return StopReason.CONFIDENT
        repeats = self.repeat is not None and runs(form)[0, -1] >= self.repeat
        agrees = repeats or found.lasts_QT[0, -1] >= self.vote_threshold
        return StopReason.AGREED if agrees else None

    def stop(self, chain: Revisions, reason: StopReason) -> Stop:
        """The stop, on the rounds that gave the leading answer; where nothing has an answer, it
        rests on all rounds, and every rule finds none."""
        if not chain.completions:
            return Stop(reason=reason, rounds=())
        form, found = self._agreement(chain)
        rounds = np.flatnonzero(form[0] == found.leading_QT[0, -1])
        return Stop(reason=reason, rounds=tuple(rounds.tolist()))

    def _agreement(self, chain: Revisions) -> tuple[IntArray, Agreement]:
        """Numbers of the answers, (1, rounds), and how far they agree."""
        form = np.array([forms(chain.answers)])
        scores = [np.nan if c.score is None else c.score for c in chain.completions]
        return form, agreement(form, np.array([scores]), self.weights or VOTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(RevisionStrategy):
    """Revise until the last `repeat` answers are equal, one scores at least `score_at_least`, or
    the model itself asks for no further revision; the answer is that of the discounted vote.

    For chains whose changes die out it is the optimal rule at a constant belief (docs/math.md). A
    round without an answer breaks the run. With `repeat` null and `discount` 0 it only asks whether
    the verifier is satisfied with the last answer. The stop rests on the rounds that gave the
    elected answer, so every answer rule returns it.
    """

    kind: ClassVar[str] = "settled"

    n: int = 8
    """Completions a question at most, >= 1."""
    repeat: int | None = 3
    """Equal answers in a row that end a chain, >= 2; None for never."""
    score_at_least: float | None = None
    """Score of an answer that ends a chain, in [0, 1]; None for never."""
    stop_flag: bool = False
    """Whether a chain ends where the reply says so (``science.generator.stop_flag``)."""
    min_rounds: int = 1
    """Completions before the tests begin, >= 1."""
    discount: float = 0.8
    """Factor on earlier votes at every round with an answer, in [0, 1]: 1 is the plain vote, 0 the
    last answer."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_repeat(self.repeat)
        check_unit("discount", self.discount)
        if self.score_at_least is not None:
            check_unit("score_at_least", self.score_at_least)
        if self.min_rounds < 1:
            raise ValueError(f"min_rounds must be >= 1, got {self.min_rounds!r}")

    @property
    def needs_score(self) -> bool:
        """Only the test of scores does."""
        return self.score_at_least is not None

    @property
    def needs_stop_flag(self) -> bool:
        """As `stop_flag` says."""
        return self.stop_flag

    def reason_to_stop(self, chain: Revisions) -> StopReason | None:
        """Whether the chain has settled."""
        last, least = chain.completions[-1], self.score_at_least
        if self.stop_flag and last.says_stop is None:
            raise DataError(NO_STOP_FLAG)
        if len(chain.completions) < self.min_rounds or last.answer is None:
            return None
        if self.stop_flag and last.says_stop:
            return StopReason.CONFIDENT
        if least is not None and last.score is not None and last.score >= least:
            return StopReason.CONFIDENT
        run = runs(np.array([forms(chain.answers)]))[0, -1]
        return StopReason.AGREED if self.repeat is not None and run >= self.repeat else None

    def stop(self, chain: Revisions, reason: StopReason) -> Stop:
        """The stop, on the rounds that gave the elected answer."""
        return elected(chain, reason, self.discount)


def elected(chain: Revisions, reason: StopReason, discount: float) -> Stop:
    """A stop on the rounds that gave the answer with the greatest discounted vote; on all rounds
    where none has an answer."""
    form = forms(chain.answers)
    leader = int(recent_leader(np.array([form]), discount)[0, -1]) if form else -1
    return Stop(reason=reason, rounds=tuple(r for r, each in enumerate(form) if each == leader))


def check_repeat(repeat: int | None) -> None:
    """Refuse a run of fewer than two answers."""
    if repeat is not None and repeat < 2:
        raise ValueError(f"repeat must be >= 2 or null, got {repeat!r}")
