"""No scaling: the first answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pipeline.core.decoding import Decoding
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import Action, Observation, Question, Statistics
from pipeline.strategies.sequential import ChainState, Plan, advance, begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """One completion with the same decoding as every other strategy (not greedy)."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "base"
    default_rule: ClassVar[str] = "last"
    needs_score: ClassVar[bool] = False
    pool_replayable: ClassVar[bool] = True
    n: ClassVar[int] = 1

    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score: bool = True
    """Whether the completion is scored by the verifier."""

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[ChainState, Action]:
        """Ask once."""
        plan = Plan(n=1, decoding=self.decoding, prompts=self.prompts, score=self.score)
        return begin(question, plan)

    def step(
        self, state: ChainState, observations: Sequence[Observation]
    ) -> tuple[ChainState, Action]:
        """Take the answer and stop."""
        return advance(state, observations)
