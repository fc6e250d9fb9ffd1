"""Phases: a strategy over the whole data set as a sequence of per-question strategies.

A phase is an ordinary per-question strategy over all or some of the questions of one benchmark.
Between phases a pure fold over what was drawn makes `Statistics`, which are journaled once and
handed to the next phase's `start`. A chain goes on because the next phase asks for the same
completions again and is given the recorded ones: they are paid for once.

The outcome of a question is the stop of the last phase that selected it, and its bill that of all
phases, each completion counted once. The rounds of a stop are positions in the request order of
that phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

from pipeline.core.protocol import Completion, Observation, Question, Statistics, Stop, Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRecord:
    """What one phase drew for one question. There is no gold answer in it."""

    question: Question
    completions: tuple[Observation, ...]
    """In request order of the phase, those found in the journal included."""
    stop: Stop | None
    """None where the question did not get to its stop."""


class Phase(Protocol):
    """One barrier-free pass over the questions it selects. Picklable; holds no data."""

    @property
    def name(self) -> str:
        """Unique within the strategy; names the phase in journal and report."""
        ...

    @property
    def strategy(self) -> Strategy[Any]:
        """What is run for each selected question."""
        ...

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Whether the question takes part, given the statistics from before this phase."""
        ...

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics | None:
        """What is known after this phase.

        Args:
            records: by question id, of the questions that the phase selected.
            statistics: from before this phase; None where there were none.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WholePhase:
    """A phase over all questions that learns nothing from them."""

    name: str
    strategy: Strategy[Any]
    reads_texts: ClassVar[bool] = False

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Every question takes part."""
        return True

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics | None:
        """The statistics from before, unchanged."""
        return statistics


def stream_of(phase: Phase) -> str | None:
    """The stream that a phase draws from, its class attribute ``stream`` ("" where it has none).

    Phases of one stream ask for the same completions from the first on, so the one that asks for
    most pays for all. None: what it draws is in no bill.
    """
    stream: str | None = getattr(phase, "stream", "")
    return stream


def answers(phase: Phase) -> bool:
    """Whether a phase's stop may be a question's answer: class attribute ``answers``, else True."""
    return bool(getattr(phase, "answers", True))


def record_of(
    phase: Phase, question: Question, drawn: Sequence[Observation], stop: Stop | None
) -> QuestionRecord:
    """What a phase drew for a question.

    Texts and step scores are left out where the phase's class attribute ``reads_texts`` (else True)
    says that its fold needs none: those of all questions may not fit into memory.
    """
    if not getattr(phase, "reads_texts", True):
        drawn = [textless(each) for each in drawn]
    return QuestionRecord(question=question, completions=tuple(drawn), stop=stop)


def textless(seen: Observation) -> Observation:
    """An observation without the text and the step scores of a completion."""
    return replace(seen, text="", step_scores=None) if isinstance(seen, Completion) else seen


@runtime_checkable
class HasPhases(Protocol):
    """A strategy that runs in phases of its own."""

    def phases(self) -> tuple[Phase, ...]:
        """In the order in which they run; at least one."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """A strategy that needs to see all questions of a benchmark before its first phase."""

    def prepare(self, questions: Sequence[Question]) -> Statistics:
        """Statistics for the first phase, from the questions alone."""
        ...


def phases_of(strategy: Strategy[Any]) -> tuple[Phase, ...]:
    """The phases of a strategy; one over all questions where it names none."""
    if isinstance(strategy, HasPhases):
        return strategy.phases()
    return (WholePhase(name=strategy.kind, strategy=strategy),)


def prepared(strategy: Strategy[Any], questions: Sequence[Question]) -> Statistics | None:
    """The statistics that the first phase is handed; None where the strategy needs none."""
    return strategy.prepare(questions) if isinstance(strategy, Prepares) else None
