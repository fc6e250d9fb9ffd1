"""Types of controllers: the work of a question, the result of its chain, and the counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from pipeline.answers.graders import MATH, GraderSettings
from pipeline.core.protocol import Completion, Observation, PhaseStats, Question, Stop, Strategy
from pipeline.planning.phase_work import Forecast
from pipeline.records.journal import QuestionKey
from pipeline.records.trajectory import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One question under one strategy, in one phase."""

    label: str
    """The strategy's label in its run."""
    phase: str
    strategy: Strategy
    question: Question
    gold: str | None
    grader: GraderSettings = MATH
    """How its answers are read and graded."""
    level: str | None = None
    statistics: PhaseStats | None = None
    forecast: Forecast | None = None
    """What the chain is expected to take; whose most is still to come is served first."""

    @property
    def urgency(self) -> float:
        """Expected tokens of the whole chain; 0 without a forecast. The most starts first."""
        return 0.0 if self.forecast is None else self.forecast.tokens

    @property
    def key(self) -> QuestionKey:
        """(strategy, benchmark, question_id), as the journal is grouped."""
        return (self.label, self.question.benchmark, self.question.question_id)

    @property
    def session(self) -> str:
        """What ties the rounds of a chain to one replica."""
        return f"{self.label}/{self.question.benchmark}/{self.question.question_id}"


class Grade(Protocol):
    """Judges one completion against the gold answer."""

    def __call__(
        self, gold: str, completion: Completion, grader: GraderSettings
    ) -> Awaitable[str]: ...


class Checked(NamedTuple):
    """What was said of an answer while its chain went on."""

    verdict: str | None = None
    """Of a judge; strategies never see it."""
    feedback: str | None = None
    judge_tokens: int = 0


class Check(Protocol):
    """Checks an answer when it is drawn (`actors.controllers.controller.Checker`)."""

    def __call__(
        self, work: Work, completion: Completion, *, feedback: bool
    ) -> Awaitable[Checked]: ...


class Journal(Protocol):
    """Where chains leave their rounds (`actors.controllers.journal_writer.JournalWriter`)."""

    @property
    def reached(self) -> tuple[str, int]:
        """(epoch, sequence) of the last durable segment; -1 before the first."""
        ...

    def append(self, row: Row) -> None:
        """Take a row."""
        ...

    async def durable(self) -> None:
        """Wait until everything appended so far is durable."""
        ...


@dataclass(slots=True)
class Counters:
    """What has happened so far, for progress, metrics and the watchdog."""

    rounds: int = 0
    """Completions that came from engines."""
    recorded: int = 0
    """Completions that were found in the journal."""
    completion_tokens: int = 0
    verifier_tokens: int = 0
    judge_tokens: int = 0
    wasted_tokens: int = 0
    in_flight: int = 0
    waiting: int = 0
    samples: int = 0
    """Requests at work of chains that ask for several at once."""
    samples_waiting: int = 0
    """Such requests that wait to be sent."""
    held_s: float = 0.0
    """Seconds that chains were at work, summed over those that ended."""
    held_token_s: float = 0.0
    """The same seconds times the tokens that a chain held (`admission.held_tokens`)."""
    stops: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    """``<label>/<verdict>`` of the headline answers."""
    last_error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for other processes."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "stops": dict(self.stops), "verdicts": dict(self.verdicts)}


@dataclass(frozen=True, slots=True)
class Lost:
    """What tries cost that gave no completion."""

    tokens: int = 0
    """As far as known."""
    unknown: int = 0
    """Tries whose tokens no engine can tell."""

    def __add__(self, other: Lost) -> Lost:
        return Lost(self.tokens + other.tokens, self.unknown + other.unknown)


class Served(NamedTuple):
    """What became of a request."""

    observation: Observation
    lost: Lost
    verdict: str | None = None
    """Of a judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A chain that stopped, before it is graded."""

    stop: Stop
    observations: tuple[Observation, ...]
    judged: tuple[str | None, ...]
    """Verdicts of a judge, one an observation."""
    lost: Lost
    seconds: float
    held_tokens: int
    """See `pipeline.planning.admission.held_tokens`."""
    error: str | None = None
    """What broke the chain itself; failed requests carry their own error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """What every record of this attempt carries."""

    run: str
    attempt: int
    models: Mapping[str, str] = field(default_factory=dict)
    """Names of the models, by role."""
    stop_flag: str | None = None
    """What is found in replies that ask for no further revision (``science.generator``)."""
