"""Best-of-N: independent samples, the one that the verifier likes best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, assert_never

from pipeline.core.decoding import Decoding
from pipeline.core.errors import ProtocolError
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import (
    Action,
    Completion,
    Observation,
    Question,
    Statistics,
    StopReason,
)
from pipeline.strategies.samples import Profile, Samples, ask, stop, tell
from pipeline.strategies.sequential import check_budget

Aggregation = Literal["verifier", "mean", "min", "product", "last"]
"""How step scores become the value of a candidate; ``verifier`` is the verifier's own score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestOfN:
    """Draw `n` samples at once and take the highest value, the first on ties.

    Where the choice is that of the answer rule ``prm_argmax`` the stop rests on all samples, so
    that every rule can be read from them; else it rests on the chosen one.

    Profiles: ``upstream`` takes a candidate without an answer only where none has one; in
    ``paper`` every candidate competes, and one with an empty text has the value 0.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "best_of_n"
    default_rule: ClassVar[str] = "prm_argmax"
    needs_score: ClassVar[bool] = True
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Samples a question, >= 1."""
    aggregation: Aggregation = "verifier"
    truncated_last: bool = False
    """Take a candidate cut by its length only where no other is left: verifiers score a tidy
    beginning high."""
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score: bool = True
    """Whether completions are scored by the verifier."""
    profile: Profile = "upstream"

    def __post_init__(self) -> None:
        check_budget(self.n)

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[Samples, Action]:
        """Ask for all samples."""
        return ask(Samples(question=question), self.n, self)

    def step(self, state: Samples, observations: Sequence[Observation]) -> tuple[Samples, Action]:
        """Choose and stop."""
        told = tell(state, observations, scored=True)
        candidates = [
            (self._key(observation, position), position)
            for position, observation in enumerate(observations)
            if isinstance(observation, Completion)
        ]
        if not candidates or self._is_prm_argmax:
            return stop(told, StopReason.BUDGET, told.had)
        _, chosen = max(candidates, key=lambda candidate: candidate[0])
        return stop(told, StopReason.BUDGET, (chosen,))

    @property
    def _is_prm_argmax(self) -> bool:
        return (
            self.aggregation == "verifier"
            and self.profile == "upstream"
            and not self.truncated_last
        )

    def _key(self, completion: Completion, position: int) -> tuple[bool, bool, float]:
        """What candidates are compared by; `max` keeps the first of equals."""
        value = aggregate(completion, self.aggregation, position)
        if self.profile == "paper":
            eligible, value = True, value if completion.text else 0.0
        else:
            eligible = completion.answer is not None
        whole = not (self.truncated_last and completion.is_cut)
        return eligible, whole, value


def aggregate(completion: Completion, aggregation: Aggregation, position: int) -> float:
    """The value of a scored completion, in [0, 1]; a reply without steps is worth 0.

    Raises:
        ProtocolError: if the step scores that the aggregation needs are missing, naming the
            `position` of the observation.
    """
    if aggregation == "verifier":
        assert completion.score is not None  # `tell` has refused unscored completions
        return completion.score
    steps = completion.step_scores
    if steps is None:
        raise ProtocolError(
            f"observation {position} must carry step scores for aggregation {aggregation}, got None"
        )
    if not steps:
        return 0.0
    match aggregation:
        case "mean":
            return math.fsum(steps) / len(steps)
        case "min":
            return min(steps)
        case "product":
            return math.prod(steps)
        case "last":
            return steps[-1]
        case _:
            assert_never(aggregation)
