"""Revise until one answer is probably right, by votes and verifier scores together.

The probability that each distinct answer of the chain is right is a conditional logit in its votes
and scores (`pipeline.statistics.agreement`); its weights are fitted on labelled questions by
``jobs.train``. Without weights only the votes decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.answers.voting import forms
from pipeline.core.decoding import Decoding
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import (
    Action,
    Observation,
    Question,
    Statistics,
    StopReason,
)
from pipeline.statistics.agreement import VOTE, AgreementWeights, agreement
from pipeline.strategies.revisions import Revisions, ask_again, ask_first, stop, tell
from pipeline.strategies.sequential import check_budget, check_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Agree:
    """Revise until P(the leading answer is right) >= `tau` or ASC's test says `vote_threshold`.

    The stop rests on the rounds that gave the leading answer, so every answer rule returns it.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "agree"
    default_rule: ClassVar[str] = "vote"
    needs_score: ClassVar[bool] = False
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Completions a question at most, >= 1."""
    tau: float = 0.95
    """Probability of being right that is enough, in [0, 1]."""
    vote_threshold: float = 0.99
    """P(Beta(v1+1, v2+1) > 1/2) that is enough whatever the weights say, in [0, 1]."""
    weights: AgreementWeights | None = None
    """Of votes and scores; in a configuration inline, or the file that ``jobs.train`` wrote. None:
    the answer is the vote's and `vote_threshold` alone stops, as `chain_asc` does."""
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score: bool = True
    """Whether completions are scored by the verifier; one without a score counts as 1/2."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_unit("tau", self.tau)
        check_unit("vote_threshold", self.vote_threshold)

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[Revisions, Action]:
        """Ask the plain question."""
        return ask_first(question, self)

    def step(
        self, state: Revisions, observations: Sequence[Observation]
    ) -> tuple[Revisions, Action]:
        """Weigh the answers; stop where one is probably right or the budget is spent."""
        told = tell(state, observations)
        failed = told is None
        told = told or state
        if not told.drawn:
            return stop(told, StopReason.FAILED)
        form = forms(told.answers)
        scores = [np.nan if score is None else score for score in told.scores]
        found = agreement(np.array([form]), np.array([scores]), self.weights or VOTE)
        leading = int(found.leading_QT[0, -1])
        # where nothing has an answer, the stop rests on all rounds, and every rule finds none
        rests_on = [r for r, number in enumerate(form) if number == leading]
        if failed:
            return stop(told, StopReason.FAILED, rests_on)
        probable = self.weights is not None and found.probability_QT[0, -1] >= self.tau
        if probable and leading >= 0:
            return stop(told, StopReason.CONFIDENT, rests_on)
        if found.lasts_QT[0, -1] >= self.vote_threshold and leading >= 0:
            return stop(told, StopReason.AGREED, rests_on)
        if told.drawn >= self.n:
            return stop(told, StopReason.BUDGET, rests_on)
        return ask_again(told, observations[0], self)
