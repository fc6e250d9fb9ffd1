"""*phase_work*, *Forecast*: orders the work left in a phase, longest expected chains first.

A question's completions are sequential, so the last long chain to start decides when a run ends.
Expected work is expected completions times expected tokens of one: the question's own forecast,
else the mean of what its benchmark has been seen to take. Once a chain has drawn, what it drew is
the better forecast of what it will draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.errors import DataError
from pipeline.core.protocol import (
    Completion,
    Observation,
    Phase,
    PhaseStats,
    Question,
    QuestionRecord,
    Request,
    Strategy,
)
from pipeline.records.journal import QuestionKey, Resumed
from pipeline.records.questions import SCHEMA as QUESTION_SCHEMA
from pipeline.records.questions import question_of
from pipeline.records.trajectory import Row
from pipeline.replay.exact import drive
from pipeline.theory.markov import Regime, regime
from pipeline.theory.stopping import expected_rounds

MEANS_OF = ("benchmark", "completion_tokens", "error")

_TOKENS_UNKNOWN = 1_000.0  # of a round, where nothing is known; only ratios matter


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a chain is expected to take."""

    completions: int
    """Of the whole chain, >= 1."""
    tokens_each: float
    """Completion tokens of one, > 0."""

    @property
    def tokens(self) -> float:
        """Completion tokens of the whole chain, > 0."""
        return self.completions * self.tokens_each

    def remaining(self, drawn: Sequence[Observation]) -> float:
        """Completion tokens that are still to come, > 0, given what came so far: one completion at
        least for a chain that goes on. Failed requests are no completions."""
        made = [o.completion_tokens for o in drawn if isinstance(o, Completion)]
        each = sum(made) / len(made) if any(made) else self.tokens_each
        return max(1, self.completions - len(made)) * each


def forecast(
    strategy: Strategy,
    question: Question,
    statistics: PhaseStats | None = None,
    mean_tokens: float | None = None,
) -> Forecast:
    """What a chain is expected to take before its first completion.

    Args:
        strategy: its budget, gate and stopping rule bound the completions.
        question: its priors say p0, a, b and the tokens of a round where they know them.
        statistics: of the data set; its a and b are taken before those of the priors.
        mean_tokens: of a completion of this benchmark so far, for questions without a forecast.
    """
    each = question.priors.tokens_per_round or mean_tokens or _TOKENS_UNKNOWN
    source = statistics if statistics is not None else question.priors
    completions = expected_completions(strategy, p0=question.priors.p0, a=source.a, b=source.b)
    return Forecast(completions=completions, tokens_each=each)


def expected_completions(
    strategy: Strategy, *, p0: float | None, a: float | None, b: float | None
) -> int:
    """Expected completions of a chain, >= 1: its budget, less what gate and forecast cut off."""
    budget = strategy.n
    if p0 is None or a is None or b is None:
        return budget
    sigma: float | None = getattr(strategy, "sigma", None)
    if (
        sigma is not None
        and getattr(strategy, "gate", True)
        and regime(p0=p0, a=a, b=b, sigma=sigma) is not Regime.BENEFICIAL
    ):
        return 1
    rounds = expected_rounds(strategy, p0=p0, a=a, b=b)
    return budget if rounds is None else min(budget, rounds + 1)


def running_means(journal: Iterable[pa.Table]) -> Mapping[str, float]:
    """Mean tokens of a completion by benchmark, over all that a journal holds.

    Args:
        journal: piece by piece, at least `MEANS_OF`; failed requests are left out.
    """
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    tokens = "completion_tokens"
    for piece in journal:
        made = piece.filter(pc.is_null(piece["error"])).select(["benchmark", tokens])
        totals = made.group_by("benchmark").aggregate([(tokens, "sum"), (tokens, "count")])
        for row in totals.to_pylist():
            sums[row["benchmark"]] += row[f"{tokens}_sum"] or 0
            counts[row["benchmark"]] += row[f"{tokens}_count"]
    return {benchmark: total / counts[benchmark] for benchmark, total in sums.items() if total}


SCHEMA = pa.schema(
    [
        pa.field("strategy", pa.string(), nullable=False),
        *QUESTION_SCHEMA,
        pa.field("expected_completions", pa.int32(), nullable=False),
        pa.field("expected_tokens", pa.float64(), nullable=False),  # of the whole chain
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
) -> list[Row]:
    """The rows of a phase that have no outcome yet, longest expected chain first.

    Args:
        statistics: by (strategy, phase name), then by benchmark.
        done: keys of the outcomes that exist.
        mean_tokens: of a completion so far, by benchmark
            (`pipeline.planning.phase_work.running_means`).
    """
    means = mean_tokens or {}
    rows: list[Row] = []
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
            rows.append(
                {
                    **row,
                    "strategy": label,
                    "expected_completions": expected.completions,
                    "expected_tokens": expected.tokens,
                }
            )
    rows.sort(key=lambda row: -row["expected_tokens"])  # stable: arrival order among equals
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
        observation = recording.take(request)
        if observation is None:
            raise DataError(
                f"a finished phase must have recorded every completion, {request.address} of "
                f"question {question.question_id!r} of {question.benchmark!r} is not in the journal"
            )
        return observation

    played = drive(phase.strategy, question, answer, known, as_live=True)
    return phase.record(question, played.completions, played.stop)


def _key(label: str, row: Row) -> QuestionKey:
    return (label, row["benchmark"], row["question_id"])


def _by_benchmark(questions: Sequence[Row]) -> Iterator[tuple[str, Iterator[Row]]]:
    """Each benchmark with its questions, which are gone through once for each."""
    for benchmark in dict.fromkeys(row["benchmark"] for row in questions):
        yield benchmark, (row for row in questions if row["benchmark"] == benchmark)
