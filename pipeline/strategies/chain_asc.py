"""ASC's stopping test on the answers of a revision chain: no verifier, no labels, no a and b.

Adaptive-Consistency (arXiv 2305.11860) draws independent samples until their majority is likely to
last. Here the voters are the rounds of one chain of revisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pipeline.answers.voting import clusters, top_two
from pipeline.core.decoding import Decoding
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import (
    Action,
    Observation,
    Question,
    Statistics,
    StopReason,
)
from pipeline.strategies.asc import p_majority_lasts
from pipeline.strategies.revisions import Revisions, ask_again, ask_first, stop, tell
from pipeline.strategies.sequential import check_budget, check_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainASC:
    """Revise until P(Beta(v1+1, v2+1) > 1/2) >= `threshold`, at most `n` rounds, and vote.

    v1 and v2 are the votes of the two largest clusters of answers; rounds without an answer do not
    vote. A unanimous chain stops after its 4th round under the default threshold.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "chain_asc"
    default_rule: ClassVar[str] = "vote"
    needs_score: ClassVar[bool] = False
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Completions a question at most, >= 1."""
    threshold: float = 0.95
    """Probability that the majority must reach, in [0, 1]."""
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score: bool = True
    """Whether completions are scored by the verifier; the decisions need no score."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_unit("threshold", self.threshold)

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[Revisions, Action]:
        """Ask the plain question."""
        return ask_first(question, self)

    def step(
        self, state: Revisions, observations: Sequence[Observation]
    ) -> tuple[Revisions, Action]:
        """Stop where the majority is likely to last or the budget is spent, else revise."""
        told = tell(state, observations)
        if told is None:
            return stop(state, StopReason.FAILED)
        v1, v2 = top_two(clusters(told.answers))
        if v1 > 0 and p_majority_lasts(v1, v2) >= self.threshold:
            return stop(told, StopReason.AGREED)
        if told.drawn >= self.n:
            return stop(told, StopReason.BUDGET)
        return ask_again(told, observations[0], self)
