"""The phases of DSC: what is known of each question after each pass over the data set.

`Statistics.per_question` says what comes next for a question (``task``) and what is known of it:
``place`` in the order of difficulty (0 is the hardest), whether its samples agreed ``at_once``;
of the hard part the ``rank`` (0 is the easiest), the ``first`` window, the ``size`` at which its
samples agreed. Those of the paper's variant are in `pipeline.strategies.dsc_paper`.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Questions that lead batches ask the model to rank them."""

    strategy: DifficultyAdaptiveSelfConsistency
    name: str = "rank"
    stream: ClassVar[str] = "rankings"
    answers: ClassVar[bool] = False

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Whether the question leads a batch."""
        return bool(facts_of(statistics)[question_id]["batches"])

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics:
        """Order all questions by their mean place, 0 the easiest and 1 the hardest of a batch.

        A ranking that does not name each question once is left out; a question without any counts
        as of middling difficulty.
        """
        facts = facts_of(statistics)
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
                question_id: {"task": "judge", "place": place}
                for place, question_id in enumerate(hardest_first)
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A stretch of the questions, from the hardest on, judged by their first samples."""

    strategy: DifficultyAdaptiveSelfConsistency
    wave: int
    """0 is the hardest."""
    stream: ClassVar[str] = "samples"
    reads_texts: ClassVar[bool] = False
    answers: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """``judge_`` and its number."""
        return f"judge_{self.wave}"

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Whether the question stands in this stretch and the hard part has not ended."""
        known = facts_of(statistics)[question_id]
        return bool(known["task"] == "judge" and known["place"] < _end(self.strategy, self.wave))

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics:
        """Note which agreed; once the hard part has ended, or all are judged, put it in order."""
        facts = {question_id: dict(known) for question_id, known in facts_of(statistics).items()}
        for question_id, record in records.items():
            at_once = self.strategy.agrees(answers_of(record, self.strategy.extend))
            facts[question_id].update(task="judged", at_once=at_once)
        judged = sorted(
            (known for known in facts.values() if known["task"] == "judged"),
            key=lambda known: int(known["place"]),
        )
        start = _first_run([known["at_once"] for known in judged], self.strategy.judge_window)
        waiting = [known for known in facts.values() if known["task"] == "judge"]
        if start is None and waiting:
            return Statistics(per_question=facts)
        for known in waiting:
            known["task"] = "greedy"
        for rank, known in enumerate(reversed(judged[:start])):
            known.update(task="window", rank=rank, first=self.strategy.extend)
        return Statistics(per_question=facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """A stretch of the hard part, from its easiest question on, sampled at the same time."""

    strategy: DifficultyAdaptiveSelfConsistency
    wave: int
    """0 is the easiest."""
    stream: ClassVar[str] = "samples"
    reads_texts: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """``wave_`` and its number."""
        return f"wave_{self.wave}"

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Whether the question stands in this stretch."""
        known = facts_of(statistics)[question_id]
        return bool(known["task"] == "window" and _rank(known) < _end(self.strategy, self.wave))

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics:
        """Note the stop sizes and pre-allocate the next wave."""
        facts = {question_id: dict(known) for question_id, known in facts_of(statistics).items()}
        for question_id, record in records.items():
            facts[question_id].update(task="done", size=self._stop_size(record))
        done = sorted(
            (known for known in facts.values() if known["task"] == "done"),
            key=_rank,
        )
        first = self._first_window(done[-self.strategy.neighbours :])
        for known in facts.values():
            if known["task"] == "window":
                known["first"] = first
        return Statistics(per_question=facts)

    def _stop_size(self, record: QuestionRecord) -> int:
        """The least number of samples that agree; the budget where none does."""
        n = self.strategy.n
        sizes = range(1, len(record.completions) + 1)
        return next((k for k in sizes if self.strategy.agrees(answers_of(record, k))), n)

    def _first_window(self, before: Sequence[Mapping[str, Any]]) -> int:
        """The mean stop size of the neighbours, rounded to a multiple of the extension."""
        extend = self.strategy.extend
        if not before:
            return extend
        mean: float = sum(known["size"] for known in before) / len(before)
        return extend * max(1, round(mean / extend))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Questions of the easy part that were judged answer from the samples that judged them."""

    strategy: DifficultyAdaptiveSelfConsistency
    name: str = "settle"
    stream: ClassVar[str] = "samples"
    reads_texts: ClassVar[bool] = False

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Whether the question was judged and is not of the hard part."""
        return bool(facts_of(statistics)[question_id]["task"] == "judged")

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics | None:
        """Nothing more is learnt."""
        return statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy:
    """One greedy answer for every question of the easy part that was not judged."""

    strategy: DifficultyAdaptiveSelfConsistency
    name: str = "greedy"
    stream: ClassVar[str] = "greedy"
    reads_texts: ClassVar[bool] = False

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Whether nothing was drawn for the question."""
        return bool(facts_of(statistics)[question_id]["task"] == "greedy")

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics | None:
        """Nothing more is learnt."""
        return statistics


def facts_of(statistics: Statistics | None) -> Facts:
    if statistics is None:
        raise ConfigError("phases of dsc need the statistics of the phase before, got none")
    return statistics.per_question


def answers_of(record: QuestionRecord, first: int) -> list[str | None]:
    """Of those among the `first` samples that were had."""
    samples = record.completions[:first]
    return [sample.answer for sample in samples if isinstance(sample, Completion)]


def _rank(known: Mapping[str, Any]) -> int:
    """Runs begun before there was a rank go on by place."""
    return int(known.get("rank", known["place"]))


def _end(strategy: DifficultyAdaptiveSelfConsistency, wave: int) -> float:
    """Questions in all waves up to this one: `neighbours`, as many again, then doubling."""
    return math.inf if wave == strategy.waves - 1 else strategy.neighbours * 2**wave


def _first_run(flags: Sequence[bool], length: int) -> int | None:
    """Where the first `length` consecutive flags begin; None where there are none."""
    run = 0
    for place, flag in enumerate(flags):
        run = run + 1 if flag else 0
        if run == length:
            return place - length + 1
    return None
