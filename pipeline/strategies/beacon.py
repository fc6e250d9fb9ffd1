"""BEACON: draw samples while a better one is worth its cost, and keep the best (arXiv 2510.15945).

The verifier's scores are taken for draws from a normal distribution that is learnt question by
question; the test is the optimal one of `pipeline.theory.gaussian_search`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from pipeline.strategies.samples import Samples, ask, stop, tell
from pipeline.strategies.sequential import check_budget
from pipeline.theory.gaussian_search import LEAST, goes_on


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What came of the samples of one question, and the scores of those that were had."""

    samples: Samples
    scores: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beacon:
    """Draw 3 samples, then one by one while the best score is expected to rise by more than `cost`
    a sample, at most `n`; the highest score answers.

    Scores without any spread end a question at its 3rd sample. The extension that leaves low scores
    out of the learning is not part of this.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "beacon"
    default_rule: ClassVar[str] = "prm_argmax"
    needs_score: ClassVar[bool] = True
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Samples a question at most, >= 1."""
    cost: float = 0.02
    """Of a sample, > 0, in units of the verifier's score."""
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score: bool = True
    """Whether completions are scored by the verifier."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        if not 0 < self.cost < float("inf"):
            raise ValueError(f"cost must be > 0 and finite, got {self.cost!r}")

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[Scored, Action]:
        """Ask for the samples that a spread can be told from."""
        return self._ask(Scored(samples=Samples(question=question)), min(LEAST, self.n))

    def step(self, state: Scored, observations: Sequence[Observation]) -> tuple[Scored, Action]:
        """Stop where another sample is not worth its cost or the budget is spent."""
        told = tell(state.samples, observations, scored=True)
        new = [o.score for o in observations if isinstance(o, Completion) and o.score is not None]
        known = Scored(samples=told, scores=(*state.scores, *new))
        if told.drawn >= self.n:
            return self._stop(known, StopReason.BUDGET)
        left = self.n - told.drawn + len(known.scores)  # a failed sample is a draw fewer
        if len(known.scores) >= LEAST and not goes_on(known.scores, self.cost, left):
            return self._stop(known, StopReason.CONFIDENT)
        return self._ask(known, 1)

    def _ask(self, state: Scored, count: int) -> tuple[Scored, Action]:
        samples, action = ask(state.samples, count, self)
        return replace(state, samples=samples), action

    def _stop(self, state: Scored, reason: StopReason) -> tuple[Scored, Action]:
        samples, action = stop(state.samples, reason, state.samples.had)
        return replace(state, samples=samples), action
