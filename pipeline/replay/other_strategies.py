"""Other strategies over a run's journal: what they would have decided on what one strategy drew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.config.science import PriorsConfig
from pipeline.core.errors import ReplayMissError
from pipeline.core.protocol import Completion, Observation, Question, Request, Strategy
from pipeline.records.journal import ByQuestion, read_journal
from pipeline.records.outcome import outcome_of
from pipeline.records.questions import question_of
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.trajectory import Row
from pipeline.replay.exact import (
    Recorded,
    Recording,
    RecordingKind,
    Replayed,
    check_replayable,
    replay_phases,
)

_NO_PRIORS = PriorsConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """One strategy over a run."""

    source: str
    """Label of the strategy whose completions it was replayed over."""
    outcomes: tuple[Row, ...]
    """One a question, as the run would have written them."""


def replay_other(
    run: RunDir, strategies: Mapping[str, Strategy[Any]], priors: PriorsConfig = _NO_PRIORS
) -> dict[str, Rival]:
    """Replay strategies over what a run's own strategies drew.

    Each is replayed over the completions of one strategy of the run: the first, in the order of its
    configuration, that drew all that is asked for.

    Args:
        run: with a journal and graded outcomes.
        strategies: by label.
        priors: instead of those of the run's questions, where a and b are given.

    Raises:
        ConfigError: at a strategy that asks for more than completions of a pool.
        ReplayMissError: where no strategy of the run drew what one asks for.
    """
    recorded = ByQuestion(read_journal(run.journal).table)
    questions = [_asked(row, priors) for row in rows_of(run.folder.read_table("questions.parquet"))]
    verdicts = _verdicts(rows_of(run.outcomes()))
    labels = list(dict.fromkeys(label for label, _, _ in recorded))
    found: dict[str, Rival] = {}
    for label, strategy in strategies.items():
        check_replayable(strategy, RecordingKind.POOL)
        miss: ReplayMissError | None = None
        for source in labels:
            try:
                replayed = _over(strategy, questions, source, recorded)
            except ReplayMissError as error:
                miss = miss or error
                continue
            rows = [
                _outcome(run.run_id, label, question, outcome, verdicts.get((source, *key), {}))
                for question, key, outcome in replayed
            ]
            found[label] = Rival(source=source, outcomes=tuple(rows))
            break
        else:
            raise ReplayMissError(
                f"{label} must be replayed over completions of one strategy of {run.address}, none "
                f"of {', '.join(labels) or 'none'} drew all that it asks for: {miss}"
            )
    return found


def _over(
    strategy: Strategy[Any],
    questions: Sequence[Question],
    source: str,
    recorded: Mapping[tuple[str, str, str], list[Row]],
) -> list[tuple[Question, tuple[str, str], Replayed]]:
    recordings: dict[tuple[str, str], Recording] = {}

    def answer(question: Question, request: Request) -> Observation:
        key = (question.benchmark, question.question_id)
        if key not in recordings:
            rows = [Recorded.of_row(row) for row in recorded.get((source, *key), [])]
            recordings[key] = Recording.of(RecordingKind.POOL, question, rows)
        return recordings[key].find(request)

    found = []
    for benchmark in dict.fromkeys(question.benchmark for question in questions):
        asked = [question for question in questions if question.benchmark == benchmark]
        outcomes = replay_phases(strategy, asked, answer)
        found += [(q, (benchmark, q.question_id), outcomes[q.question_id]) for q in asked]
    return found


def _asked(row: Row, priors: PriorsConfig) -> Question:
    question = question_of(row)
    if priors.a is None or priors.b is None:
        return question
    return replace(question, priors=replace(question.priors, a=priors.a, b=priors.b))


def _verdicts(outcomes: Sequence[Row]) -> dict[tuple[str, str, str], dict[str | None, str | None]]:
    """Verdicts of answers by (strategy, benchmark, question)."""
    known: dict[tuple[str, str, str], dict[str | None, str | None]] = {}
    for row in outcomes:
        of = known.setdefault((row["strategy"], row["benchmark"], row["question_id"]), {})
        of.update(zip(row["round_answers"], row["round_verdicts"], strict=True))
    return known


def _outcome(
    run: str,
    label: str,
    question: Question,
    replayed: Replayed,
    verdicts: Mapping[str | None, str | None],
) -> Row:
    return outcome_of(
        run=run,
        attempt=0,
        strategy=label,
        phase="replay",
        benchmark=question.benchmark,
        question_id=question.question_id,
        level=None,
        stop=replayed.stop,
        observations=replayed.completions,
        verdicts=[
            verdicts.get(seen.answer) if isinstance(seen, Completion) else None
            for seen in replayed.completions
        ],
        wasted_tokens=0,
        seconds=0.0,
    )
