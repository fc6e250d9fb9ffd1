"""*Settings of the paper*: budgets, grids of tau and gamma, and a maker of its strategies."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from pipeline.config.science import ScienceConfig
from pipeline.core.protocol import Strategy
from pipeline.strategies import STRATEGIES
from pipeline.strategies.samples import Profile

BUDGETS = (8, 16, 32, 64)
"""N of the paper's tables."""
TAUS = tuple(round(0.80 + 0.01 * step, 2) for step in range(20))
GAMMAS = (1.0, 4.0, 7.0, 10.0, 20.0)
GAMMA = 10.0
"""The paper's choice, wherever gamma is not what is tried."""
SAMPLERS = ("best_of_n", "self_consistency", "esc", "asc", "dsc")
"""Kinds that read the parallel pool."""


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes strategies with the prompts and the decoding of a pool."""

    science: ScienceConfig
    profile: Profile = "paper"
    p0_source: str = "auto"
    """``first_score`` where nothing predicts p0."""

    @property
    def scored(self) -> bool:
        """Whether the pool has verifier scores."""
        return self.science.verifier is not None

    def __call__(self, kind: str, **values: Any) -> Strategy:
        """One setting of a strategy; the rest of its fields at their defaults."""
        names = {field.name for field in fields(STRATEGIES[kind])}
        shared: dict[str, Any] = {
            "profile": self.profile,
            "p0_source": self.p0_source,
            "decoding": self.science.decoding,
            "prompts": self.science.prompts,
            "score": self.scored,
        }
        if kind == "best_of_n" and self.profile == "paper":
            shared["aggregation"] = "mean"
        chosen = {name: value for name, value in shared.items() if name in names} | values
        made: Strategy = STRATEGIES[kind](**chosen)
        return made


def budgets_of(rounds: int, samples: int) -> tuple[int, ...]:
    """The paper's budgets that a pool is deep enough for; its own depth where it is below all."""
    deepest = max(rounds, samples)
    return tuple(n for n in BUDGETS if n <= deepest) or (deepest,)
