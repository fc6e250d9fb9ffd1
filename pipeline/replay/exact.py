"""Exact replay: strategies driven over recorded completions.

Two kinds of recording. A **journal** is what one run drew for one strategy: replaying that strategy
takes the same decisions, record for record. A **pool** holds completions drawn beforehand: replay
takes the decisions that a live run would take if the engines returned them, for strategies whose
prompts depend on nothing but earlier completions of that pool. Nothing is ever resampled: what
was not recorded for a request is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pipeline.core.errors import ConfigError, ReplayMissError
from pipeline.core.protocol import (
    Failure,
    Observation,
    PhaseStats,
    Question,
    QuestionRecord,
    Request,
    Stop,
    StopReason,
    Strategy,
    decisions,
    textless,
)
from pipeline.records.journal import Facts, answering, as_requested
from pipeline.records.trajectory import address_of, observation_of

Address = tuple[str, int, int, int]
"""(pool, chain, round, sample), see `Request.address`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One completion or failure and the request that it answered."""

    address: Address
    digest: str
    """`Request.digest` of its request."""
    observation: Observation
    seconds: float | None = None
    """That the completion took, where they were recorded."""

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Recorded:
        """What a row of a journal or pool records (`pipeline.records.trajectory`)."""
        return cls(
            address=address_of(row),
            digest=row["request_digest"],
            observation=observation_of(row),
            seconds=row.get("seconds"),
        )

    @property
    def as_first(self) -> Recorded:
        """The same under the address of chain 0, which strategies ask for."""
        pool, chain, round_, sample = self.address
        return self if chain == 0 else replace(self, address=(pool, 0, round_, sample))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What was recorded for one question, found by address and checked by digest."""

    benchmark: str
    question_id: str
    entries: Mapping[Address, Sequence[Recorded]] = field(repr=False)
    """Several where work was redone."""

    @classmethod
    def of(cls, question: Question, recorded: Iterable[Recorded]) -> Recording:
        """Index what was recorded for `question`, in the order of writing."""
        entries: dict[Address, list[Recorded]] = {}
        for record in recorded:
            entries.setdefault(record.address, []).append(record)
        return cls(benchmark=question.benchmark, question_id=question.question_id, entries=entries)

    def find(self, request: Request, digest: str | None = None) -> Observation:
        """What was recorded for a request (`pipeline.records.journal`), without a verifier score
        that the request does not ask for.

        Args:
            request: as a strategy asks it.
            digest: of the request, where it is known already.

        Raises:
            ReplayMissError: if nothing was, or for another prompt or sampling parameters, or
                without the verifier score that the request asks for.
        """
        records = self.entries.get(request.address, ())
        if not records:
            raise self._miss(request, "nothing was recorded there")
        digest = digest or request.digest()
        found = answering(records, _facts, request, digest)
        if found is not None:
            return as_requested(found.observation, request)
        if any(record.digest == digest for record in records):
            raise self._miss(request, "a completion without a score was recorded there")
        raise self._miss(
            request,
            f"another request was recorded there (digest {records[0].digest[:12]}, wanted "
            f"{digest[:12]}): prompt and sampling parameters must be the same",
        )

    def _miss(self, request: Request, what: str) -> ReplayMissError:
        pool, chain, round, sample = request.address
        return ReplayMissError(
            f"benchmark {self.benchmark!r}, question {self.question_id!r}, pool {pool}, chain "
            f"{chain}, round {round}, sample {sample} of {len(self.entries)} recorded addresses: "
            f"{what}"
        )


