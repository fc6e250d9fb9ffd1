"""*Forecast*: the expected length of a chain, so that the longest start first.

A question's completions are sequential, so the last long chain to start decides when a run ends.
Expected work is expected completions times expected tokens of one: the question's own forecast,
else the mean of what its benchmark has been seen to take. Once a chain has drawn, what it drew is
the better forecast of what it will draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.protocol import (
    Completion,
    Observation,
    PhaseStats,
    Question,
    Strategy,
)
from pipeline.theory.markov import Regime, regime
from pipeline.theory.stopping import expected_rounds

MEANS_OF = ("benchmark", "completion_tokens", "error")

_TOKENS_UNKNOWN = 1_000.0  # of a round, where nothing is known; only ratios matter


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a chain is expected to take."""

    completions: int
    """Of the whole chain, >= 1."""
    tokens_each: float
    """Completion tokens of one, > 0."""

    @property
    def tokens(self) -> float:
        """Completion tokens of the whole chain, > 0."""
        return self.completions * self.tokens_each

    def rounds_left(self, drawn: Sequence[Observation]) -> int:
        """Completions that are still to come, given what came so far: one at least for a chain that
        goes on. Failed requests are no completions."""
        return max(1, self.completions - sum(isinstance(o, Completion) for o in drawn))

    def remaining(self, drawn: Sequence[Observation]) -> float:
        """Completion tokens that are still to come, > 0, given what came so far."""
        made = [o.completion_tokens for o in drawn if isinstance(o, Completion)]
        each = sum(made) / len(made) if any(made) else self.tokens_each
        return self.rounds_left(drawn) * each


def forecast(
    strategy: Strategy,
    question: Question,
    statistics: PhaseStats | None = None,
    mean_tokens: float | None = None,
) -> Forecast:
    """What a chain is expected to take before its first completion.

    Args:
        strategy: its budget, gate and stopping rule bound the completions.
        question: its priors say p0, a, b and the tokens of a round where they know them.
        statistics: of the data set; its a and b are taken before those of the priors.
        mean_tokens: of a completion of this benchmark so far, for questions without a forecast.
    """
    each = question.priors.tokens_per_round or mean_tokens or _TOKENS_UNKNOWN
    source = statistics if statistics is not None else question.priors
    completions = expected_completions(strategy, p0=question.priors.p0, a=source.a, b=source.b)
    return Forecast(completions=completions, tokens_each=each)


def expected_completions(
    strategy: Strategy, *, p0: float | None, a: float | None, b: float | None
) -> int:
    """Expected completions of a chain, >= 1: its budget, less what gate and forecast cut off."""
    budget = strategy.n
    if p0 is None or a is None or b is None:
        return budget
    sigma: float | None = getattr(strategy, "sigma", None)
    if (
        sigma is not None
        and getattr(strategy, "gate", True)
        and regime(p0=p0, a=a, b=b, sigma=sigma) is not Regime.BENEFICIAL
    ):
        return 1
    rounds = expected_rounds(strategy, p0=p0, a=a, b=b)
    return budget if rounds is None else min(budget, rounds + 1)


def running_means(journal: Iterable[pa.Table]) -> Mapping[str, float]:
    """Mean tokens of a completion by benchmark, over all that a journal holds.

    Args:
        journal: piece by piece, at least `MEANS_OF`; failed requests are left out.
    """
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    tokens = "completion_tokens"
    for piece in journal:
        made = piece.filter(pc.is_null(piece["error"])).select(["benchmark", tokens])
        totals = made.group_by("benchmark").aggregate([(tokens, "sum"), (tokens, "count")])
        for row in totals.to_pylist():
            sums[row["benchmark"]] += row[f"{tokens}_sum"] or 0
            counts[row["benchmark"]] += row[f"{tokens}_count"]
    return {benchmark: total / counts[benchmark] for benchmark, total in sums.items() if total}
