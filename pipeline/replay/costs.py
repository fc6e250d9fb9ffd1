"""*Cost*: computes the cost of a question in tokens, FLOPs, seconds or dollars.

Axes: Q questions, D depths (completions that an answer rests on).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pipeline.answers.answer_rules import AnswerRule, Rule
from pipeline.core.arrays import FloatArray
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Completion, Strategy

Axis = Literal["tokens", "all_tokens", "flops", "seconds", "usd"]
KINDS = ("completion", "prompt", "cached", "verifier", "seconds")
"""What is added up of every completion: tokens, of prompts also those that were cached, and the
seconds that it took."""

Spent = Mapping[str, FloatArray]
"""Amounts by kind, each of the same shape."""

UNITS: dict[str, str] = {
    "tokens": "completion tokens",
    "all_tokens": "tokens of completions, prompts and the verifier",
    "flops": "GFLOP",
    "seconds": "ms of the critical path",
    "usd": "US$ per million questions",
}
_NEED_SCORES = (AnswerRule.PRM_ARGMAX, AnswerRule.PRM_WEIGHTED_VOTE)
_AT_ONCE = ("self_consistency", "best_of_n")
"""Kinds whose completions are all drawn together, so that the slowest alone is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One axis, and the numbers that it needs."""

    axis: Axis = "tokens"
    parameters: tuple[float, float] | None = None
    """Of generator and verifier; a token costs 2 operations a parameter."""
    prices: tuple[float, float, float, float] | None = None
    """US$ a million tokens of prompts, cached prompts, completions and the verifier."""

    def __post_init__(self) -> None:
        if self.axis == "flops" and self.parameters is None:
            raise ConfigError("cost flops must have the numbers of parameters: --parameters G V")
        if self.axis == "usd" and self.prices is None:
            raise ConfigError(
                "cost usd must have prices: --prices PROMPT CACHED COMPLETION VERIFIER"
            )

    @property
    def unit(self) -> str:
        """In words."""
        return UNITS[self.axis]

    def of(self, spent: Spent, *, scored: bool) -> FloatArray:
        """The cost of amounts, of any shape.

        Args:
            spent: by kind.
            scored: whether the verifier's work is needed, and billed.
        """
        verifier = spent["verifier"] * float(scored)
        fresh = spent["prompt"] - spent["cached"]
        if self.axis == "tokens":
            return spent["completion"]
        if self.axis == "seconds":
            return spent["seconds"] * 1e3
        if self.axis == "all_tokens":
            return spent["completion"] + spent["prompt"] + verifier
        if self.axis == "flops":
            assert self.parameters is not None  # checked when it was made
            generator, judge = self.parameters
            return 2e-9 * (generator * (spent["completion"] + fresh) + judge * verifier)
        assert self.prices is not None
        prompt, cached, completion, judge = self.prices
        return (
            prompt * fresh
            + cached * spent["cached"]
            + completion * spent["completion"]
            + judge * verifier
        )


TOKENS = Cost()


def needs_scores(strategy: Strategy, rule: Rule) -> bool:
    """Whether a strategy, read by a rule, reads the verifier's scores."""
    return bool(strategy.needs_score or rule in _NEED_SCORES)


def amounts(drawn: Sequence[tuple[Completion, float | None]]) -> FloatArray:
    """(K, n): amounts of each kind of completions, each with the seconds that it took."""
    rows = [
        (o.completion_tokens, o.prompt_tokens, o.cached_prompt_tokens, o.verifier_tokens, seconds)
        for o, seconds in drawn
    ]
    table = np.array(rows, dtype=np.float64).reshape(-1, len(KINDS)).T
    return np.asarray(np.nan_to_num(table, nan=0.0), dtype=np.float64)


def added_up(amounts_KN: FloatArray, *, at_once: bool) -> FloatArray:
    """(K, n + 1): sums of the first 0, 1, ... completions; seconds of the slowest where they are
    drawn at once."""
    sums: FloatArray = np.concatenate(
        [np.zeros((len(KINDS), 1)), np.cumsum(amounts_KN, axis=1)], axis=1
    )
    if at_once and amounts_KN.shape[1]:
        sums[KINDS.index("seconds"), 1:] = np.maximum.accumulate(amounts_KN[-1])
    return sums


def drawn_at_once(strategy: Strategy) -> bool:
    """Whether a strategy draws all its completions together."""
    return strategy.kind in _AT_ONCE
