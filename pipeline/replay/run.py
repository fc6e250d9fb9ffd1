"""*replay_run*, *replay_other*: strategies replayed over the journal of a run.

What a run wrote down is enough to take every decision of it again: `replay_run` does, record for
record, and says where that does not lead to the outcomes that the run wrote. `replay_other` says
what other strategies would have decided on the completions that one of the run's own drew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pipeline.answers.answer_rules import RULES, Rule
from pipeline.config.science import PriorsConfig
from pipeline.config.strategies import own_rules_of, rules_of, strategies_of
from pipeline.core.errors import DataError, ReplayMissError
from pipeline.core.protocol import Completion, Observation, Question, Request, Strategy
from pipeline.records.journal import QUESTION_KEY, ByQuestion, QuestionKey
from pipeline.records.outcome import TOKEN_KINDS, columns_of, last_outcomes, outcome_of, schema_of
from pipeline.records.question_blocks import Blocks, journal_by_question
from pipeline.records.questions import question_of, read_questions
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.table_rows import RowsTable
from pipeline.records.trajectory import Row
from pipeline.replay.exact import (
    Recorded,
    Recording,
    RecordingKind,
    Replayed,
    check_replayable,
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
        DataError: where the run has questions without an outcome yet.
        ReplayMissError: where the journal lacks what a decision rests on.
    """
    science = run.config().science
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
        for benchmark, asked in by_benchmark.items()
        for question in asked
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
            for benchmark, asked in by_benchmark.items():
                compared: dict[QuestionKey, list[str]] = {}
                # failures may have been tried again since, and questions been added
                learnt = {name: of[benchmark] for name, of in known.items() if benchmark in of}
                for phase, name, replayed in replay_each(strategy, asked, source.of(label), learnt):
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
        recording = Recording.of(RecordingKind.JOURNAL, question, records)
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


