"""The phases of DSC: what is known of each question after each pass over the data set.

`Statistics.per_question` says what comes next for a question (``task``) and what is known of it:
``place`` in the order of difficulty (0 is the hardest), ``size`` at which its samples agreed,
whether they did ``at_once``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pipeline.core.errors import ConfigError
from pipeline.core.phases import QuestionRecord
from pipeline.core.protocol import Completion, Statistics
from pipeline.strategies.dsc_ranking import parse_ranking

if TYPE_CHECKING:
    from pipeline.strategies.dsc import DifficultyAdaptiveSelfConsistency

Facts = dict[str, dict[str, Any]]

PAPER_WINDOW = 5
"""Samples by which the paper's variant judges a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Questions that lead batches ask the model to rank them."""

    strategy: DifficultyAdaptiveSelfConsistency
    name: str = "rank"
    stream: ClassVar[str] = "rankings"
    answers: ClassVar[bool] = False

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Whether the question leads a batch."""
        return bool(_facts(statistics)[question_id]["batches"])

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics:
        """Order all questions by their mean place, 0 the easiest and 1 the hardest of a batch.

        A ranking that does not name each question once is left out; a question without any counts
        as of middling difficulty.
        """
        facts = _facts(statistics)
        places: dict[str, list[float]] = {question_id: [] for question_id in facts}
        for leader, record in records.items():
            for batch, observation in zip(
                facts[leader]["batches"], record.completions, strict=False
            ):
                order = (
                    parse_ranking(observation.text, len(batch))
                    if isinstance(observation, Completion)
                    else None
                )
                for place, member in enumerate(order or ()):
                    places[batch[member]].append(place / (len(batch) - 1))
        difficulty = {
            question_id: math.fsum(seen) / len(seen) if seen else 0.5
            for question_id, seen in places.items()
        }
        hardest_first = sorted(
            facts, key=lambda question_id: (-difficulty[question_id], question_id)
        )
        return Statistics(
            per_question={
                question_id: {"task": "window", "place": place, "first": self.strategy.extend}
                for place, question_id in enumerate(hardest_first)
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """A stretch of the hard part, sampled at the same time."""

    strategy: DifficultyAdaptiveSelfConsistency
    wave: int
    """0 is the hardest."""
    stream: ClassVar[str] = "samples"

    @property
    def name(self) -> str:
        """``wave_`` and its number."""
        return f"wave_{self.wave}"

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Whether the question stands in this stretch and the hard part has not ended."""
        known = _facts(statistics)[question_id]
        last = self.wave == self.strategy.waves - 1
        end = math.inf if last else self.strategy.neighbours * 2**self.wave
        return bool(known["task"] == "window" and known["place"] < end)

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics:
        """Note the stop sizes; end the hard part, or pre-allocate the next wave."""
        facts = {question_id: dict(known) for question_id, known in _facts(statistics).items()}
        for question_id, record in records.items():
            facts[question_id] = {
                "task": "done",
                "place": facts[question_id]["place"],
                "size": self._stop_size(record),
                "at_once": self.strategy.agrees(_answers(record, self.strategy.extend)),
            }
        done = sorted(
            (known for known in facts.values() if known["task"] == "done"),
            key=lambda known: known["place"],
        )
        if _has_run([known["at_once"] for known in done], self.strategy.judge_window):
            following: dict[str, Any] = {"task": "greedy"}
        else:
            following = {"first": self._first_window(done[-self.strategy.neighbours :])}
        for known in facts.values():
            if known["task"] == "window":
                known.update(following)
        return Statistics(per_question=facts)

    def _stop_size(self, record: QuestionRecord) -> int:
        """The least number of samples that agree; the budget where none does."""
        n = self.strategy.n
        sizes = range(1, len(record.completions) + 1)
        return next((k for k in sizes if self.strategy.agrees(_answers(record, k))), n)

    def _first_window(self, before: Sequence[Mapping[str, Any]]) -> int:
        """The mean stop size of the neighbours, rounded to a multiple of the extension."""
        extend = self.strategy.extend
        if not before:
            return extend
        mean: float = sum(known["size"] for known in before) / len(before)
        return extend * max(1, round(mean / extend))


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy:
    """One greedy answer for every question behind the end of the hard part."""

    strategy: DifficultyAdaptiveSelfConsistency
    name: str = "greedy"
    stream: ClassVar[str] = "greedy"

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Whether no wave took the question."""
        return bool(_facts(statistics)[question_id]["task"] == "greedy")

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics | None:
        """Nothing more is learnt."""
        return statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Difficulty:
    """The paper's variant draws every sample of every question to know how hard it is."""

    strategy: DifficultyAdaptiveSelfConsistency
    name: str = "difficulty"
    stream: ClassVar[str] = "samples"
    answers: ClassVar[bool] = False

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Every question takes part."""
        return True

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics:
        """Split easy from medium by a binary search over the order of difficulty.

        A question judged is the one in the middle with its easier neighbour: where both agree
        within the first window, all questions up to it are easy. (The published search for hard
        questions asks for 3 hits among these 2 and never finds any; it is left out.)
        """
        easiest_first = sorted(records, key=lambda key: (_difficulty(records[key]), key))
        left, right = 0, len(easiest_first)
        while left < right:
            middle = (left + right) // 2
            judged = easiest_first[max(0, middle - 1) : middle + 1]
            if all(self._is_easy(records[question_id]) for question_id in judged):
                left = middle + 1
            else:
                right = middle
        return Statistics(
            per_question={
                question_id: {"task": "first" if place < left else "one_by_one", "place": place}
                for place, question_id in enumerate(easiest_first)
            }
        )

    def _is_easy(self, record: QuestionRecord) -> bool:
        """Whether sampling in windows would stop after the first one.

        As published: a budget of exactly one window stops there whatever the samples say, and
        under a smaller one no question is easy.
        """
        n = self.strategy.n
        if n <= PAPER_WINDOW:
            return n == PAPER_WINDOW
        return self.strategy.agrees(_answers(record, PAPER_WINDOW))


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The paper's variant answers from the samples that it has already drawn."""

    strategy: DifficultyAdaptiveSelfConsistency
    name: str = "split"
    stream: ClassVar[str] = "samples"

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Every question that has a place."""
        return question_id in _facts(statistics)

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics | None:
        """Nothing more is learnt."""
        return statistics


def _facts(statistics: Statistics | None) -> Facts:
    if statistics is None:
        raise ConfigError("phases of dsc need the statistics of the phase before, got none")
    return statistics.per_question


def _answers(record: QuestionRecord, first: int) -> list[str | None]:
    """Of those among the `first` samples that were had."""
    samples = record.completions[:first]
    return [sample.answer for sample in samples if isinstance(sample, Completion)]


def _difficulty(record: QuestionRecord) -> float:
    """1 - the mean verifier score; 1 where there is no score."""
    scores = [
        sample.score
        for sample in record.completions
        if isinstance(sample, Completion) and sample.score is not None
    ]
    return 1 - math.fsum(scores) / len(scores) if scores else 1.0


def _has_run(flags: Sequence[bool], length: int) -> bool:
    """Whether `length` consecutive flags are set."""
    run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        if run >= length:
            return True
    return False
