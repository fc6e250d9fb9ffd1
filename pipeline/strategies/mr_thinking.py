"""MR-Thinking: revise the answer a fixed number of times (arXiv 2503.19855)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pipeline.core.decoding import Decoding
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import Action, Observation, Question, Statistics
from pipeline.strategies.sequential import (
    ChainState,
    Plan,
    advance,
    begin,
    check_budget,
    check_score_every,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MRThinking:
    """A chain of `n` completions, each but the first shown the answer before it."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "mr_thinking"
    default_rule: ClassVar[str] = "last"
    needs_score: ClassVar[bool] = False
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Completions a question, >= 1."""
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score_every: int = 1
    """Rounds from one score to the next, >= 1: spares the verifier. The first round and the last of
    the budget always have one."""
    score: bool = True
    """Whether completions are scored by the verifier."""
    chain: int = 0
    """Which of several independent chains of a question this is, >= 0."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_score_every(self.score_every)
        if self.chain < 0:
            raise ValueError(f"chain must be >= 0, got {self.chain!r}")

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[ChainState, Action]:
        """Ask the plain question."""
        plan = Plan(
            n=self.n,
            decoding=self.decoding,
            prompts=self.prompts,
            score=self.score,
            score_every=self.score_every,
            chain=self.chain,
        )
        return begin(question, plan)

    def step(
        self, state: ChainState, observations: Sequence[Observation]
    ) -> tuple[ChainState, Action]:
        """Show the answer and ask again, until `n` completions were drawn."""
        return advance(state, observations)