_NO_PRIORS = PriorsConfig()
_GRADED = ("round_answers", "round_tokens", "round_scores")
"""What tells completions of one question apart: a grader that reads whole replies may judge two
with one answer differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedStrategy:
    """One strategy over a run."""

    source: str
    """Labels of the strategies whose completions it was replayed over: one, or one a chain."""
    outcomes: pa.Table
    """One a question and chain, as the run would have written them
    (`pipeline.records.outcome.schema_of`)."""


def replay_other(
    run: RunDir,
    strategies: Mapping[str, Strategy],
    priors: PriorsConfig = _NO_PRIORS,
    rules: Sequence[Rule] = RULES,
) -> dict[str, ReplayedStrategy]:
    """Replay strategies over what a run's own strategies drew.

    Each is replayed over the completions of one strategy of the run: the first, in the order of its
    configuration, that drew all that is asked for; where that is a chain of a run that drew several
    of each question, then over every other chain too.

    Args:
        run: with a journal and graded outcomes.
        strategies: by label.
        priors: instead of those of the run's questions, where a and b are given.
        rules: answer rules that their outcomes are read by.

    Raises:
        ConfigError: at a strategy that asks for more than completions of a pool.
        ReplayMissError: where no strategy of the run drew what one asks for.
    """
    questions = [_with_priors(row, priors) for row in rows_of(read_questions(run.folder))]
    sources = strategies_of(run.config().science)
    keys = [(label, q.benchmark, q.question_id) for label in sources for q in questions]
    columns = (*QUESTION_KEY, *_GRADED, "round_verdicts")
    graded = ByQuestion(run.outcomes(columns=columns))
    found: dict[str, ReplayedStrategy] = {}
    with journal_by_question(run.journal, keys) as drawn:
        labels = list(dict.fromkeys(label for label, _, _ in drawn.keys))
        further = [label for label in labels if getattr(sources[label], "chain", 0)]
        for label, strategy in strategies.items():
            check_replayable(strategy, RecordingKind.POOL)
            miss: ReplayMissError | None = None
            for source in (each for each in labels if each not in further):
                over = _Source(run.run_id, source, drawn, graded, rules)
                try:
                    outcomes = over.outcomes(label, strategy, questions)
                except ReplayMissError as error:
                    miss = miss or error
                    continue
                chains = further if sources[source].kind == "mr_thinking" else []
                more = [_Source(run.run_id, each, drawn, graded, rules) for each in chains]
                tables = [outcomes, *(one.outcomes(label, strategy, questions) for one in more)]
                found[label] = ReplayedStrategy(
                    source=", ".join([source, *chains]), outcomes=pa.concat_tables(tables)
                )
                break
            else:
                raise ReplayMissError(
                    f"{label} must be replayed over completions of one strategy of {run.address}, "
                    f"none of {', '.join(labels) or 'none'} drew all that it asks for: {miss}"
                )
    return found


class _Source:
    """What one strategy of a run drew, a question at a time."""

    def __init__(
        self, run: str, source: str, drawn: Blocks, graded: ByQuestion, rules: Sequence[Rule]
    ) -> None:
        self._run, self._source, self._rules = run, source, rules
        self._drawn, self._graded = drawn, graded
        self._recording: tuple[QuestionKey, Recording] | None = None

    def outcomes(self, label: str, strategy: Strategy, questions: Sequence[Question]) -> pa.Table:
        """The outcomes of another strategy, benchmark by benchmark."""
        made, order, count = RowsTable(schema_of(self._rules)), list[int](), 0
        for benchmark in dict.fromkeys(question.benchmark for question in questions):
            asked = {q.question_id: q for q in questions if q.benchmark == benchmark}
            last: dict[str, int] = {}
            for _, name, replayed in replay_each(strategy, [*asked.values()], self._answer):
                made.add(self._outcome(label, asked[name], replayed))
                last[name], count = count, count + 1
            order += [last[name] for name in asked]
        return made.table().take(pa.array(order, type=pa.int64()))

    def _key(self, question: Question) -> QuestionKey:
        return (self._source, question.benchmark, question.question_id)

    def _answer(self, question: Question, request: Request) -> Observation:
        key = self._key(question)
        if self._recording is None or self._recording[0] != key:
            rows = [Recorded.of_row(row).as_first for row in self._drawn.rows(key)]
            self._recording = key, Recording.of(RecordingKind.POOL, question, rows)
        return self._recording[1].find(request)

    def _outcome(self, label: str, question: Question, replayed: Replayed) -> Row:
        verdicts: dict[tuple[Any, ...], str | None] = {}
        for row in self._graded.get(self._key(question), ()):
            told = zip(*(row[name] for name in _GRADED), strict=True)
            for marks, verdict in zip(told, row["round_verdicts"], strict=True):
                verdicts |= dict.fromkeys(_fewer_marks(marks), verdict)
        return outcome_of(
            run=self._run,
            attempt=0,
            strategy=label,
            phase="replay",
            benchmark=question.benchmark,
            question_id=question.question_id,
            level=None,
            stop=replayed.stop,
            observations=replayed.completions,
            verdicts=[_verdict(seen, verdicts) for seen in replayed.completions],
            wasted_tokens=0,
            seconds=0.0,
            rules=self._rules,
        )


def _fewer_marks(marks: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """All marks of a completion, then fewer: a score may not have been asked for."""
    return (marks[:end] for end in range(len(marks), 0, -1))


def _verdict(seen: Observation, verdicts: Mapping[tuple[Any, ...], str | None]) -> str | None:
    if not isinstance(seen, Completion):
        return None
    marks = (seen.answer, seen.completion_tokens, seen.score)
    return next((verdicts[each] for each in _fewer_marks(marks) if each in verdicts), None)


def _with_priors(row: Row, priors: PriorsConfig) -> Question:
    question = question_of(row)
    if priors.a is None or priors.b is None:
        return question
    return replace(question, priors=replace(question.priors, a=priors.a, b=priors.b))
