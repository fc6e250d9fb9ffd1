"""*replay_run*: replays the strategies of a run over its journal.

The journal is enough to take every decision of the run again, record for record; `replay_run` says
where that does not lead to the outcomes that the run wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipeline.answers.answer_rules import Rule
from pipeline.config.strategies import (
    own_rules_of,
    require_same_decisions,
    rules_of,
    strategies_of,
)
from pipeline.core.errors import DataError
from pipeline.core.protocol import Observation, Question, Request, Strategy
from pipeline.records.journal import ByQuestion, QuestionKey
from pipeline.records.outcome import TOKEN_KINDS, columns_of, last_outcomes, outcome_of
from pipeline.records.question_blocks import Blocks, journal_by_question
from pipeline.records.questions import question_of, read_questions
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.trajectory import Row
from pipeline.replay.exact import (
    Recorded,
    Recording,
    Replayed,
    replay_each,
)

_DECIDED = (
    "stop_reason",
    "stop_rounds",
    "completions",
    "round_answers",
    "round_scores",
    "round_tokens",
    *TOKEN_KINDS,
    "p0",
    "p0_source",
    "a",
    "b",
    "posterior_path",
)
"""Columns of an outcome that follow from the recording alone, besides those of answer rules."""


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
        ConfigError: where an earlier version decided by what is gone.
        DataError: where the run has questions without an outcome yet.
        ReplayMissError: where the journal lacks what a decision rests on.
    """
    science = run.config().science
    require_same_decisions(science)
    strategies, rules = strategies_of(science), rules_of(science)
    for rule in own_rules_of(science):
        rule.code()  # before the journal is read
    written = _Written(run, strategies)
    by_benchmark: dict[str, list[Question]] = {}
    for row in rows_of(read_questions(run.folder)):
        by_benchmark.setdefault(row["benchmark"], []).append(question_of(row))
    order = [
        (label, benchmark, question.question_id)
        for label in strategies
        for benchmark, of_benchmark in by_benchmark.items()
        for question in of_benchmark
    ]
    for label, benchmark, name in order:
        if written.last((label, benchmark, name)) is None:
            raise DataError(
                f"a run must be finished to be replayed, question {name!r} of {benchmark!r} has no "
                f"outcome under {label}: resume {run.address}"
            )
    differences: list[str] = []
    with journal_by_question(run.journal, order) as drawn:
        source = _Journal(drawn)
        for label, strategy in strategies.items():
            known = {p.name: run.statistics(label, p.name) or {} for p in strategy.phases()}
            for benchmark, of_benchmark in by_benchmark.items():
                compared: dict[QuestionKey, list[str]] = {}
                # failures may have been tried again since, and questions been added
                learnt = {name: of[benchmark] for name, of in known.items() if benchmark in of}
                for phase, name, replayed in replay_each(
                    strategy, of_benchmark, source.of(label), learnt
                ):
                    key = (label, benchmark, name)
                    before = written.last(key)
                    assert before is not None  # looked for above
                    compared[key] = [*_compared(before, phase, replayed, rules)]
                for found in compared.values():
                    differences += found
        used, unused = source.counts()
    return RunReplay(
        outcomes=len(written), records=used, unused=unused, differences=tuple(differences)
    )


class _Written:
    """The outcomes that a run wrote; those of one question are Python objects at a time."""

    def __init__(self, run: RunDir, strategies: Mapping[str, Strategy]) -> None:
        self._strategies = strategies
        table = run.outcomes()
        known = {(name, phase.name) for name, s in strategies.items() for phase in s.phases()}
        phases = zip(*(table[name].to_pylist() for name in ("strategy", "phase")), strict=True)
        self._rows = ByQuestion(
            table.filter(pa.array([each in known for each in phases], pa.bool_()))
        )

    def __len__(self) -> int:
        """Questions under a strategy that have one."""
        return len(self._rows)

    def last(self, key: QuestionKey) -> Row | None:
        """That of the last phase which selected a question, where there is one."""
        found = last_outcomes(self._rows.get(key, ()), self._strategies)
        return found[0] if found else None


class _Journal:
    """Answers requests from a journal, and counts the rows it used."""

    def __init__(self, drawn: Blocks) -> None:
        self._drawn = drawn
        self._recording: tuple[QuestionKey, Recording, dict[Any, int]] | None = None
        self._used: dict[QuestionKey, int] = {}
        self._rows = 0

    def of(self, label: str) -> Callable[[Question, Request], Observation]:
        """What was recorded for the requests of one strategy."""

        def answer(question: Question, request: Request) -> Observation:
            key = (label, question.benchmark, question.question_id)
            if self._recording is None or self._recording[0] != key:
                self._recording = (key, *self._read(key, question))
            _, recording, places = self._recording
            found = recording.find(request)
            self._used[key] |= 1 << places[request.address, request.digest()]
            return found

        return answer

    def counts(self) -> tuple[int, int]:
        """Records that a request was answered from, each once, and all other rows."""
        used = sum(places.bit_count() for places in self._used.values())
        others = (key for key in self._drawn.keys if key not in self._used)
        return used, self._rows + sum(len(self._drawn.rows(key)) for key in others) - used

    def _read(self, key: QuestionKey, question: Question) -> tuple[Recording, dict[Any, int]]:
        """A recording, and numbers for its requests, the same each time."""
        records = [Recorded.of_row(row) for row in self._drawn.rows(key)]
        if key not in self._used:
            self._used[key] = 0
            self._rows += len(records)
        places = dict.fromkeys((record.address, record.digest) for record in records)
        recording = Recording.of(question, records)
        return recording, {place: number for number, place in enumerate(places)}


def _compared(written: Row, phase: str, replayed: Replayed, rules: Sequence[Rule]) -> Iterator[str]:
    """Columns in which the outcome that was written and the one that replay gives differ."""
    about = (
        f"{written['strategy']}, question {written['question_id']!r} of {written['benchmark']!r}"
    )
    if phase != written["phase"]:
        yield f"{about}, phase: written {written['phase']!r}, replayed {phase!r}"
        return
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
        rules=rules,
    )
    for name in (*_DECIDED, *columns_of(rules)):
        if again[name] != written[name]:
            yield f"{about}, {name}: written {written[name]!r}, replayed {again[name]!r}"
