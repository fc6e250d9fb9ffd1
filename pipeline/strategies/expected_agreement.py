"""Expected agreement: draw another answer only where it is expected to be worth its price.

The rule is `pipeline.theory.expected_agreement`; here it decides over independent samples, over the
rounds of one chain, and over a whole data set with a total budget. It needs no verifier, no labels,
no a and b.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pipeline.answers.voting import forms
from pipeline.core.protocol import (
    Completion,
    Decisions,
    Phase,
    PhaseStats,
    Question,
    QuestionRecord,
    Stop,
    StopReason,
    Strategy,
)
from pipeline.strategies.chain_agreement import elected
from pipeline.strategies.samples import Samples
from pipeline.strategies.sequential import Revisions, RevisionStrategy, check_budget, check_unit
from pipeline.theory.expected_agreement import MOST, agreement_table, counts_of, stops_on

WAVES = 8
"""A wave asks one more sample of an eighth of the questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedAgreement(Strategy):
    """Draw samples until no plan of further ones raises the expected share of the leading answer by
    more than `price` a sample, at most `n`, and vote.

    At n up to 8 and the default price a unanimous question stops at its 3rd sample. A sample that
    failed or has no answer counts as an answer of its own and does not vote.

    With `budget` the price is not used: every question gets one sample, then waves of an eighth of
    the questions get one more, those with the greatest index first, until `budget` samples a
    question are drawn on average. That is no more accurate than one common price; its bill is known
    beforehand.
    """

    kind: ClassVar[str] = "expected_agreement"
    default_rule: ClassVar[str] = "vote"
    pool_replayable: ClassVar[bool] = True

    n: int = 16
    """Samples a question at most, in [1, 32]."""
    price: float = 0.001
    """Expected accuracy that a sample must bring, in [0, 1)."""
    alpha: float = 1.0
    """How readily new answers come (Chinese restaurant process), > 0."""
    batch: int = 1
    """Samples drawn between two tests, >= 1; more than 1 saves waiting and costs samples."""
    budget: float | None = None
    """Mean samples a question over the data set, >= 1; None stops each question by `price`."""

    def __post_init__(self) -> None:
        _check(self.n, self.price, self.alpha)
        if self.batch < 1:
            raise ValueError(f"batch must be >= 1, got {self.batch!r}")
        if self.budget is not None and not 1 <= self.budget < math.inf:
            raise ValueError(f"budget must be >= 1 or null, got {self.budget!r}")

    def phases(self) -> tuple[Phase, ...]:
        """One, or with `budget` a first sample, the waves and the vote."""
        if self.budget is None:
            return (Phase(name=self.kind, strategy=self),)
        waves = math.ceil((min(self.budget, self.n) - 1) * WAVES)
        return (
            Wave(name="first", strategy=self),
            *(Wave(name=f"wave_{wave}", strategy=self) for wave in range(1, waves + 1)),
            Phase(name="vote", strategy=self, stream="samples"),
        )

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Draw batches until the index is at most the price or the budget is spent."""
        samples = Samples(question, self)
        if self.budget is not None:
            known = {} if statistics is None else statistics.per_question
            yield from samples.draw(known.get(question.question_id, {}).get("size", 1))
            return samples.stop(StopReason.BUDGET)
        while samples.drawn < self.n:
            yield from samples.draw(min(self.batch, self.n - samples.drawn))
            silent = samples.drawn - len(samples.answers)
            counts = counts_of([*forms(samples.answers), *([-1] * silent)])
            if samples.drawn < self.n and stops_on(counts, self.n, self.price, self.alpha):
                return samples.stop(StopReason.AGREED)
        return samples.stop(StopReason.BUDGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave(Phase):
    """The first sample of every question, or one more of those that the last fold chose."""

    strategy: ExpectedAgreement
    stream: str | None = "samples"
    answers: bool = False
    reads_texts: bool = False

    def selects(self, question_id: str, statistics: PhaseStats | None) -> bool:
        """Whether the question was chosen; all were for the first."""
        return statistics is None or bool(statistics.per_question[question_id]["chosen"])

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: PhaseStats | None
    ) -> PhaseStats:
        """Count the answers and choose the questions of the next wave: by index, of equals those
        with fewer samples, then by id."""
        before = {} if statistics is None else statistics.per_question
        known = {name: {**facts, "chosen": False} for name, facts in before.items()}
        for name, record in records.items():
            seen = [c.answer if isinstance(c, Completion) else None for c in record.completions]
            known[name] = {"size": len(seen), "counts": counts_of(forms(seen)), "chosen": False}
        left = self._samples_of(len(known)) - sum(facts["size"] for facts in known.values())
        order = sorted(
            known, key=lambda name: (-self._index(known[name]), known[name]["size"], name)
        )
        for name in order[: min(left, math.ceil(len(known) / WAVES))]:
            if self._index(known[name]) > 0:
                known[name].update(chosen=True, size=known[name]["size"] + 1)
        return PhaseStats(per_question=known)

    def _samples_of(self, questions: int) -> int:
        return math.floor((self.strategy.budget or 1) * questions + 1e-9)

    def _index(self, facts: Mapping[str, Any]) -> float:
        if facts["size"] >= self.strategy.n:
            return 0.0
        table = agreement_table(self.strategy.n, self.strategy.alpha)
        return table.index(table.number(facts["counts"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainExpectedAgreement(RevisionStrategy):
    """Revise until no plan of further rounds raises the expected share of the leading answer by
    more than `price` a round, at most `n`, and vote.

    With a `discount` below 1 recent rounds weigh more in the vote, for chains whose level rises.
    The stop then rests on the rounds that gave the elected answer, so every rule returns it.
    """

    kind: ClassVar[str] = "chain_expected_agreement"

    n: int = 8
    """Completions a question at most, in [1, 32]."""
    price: float = 0.001
    """Expected accuracy that a round must bring, in [0, 1)."""
    alpha: float = 1.0
    """How readily new answers come, > 0."""
    discount: float = 1.0
    """Factor on earlier votes at every round with an answer, in [0, 1]: 1 is the plain vote, 0 the
    last answer."""

    def __post_init__(self) -> None:
        _check(self.n, self.price, self.alpha)
        check_unit("discount", self.discount)

    def reason_to_stop(self, chain: Revisions) -> StopReason | None:
        """Whether the index is at most the price."""
        if len(chain.completions) == self.n:
            return None
        counts = counts_of(forms(chain.answers))
        stops = stops_on(counts, self.n, self.price, self.alpha)
        return StopReason.AGREED if stops else None

    def stop(self, chain: Revisions, reason: StopReason) -> Stop:
        """The stop, on all rounds or on those that gave the elected answer."""
        if self.discount == 1.0:
            return RevisionStrategy.stop(self, chain, reason)
        return elected(chain, reason, self.discount)


def _check(n: int, price: float, alpha: float) -> None:
    check_budget(n)
    if not 0 <= price < 1:
        raise ValueError(f"price must be in [0, 1), got {price!r}")
    if not 0 < alpha < math.inf:
        raise ValueError(f"alpha must be > 0, got {alpha!r}")
    if n > MOST:
        raise ValueError(f"n must be at most {MOST} for expected agreement, got {n!r}")
