"""The phases of DSC as the code behind the paper's tables has it: another algorithm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pipeline.core.phases import QuestionRecord
from pipeline.core.protocol import Completion, Statistics
from pipeline.strategies.dsc_phases import answers_of, facts_of

if TYPE_CHECKING:
    from pipeline.strategies.dsc import DifficultyAdaptiveSelfConsistency

PAPER_WINDOW = 5
"""Samples by which the paper's variant judges a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difficulty:
    """The paper's variant draws every sample of every question to know how hard it is."""

    strategy: DifficultyAdaptiveSelfConsistency
    name: str = "difficulty"
    stream: ClassVar[str] = "samples"
    reads_texts: ClassVar[bool] = False
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
        return self.strategy.agrees(answers_of(record, PAPER_WINDOW))


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The paper's variant answers from the samples that it has already drawn."""

    strategy: DifficultyAdaptiveSelfConsistency
    name: str = "split"
    stream: ClassVar[str] = "samples"
    reads_texts: ClassVar[bool] = False

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Every question that has a place."""
        return question_id in facts_of(statistics)

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics | None:
        """Nothing more is learnt."""
        return statistics


def _difficulty(record: QuestionRecord) -> float:
    """1 - the mean verifier score; 1 where there is no score."""
    scores = [
        sample.score
        for sample in record.completions
        if isinstance(sample, Completion) and sample.score is not None
    ]
    return 1 - math.fsum(scores) / len(scores) if scores else 1.0
