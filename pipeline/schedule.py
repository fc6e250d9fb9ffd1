"""How much work a chain is expected to be, so that the longest start first.

A question's completions are sequential, so the last long chain to start decides when a run ends.
"""

from __future__ import annotations

from typing import Any

from pipeline.markov import Regime, regime, rounds_to_reach
from pipeline.protocol import Question, Statistics, Strategy

_TOKENS_UNKNOWN = 1_000.0  # of a round, where nothing is known; only ratios matter


def expected_tokens(
    strategy: Strategy[Any], question: Question, statistics: Statistics | None = None
) -> float:
    """Expected completion tokens of a whole chain, > 0."""
    a_round = question.priors.tokens_per_round or _TOKENS_UNKNOWN
    return expected_completions(strategy, question, statistics) * a_round


def expected_completions(
    strategy: Strategy[Any], question: Question, statistics: Statistics | None = None
) -> int:
    """Expected completions of a chain, >= 1: its budget, less what gate and forecast cut off."""
    budget = int(getattr(strategy, "n", 1))
    p0 = question.priors.p0
    source = statistics if statistics is not None else question.priors
    a, b = source.a, source.b
    if p0 is None or a is None or b is None:
        return budget
    sigma: float | None = getattr(strategy, "sigma", None)
    if (
        sigma is not None
        and getattr(strategy, "gate", True)
        and regime(p0=p0, a=a, b=b, sigma=sigma) is not Regime.BENEFICIAL
    ):
        return 1
    tau = getattr(strategy, "tau", None)
    if tau is None:
        return budget
    rounds = rounds_to_reach(tau, p0=p0, a=a, b=b, first=0)
    return budget if rounds is None else min(budget, rounds + 1)
