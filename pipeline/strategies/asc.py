"""ASC: self-consistency that ends once the majority is likely to last (arXiv 2305.11860)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from scipy.special import betainc

from pipeline.answers.voting import top_two
from pipeline.core.decoding import Decoding
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import (
    Action,
    Observation,
    Question,
    Statistics,
    StopReason,
)
from pipeline.strategies.samples import Profile, Samples, ask, stop_on_vote, tell, votes
from pipeline.strategies.sequential import check_budget, check_unit


def p_majority_lasts(v1: int, v2: int) -> float:
    """P(Beta(v1 + 1, v2 + 1) > 1/2) for the counts of the two largest clusters, v1 >= v2 >= 0.

    By the regularised incomplete beta function, which neither under- nor overflows for large
    counts: P(X > 1/2) = I_{1/2}(v2 + 1, v1 + 1).
    """
    return float(betainc(v2 + 1, v1 + 1, 0.5))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveConsistency:
    """Draw samples until P(Beta(v1+1, v2+1) > 1/2) >= `threshold`, at most `n`, and vote.

    v1 and v2 are the votes of the two largest clusters; a unanimous question stops at its 4th
    sample under the default threshold.

    Profiles: ``upstream`` clusters by canonical form and "no answer" does not vote; ``paper`` draws
    at least 2 samples, compares answers as written, and "no answer" votes.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "asc"
    default_rule: ClassVar[str] = "vote"
    needs_score: ClassVar[bool] = False
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Samples a question at most, >= 1; 40 in the method's code."""
    threshold: float = 0.95
    """Probability that the majority must reach, in [0, 1]."""
    batch: int = 1
    """Samples drawn between two tests, >= 1; more than 1 saves waiting and costs samples."""
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score: bool = True
    """Whether completions are scored by the verifier."""
    profile: Profile = "upstream"

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_unit("threshold", self.threshold)
        if self.batch < 1:
            raise ValueError(f"batch must be >= 1, got {self.batch!r}")

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[Samples, Action]:
        """Ask for the first batch."""
        return ask(Samples(question=question), min(self.batch, self.n), self)

    def step(self, state: Samples, observations: Sequence[Observation]) -> tuple[Samples, Action]:
        """Stop where the majority is likely to last or the budget is spent."""
        told = tell(state, observations)
        paper = self.profile == "paper"
        v1, v2 = top_two(votes(told, as_written=paper))
        at_least = 2 if paper else 1
        if v1 > 0 and told.drawn >= at_least and p_majority_lasts(v1, v2) >= self.threshold:
            return stop_on_vote(told, StopReason.AGREED, profile=self.profile)
        if told.drawn >= self.n:
            return stop_on_vote(told, StopReason.BUDGET, profile=self.profile)
        return ask(told, min(self.batch, self.n - told.drawn), self)
