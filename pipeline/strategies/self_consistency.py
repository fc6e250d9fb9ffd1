"""Self-consistency: independent samples, the most frequent answer (arXiv 2203.11171)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pipeline.core.decoding import Decoding
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import (
    Action,
    Completion,
    Observation,
    Question,
    Statistics,
    StopReason,
)
from pipeline.strategies.samples import Profile, Samples, ask, stop_on_vote, tell
from pipeline.strategies.sequential import check_budget


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfConsistency:
    """Draw `n` samples at once and vote, ties to the answer seen first.

    Profiles: ``upstream`` clusters answers by canonical form and samples without an answer do not
    vote; ``paper`` compares answers as written and "no answer" is a vote like any other.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "self_consistency"
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Samples a question, >= 1."""
    weighted: bool = False
    """Whether a vote weighs its verifier score."""
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score: bool = True
    """Whether completions are scored by the verifier."""
    profile: Profile = "upstream"

    def __post_init__(self) -> None:
        check_budget(self.n)

    @property
    def needs_score(self) -> bool:
        """Only the weighted vote does."""
        return self.weighted

    @property
    def default_rule(self) -> str:
        """The vote that defines its answer."""
        return "prm_weighted_vote" if self.weighted else "vote"

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[Samples, Action]:
        """Ask for all samples."""
        return ask(Samples(question=question), self.n, self)

    def step(self, state: Samples, observations: Sequence[Observation]) -> tuple[Samples, Action]:
        """Vote and stop."""
        told = tell(state, observations, scored=self.weighted)
        weights: list[float] | None = None
        if self.weighted:
            weights = [
                observation.score
                for observation in observations
                if isinstance(observation, Completion) and observation.score is not None
            ]
        return stop_on_vote(told, StopReason.BUDGET, profile=self.profile, weights=weights)
