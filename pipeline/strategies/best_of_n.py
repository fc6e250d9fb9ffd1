"""Independent samples, and the one that the verifier likes best: Best-of-N and BEACON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pipeline.core import prm
from pipeline.core.errors import ProtocolError
from pipeline.core.protocol import (
    Completion,
    Decisions,
    PhaseStats,
    Question,
    StopReason,
    Strategy,
)
from pipeline.strategies.samples import Profile, Samples
from pipeline.strategies.sequential import check_budget
from pipeline.theory.gaussian_search import LEAST, goes_on

Aggregation = Literal["verifier", "mean", "min", "product", "last"]
"""How step scores become the value of a candidate; ``verifier`` is the verifier's own score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestOfN(Strategy):
    """Draw `n` samples at once and take the highest value, the first on ties.

    Where the choice is that of the answer rule ``prm_argmax`` the stop rests on all samples, so
    that every rule can be read from them; else it rests on the chosen one.

    Profiles: ``upstream`` takes a candidate without an answer only where none has one; in
    ``paper`` every candidate competes, and one with an empty text has the value 0.
    """

    kind: ClassVar[str] = "best_of_n"
    default_rule: ClassVar[str] = "prm_argmax"
    needs_score: ClassVar[bool] = True
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Samples a question, >= 1."""
    aggregation: Aggregation = "verifier"
    profile: Profile = "upstream"

    def __post_init__(self) -> None:
        check_budget(self.n)

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Draw all samples and choose one."""
        samples = Samples(question, self)
        yield from samples.draw(self.n, needs_scores=True)
        if not samples.completions or self._is_prm_argmax:
            return samples.stop(StopReason.BUDGET)
        best = max(samples.completions, key=lambda at: self._key(samples.completions[at], at))
        return samples.stop(StopReason.BUDGET, [best])

    @property
    def _is_prm_argmax(self) -> bool:
        return self.aggregation == "verifier" and self.profile == "upstream"

    def _key(self, completion: Completion, position: int) -> tuple[bool, float]:
        """What candidates are compared by; `max` keeps the first of equals."""
        value = aggregate(completion, self.aggregation, position)
        if self.profile == "paper":
            eligible, value = True, value if completion.text else 0.0
        else:
            eligible = completion.answer is not None
        return eligible, value


def aggregate(completion: Completion, aggregation: Aggregation, position: int) -> float:
    """The value of a scored completion, in [0, 1]; a reply without steps is worth 0.

    Raises:
        ProtocolError: if the step scores that the aggregation needs are missing, naming the
            `position` of the observation.
    """
    if aggregation == "verifier":
        assert completion.score is not None  # `needs_scores` refuses completions without one
        return completion.score
    steps = completion.step_scores
    if steps is None:
        raise ProtocolError(
            f"observation {position} must carry step scores for aggregation {aggregation}, got None"
        )
    return prm.aggregate(steps, aggregation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beacon(Strategy):
    """BEACON (arXiv 2510.15945): draw 3 samples, then one by one while the best score is expected
    to rise by more than `cost` a sample, at most `n`; the highest score answers.

    Scores are taken for draws from a normal distribution that is learnt question by question; the
    test is the optimal one of `pipeline.theory.gaussian_search`. Scores without any spread end a
    question at its 3rd sample. The extension that leaves low scores out of the learning is not part
    of this.
    """

    kind: ClassVar[str] = "beacon"
    default_rule: ClassVar[str] = "prm_argmax"
    needs_score: ClassVar[bool] = True
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Samples a question at most, >= 1."""
    cost: float = 0.02
    """Of a sample, > 0, in units of the verifier's score."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        if not 0 < self.cost < float("inf"):
            raise ValueError(f"cost must be > 0 and finite, got {self.cost!r}")

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Draw until another sample is not worth its cost or the budget is spent."""
        samples = Samples(question, self)
        yield from samples.draw(min(LEAST, self.n), needs_scores=True)
        while samples.drawn < self.n:
            scores = samples.scores
            left = self.n - samples.drawn + len(scores)  # a failed sample is a draw fewer
            if len(scores) >= LEAST and not goes_on(scores, self.cost, left):
                return samples.stop(StopReason.CONFIDENT)
            yield from samples.draw(1, needs_scores=True)
        return samples.stop(StopReason.BUDGET)
