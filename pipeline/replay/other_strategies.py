"""Other strategies over a run's journal: what they would have decided on what one strategy drew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pipeline.answers.answer_rules import RULES, Rule
from pipeline.config.science import PriorsConfig
from pipeline.config.strategies import strategies_of
from pipeline.core.errors import ReplayMissError
from pipeline.core.protocol import Completion, Observation, Question, Request, Strategy
from pipeline.records.journal import QUESTION_KEY, ByQuestion, QuestionKey
from pipeline.records.outcome import outcome_of, schema_of
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
    questions = [_asked(row, priors) for row in rows_of(read_questions(run.folder))]
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


def _asked(row: Row, priors: PriorsConfig) -> Question:
    question = question_of(row)
    if priors.a is None or priors.b is None:
        return question
    return replace(question, priors=replace(question.priors, a=priors.a, b=priors.b))
