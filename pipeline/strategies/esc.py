"""ESC: self-consistency in windows that ends once a window is unanimous (arXiv 2401.10480)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pipeline.answers.voting import clusters
from pipeline.core.decoding import Decoding
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import (
    Action,
    Observation,
    Question,
    Statistics,
    StopReason,
)
from pipeline.strategies.samples import Profile, Samples, ask, stop, stop_on_vote, tell
from pipeline.strategies.sequential import check_budget


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStoppingSelfConsistency:
    """Draw windows of `window` samples, at most `n` in all, until one window agrees in full.

    A failed sample keeps its window from agreeing. "No answer" is a vote like any other, as in both
    codes. A budget smaller than one window is a single window, which ``paper`` does not test.

    Profiles: ``upstream`` draws whole windows only (N = 8 draws 5), and a unanimous window answers
    alone, while without one all samples vote. ``paper`` draws the remainder too (without testing
    it), and always votes over all samples so far, answers as written and "no answer" included.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "esc"
    default_rule: ClassVar[str] = "vote"
    needs_score: ClassVar[bool] = False
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Samples a question at most, >= 1."""
    window: int = 5
    """Samples a window, >= 1."""
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score: bool = True
    """Whether completions are scored by the verifier."""
    profile: Profile = "upstream"

    def __post_init__(self) -> None:
        check_budget(self.n)
        if self.window < 1:
            raise ValueError(f"window must be >= 1, got {self.window!r}")

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[Samples, Action]:
        """Ask for the first window."""
        return ask(Samples(question=question), min(self.window, self.n), self)

    def step(self, state: Samples, observations: Sequence[Observation]) -> tuple[Samples, Action]:
        """Stop where the window agrees or the budget is spent, else ask for the next window."""
        told = tell(state, observations)
        upstream = self.profile == "upstream"
        tested = upstream or told.drawn - state.drawn == self.window
        if tested and self._agrees(told, state.drawn):
            if upstream:
                return stop(told, StopReason.AGREED, range(state.drawn, told.drawn))
            return stop_on_vote(told, StopReason.AGREED, profile=self.profile)
        left = self.n - told.drawn
        if left >= self.window or (left > 0 and not upstream):
            return ask(told, min(self.window, left), self)
        return stop_on_vote(told, StopReason.BUDGET, profile=self.profile, silent=True)

    def _agrees(self, samples: Samples, first: int) -> bool:
        if any(position >= first for position in samples.failed):
            return False
        window = samples.answers[first:]
        votes = clusters(window, as_written=self.profile == "paper", silent=True)
        return len(votes) == 1 and len(votes[0].members) == len(window)
