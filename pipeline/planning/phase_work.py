"""*phase_work*: lists the work left in a phase, and computes the statistics between phases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from pipeline.core.errors import DataError
from pipeline.core.protocol import (
    Observation,
    Phase,
    PhaseStats,
    Question,
    QuestionRecord,
    Request,
    Strategy,
)
from pipeline.planning.schedule import forecast
from pipeline.records.journal import QuestionKey, Resumed
from pipeline.records.questions import SCHEMA as QUESTION_SCHEMA
from pipeline.records.questions import question_of
from pipeline.records.trajectory import Row
from pipeline.replay.exact import drive

SCHEMA = pa.schema(
    [
        pa.field("strategy", pa.string(), nullable=False),
        *QUESTION_SCHEMA,
        pa.field("expected_completions", pa.int32(), nullable=False),
        pa.field("expected_tokens", pa.float64(), nullable=False),  # of the whole chain
        pa.field("turn", pa.float64(), nullable=False),  # who has most is let in first
    ]
)

PREPARED = "prepared"
"""Name under which the statistics from before the first phase are kept."""

Strategies = Mapping[str, Strategy]
ByBenchmark = Mapping[str, PhaseStats | None]
"""What is known of each benchmark; None where nothing was learnt from it."""
OutcomeKey = tuple[str, str, str, str]
"""(strategy, phase, benchmark, question_id)."""


def phase_count(strategies: Strategies) -> int:
    """How many phases the run has: as many as its longest strategy."""
    return max(len(strategy.phases()) for strategy in strategies.values())


def phase_work(
    strategies: Strategies,
    phase: int,
    questions: Sequence[Row],
    statistics: Mapping[tuple[str, str], ByBenchmark],
    done: set[OutcomeKey],
    mean_tokens: Mapping[str, float] | None = None,
    tokens_left: float = math.inf,
) -> list[Row]:
    """The rows of a phase that have no outcome yet, longest expected chain first; where the caps of
    the run do not let all of them end, the shortest until it has an answer first.

    Args:
        statistics: by (strategy, phase name), then by benchmark.
        done: keys of the outcomes that exist.
        mean_tokens: of a completion so far, by benchmark
            (`pipeline.planning.schedule.running_means`).
        tokens_left: completion tokens that may still be spent.
    """
    means = mean_tokens or {}
    rows: list[Row] = []
    until_answer: list[float] = []
    for label, strategy in strategies.items():
        phases = strategy.phases()
        if phase >= len(phases):
            continue
        current = phases[phase]
        known = statistics.get((label, phases[phase - 1].name if phase else PREPARED), {})
        for row in questions:
            of_benchmark = known.get(row["benchmark"])
            key = (label, current.name, row["benchmark"], row["question_id"])
            if key in done or not current.selects(row["question_id"], of_benchmark):
                continue
            question = question_of(row)
            expected = forecast(
                current.strategy, question, of_benchmark, means.get(row["benchmark"])
            )
            whole = expected.completions if current.answers else strategy.n
            until_answer.append(max(whole, expected.completions) * expected.tokens_each)
            rows.append(
                {
                    **row,
                    "strategy": label,
                    "expected_completions": expected.completions,
                    "expected_tokens": expected.tokens,
                    "turn": expected.tokens,
                }
            )
    if sum(row["expected_tokens"] for row in rows) > tokens_left:
        rows = [{**row, "turn": -need} for row, need in zip(rows, until_answer, strict=True)]
    rows.sort(key=lambda row: -row["turn"])  # stable: arrival order among equals
    return rows


def prepared_statistics(
    strategy: Strategy, questions: Sequence[Row]
) -> dict[str, PhaseStats] | None:
    """What a strategy knows from the questions alone, by benchmark; None where it asks nothing."""
    learnt: dict[str, PhaseStats] = {}
    for benchmark, rows in _by_benchmark(questions):
        statistics = strategy.prepare([question_of(row) for row in rows])
        if statistics is None:
            return None
        learnt[benchmark] = statistics
    return learnt


def folded_statistics(
    label: str,
    strategy: Strategy,
    phase: int,
    questions: Sequence[Row],
    recorded: Callable[[QuestionKey], Sequence[Row]],
    before: ByBenchmark,
) -> dict[str, PhaseStats | None]:
    """What a finished phase teaches, by benchmark: its own fold over the journal.

    Args:
        recorded: rows of the journal by (strategy, benchmark, question_id); it is asked in the
            order of `taking_part`.

    Raises:
        DataError: where a selected question has not got to its stop.
    """
    current = strategy.phases()[phase]
    learnt: dict[str, PhaseStats | None] = {}
    for benchmark, rows in _by_benchmark(questions):
        known = before.get(benchmark)
        records = {
            row["question_id"]: _record(
                current, question_of(row), known, recorded(_key(label, row))
            )
            for row in rows
            if current.selects(row["question_id"], known)
        }
        learnt[benchmark] = current.fold(records, known)
    return learnt


def taking_part(
    label: str, phase: Phase, questions: Sequence[Row], before: ByBenchmark
) -> list[QuestionKey]:
    """The questions that a phase selects, benchmark by benchmark."""
    return [
        _key(label, row)
        for benchmark, rows in _by_benchmark(questions)
        for row in rows
        if phase.selects(row["question_id"], before.get(benchmark))
    ]


def _record(
    phase: Phase, question: Question, known: PhaseStats | None, rows: Sequence[Row]
) -> QuestionRecord:
    """Drive the phase over what is recorded."""
    recording = Resumed(rows)

    def answer(request: Request) -> Observation:
        told = recording.take(request)
        if told is None:
            raise DataError(
                f"a finished phase must have recorded every completion, {request.address} of "
                f"question {question.question_id!r} of {question.benchmark!r} is not in the journal"
            )
        return told

    played = drive(phase.strategy, question, answer, known, as_live=True)
    return phase.record(question, played.completions, played.stop)


def _key(label: str, row: Row) -> QuestionKey:
    return (label, row["benchmark"], row["question_id"])


def _by_benchmark(questions: Sequence[Row]) -> Iterator[tuple[str, Iterator[Row]]]:
    """Each benchmark with its questions, which are gone through once for each."""
    for benchmark in dict.fromkeys(row["benchmark"] for row in questions):
        yield benchmark, (row for row in questions if row["benchmark"] == benchmark)