def _facts(record: Recorded) -> Facts:
    seen = record.observation
    failed = isinstance(seen, Failure)
    return Facts(record.digest, failed, getattr(seen, "score", None) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A question under a strategy: how it stopped and on what."""

    stop: Stop
    requests: tuple[Request, ...]
    """In request order."""
    completions: tuple[Observation, ...]
    """One a request; the rounds of `stop` are positions here."""
    earlier: tuple[Observation, ...] = ()
    """What earlier phases drew for the question that this one did not ask for again: in its bill,
    and in no answer. Without texts."""


def drive(
    strategy: Strategy,
    question: Question,
    answer: Callable[[Request], Observation],
    statistics: PhaseStats | None = None,
    *,
    as_live: bool = False,
) -> Replayed:
    """Run a strategy on one question, each request answered by `answer`.

    Args:
        as_live: whether a strategy that breaks has failed at the question, as in a run.
    """
    loop = decisions(strategy, question, statistics)
    made: list[Request] = []
    received: list[Observation] = []
    observations: tuple[Observation, ...] = ()
    while True:
        try:
            requests = loop.send(observations) if made else next(loop)
        except StopIteration as end:
            stop: Stop = end.value
            break
        except Exception as error:
            if not as_live or isinstance(error, MemoryError):
                raise
            stop = Stop(reason=StopReason.FAILED, rounds=())
            break
        observations = tuple(answer(request) for request in requests)
        made += requests
        received += observations
    return Replayed(stop=stop, requests=tuple(made), completions=tuple(received))


def replay(strategy: Strategy, question: Question, recording: Recording) -> Replayed:
    """Run a strategy on one question over what was recorded for it.

    Raises:
        ReplayMissError: if a request was not recorded.
        ValueError: if the recording is of another question.
    """
    recorded, wanted = (
        (recording.benchmark, recording.question_id),
        (question.benchmark, question.question_id),
    )
    if recorded != wanted:
        raise ValueError(f"recording must be of question {wanted!r}, got one of {recorded!r}")
    return drive(strategy, question, recording.find)


def check_replayable(strategy: Strategy) -> None:
    """Refuse a pool to strategies whose prompts depend on more than earlier completions of it.

    Raises:
        ConfigError: naming the strategy.
    """
    if not strategy.pool_replayable:
        raise ConfigError(
            f"a pool can be replayed by strategies that only ask for completions of that pool, "
            f"got {strategy.kind}: replay the journal of its own run"
        )


def replay_phases(
    strategy: Strategy,
    questions: Sequence[Question],
    answer: Callable[[Question, Request], Observation],
) -> dict[str, Replayed]:
    """Run a strategy, phase by phase, on all questions of one benchmark.

    Args:
        strategy: with or without phases of its own.
        questions: of one benchmark, ids unique.
        answer: what a request of a question gets, for instance `Recording.find` of its recording;
            the same whenever the same request is asked again.

    Returns:
        By question id, the outcome of the last phase that selected the question.
    """
    return {name: outcome for _, name, outcome in replay_each(strategy, questions, answer)}


def replay_each(
    strategy: Strategy,
    questions: Sequence[Question],
    answer: Callable[[Question, Request], Observation],
    learnt: Mapping[str, PhaseStats | None] | None = None,
) -> Iterator[tuple[str, str, Replayed]]:
    """As `replay_phases`, one outcome after the other with the phase and the question that it is
    of; the last of a question counts. Nothing is kept but what later phases rest on.

    Args:
        answer: is asked in the order of the questions, once a phase.
        learnt: of a run that is replayed: by phase, what it learnt from it, where that is known;
            else it is learnt anew.
    """
    as_live, learnt = learnt is not None, learnt or {}
    statistics = strategy.prepare(questions)
    paid: dict[str, dict[Address, Observation]] = {}
    phases = strategy.phases()
    for phase in phases:
        goes_on = phase is not phases[-1]
        records: dict[str, QuestionRecord] = {}
        for question in questions:
            if not phase.selects(question.question_id, statistics):
                continue
            answers = partial(answer, question)
            outcome = drive(phase.strategy, question, answers, statistics, as_live=as_live)
            drawn = {
                r.address: o for r, o in zip(outcome.requests, outcome.completions, strict=True)
            }
            before = paid.get(question.question_id, {})
            earlier = tuple(o for at, o in before.items() if at not in drawn)
            yield phase.name, question.question_id, replace(outcome, earlier=earlier)
            if goes_on:
                if phase.stream is not None:
                    slim = {address: textless(seen) for address, seen in drawn.items()}
                    paid[question.question_id] = before | slim
                records[question.question_id] = phase.record(
                    question, outcome.completions, outcome.stop
                )
        if phase.name in learnt:
            statistics = learnt[phase.name]
        elif goes_on:
            statistics = phase.fold(records, statistics)
