"""Replay of a whole run over its own journal: the same decisions, record for record.

What a run wrote down is enough to take every decision of it again. `differences` does, and says
where that does not lead to the outcomes that the run wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.config.strategies import strategies_of
from pipeline.core.errors import DataError
from pipeline.core.protocol import Observation, Question, Request
from pipeline.records.journal import ByQuestion, read_journal
from pipeline.records.outcome import SCHEMA, TOKEN_KINDS, last_outcomes, outcome_of
from pipeline.records.questions import question_of
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.trajectory import Row
from pipeline.replay.exact import Recorded, Recording, RecordingKind, Replayed, replay_phases

_DECIDED = (
    "stop_reason",
    "stop_rounds",
    "completions",
    "round_answers",
    "round_scores",
    "round_tokens",
    *(name for name in SCHEMA.names if name.startswith(("answer_", "verdict_"))),
    *TOKEN_KINDS,
    "p0",
    "p0_source",
    "a",
    "b",
    "posterior_path",
)
"""Columns of an outcome that follow from the recording alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReplay:
    """What came of replaying a run."""

    outcomes: int
    """Questions under a strategy that were replayed."""
    records: int
    """Rows of the journal that their decisions rest on."""
    unused: int
    """Rows that count and that nothing asked for: of questions that did not get to their stop."""
    differences: tuple[str, ...]
    """Where replay and run differ: strategy, question, column, both values."""


def replay_run(run: RunDir) -> RunReplay:
    """Replay every strategy of a run over the run's journal, and compare with its outcomes.

    Raises:
        DataError: where the run has questions without an outcome yet.
        ReplayMissError: where the journal lacks what a decision rests on.
    """
    strategies = strategies_of(run.config().science)
    written = {
        (row["strategy"], row["benchmark"], row["question_id"]): row
        for row in last_outcomes(rows_of(run.outcomes()), strategies)
    }
    table = read_journal(run.journal).table
    recorded = ByQuestion(table)
    questions = rows_of(run.folder.read_table("questions.parquet"))
    by_benchmark: dict[str, list[Question]] = {}
    for row in questions:
        by_benchmark.setdefault(row["benchmark"], []).append(question_of(row))
    differences: list[str] = []
    used = 0
    for label, strategy in strategies.items():
        for benchmark, asked in by_benchmark.items():
            source = _Journal(label, recorded)
            for question_id, replayed in replay_phases(strategy, asked, source.answer).items():
                key = (label, benchmark, question_id)
                if key not in written:
                    raise DataError(
                        f"a run must be finished to be replayed, question {question_id!r} of "
                        f"{benchmark!r} has no outcome under {label}: resume {run.address}"
                    )
                differences += _compared(written[key], replayed)
            used += source.used
    return RunReplay(
        outcomes=len(written),
        records=used,
        unused=table.num_rows - used,
        differences=tuple(differences),
    )


class _Journal:
    """Answers the requests of one strategy from its rows, and counts the rows it used."""

    def __init__(self, label: str, recorded: Mapping[tuple[str, str, str], list[Row]]) -> None:
        self._label, self._recorded = label, recorded
        self._recordings: dict[tuple[str, str], Recording] = {}
        self._used: set[tuple[Any, ...]] = set()

    @property
    def used(self) -> int:
        """Records that a request was answered from, each once."""
        return len(self._used)

    def answer(self, question: Question, request: Request) -> Observation:
        """What was recorded for a request."""
        key = (question.benchmark, question.question_id)
        if key not in self._recordings:
            rows = self._recorded.get((self._label, *key), [])
            records = [Recorded.of_row(row) for row in rows]
            self._recordings[key] = Recording.of(RecordingKind.JOURNAL, question, records)
        found = self._recordings[key].find(request)
        self._used.add((*key, request.address, request.digest()))
        return found


def _compared(written: Row, replayed: Replayed) -> Iterator[str]:
    """Columns in which the outcome that was written and the one that replay gives differ."""
    again = outcome_of(
        run=written["run"],
        attempt=written["attempt"],
        strategy=written["strategy"],
        phase=written["phase"],
        benchmark=written["benchmark"],
        question_id=written["question_id"],
        level=written["level"],
        stop=replayed.stop,
        observations=replayed.completions,
        verdicts=written["round_verdicts"],
        wasted_tokens=0,
        seconds=0.0,
    )
    for name in _DECIDED:
        if again[name] != written[name]:
            yield (
                f"{written['strategy']}, question {written['question_id']!r} of "
                f"{written['benchmark']!r}, {name}: written {written[name]!r}, replayed "
                f"{again[name]!r}"
            )
