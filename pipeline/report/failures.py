"""What went wrong: failures, answers that could not be graded, and questions without an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.records.trajectory import Seen
from pipeline.report.run_data import Cell
from pipeline.theory.transitions import QuestionKey

_EXAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One kind of trouble of one cell."""

    cell: Cell
    what: str
    count: int
    examples: tuple[tuple[str, str], ...]
    """(question id, what came) of the first few."""


def troubles(
    cells: Sequence[Cell], questions: Mapping[str, Mapping[QuestionKey, Seen]]
) -> list[Trouble]:
    """Kinds of trouble of each cell; none where all went well.

    Args:
        questions: of each run, by its name.
    """
    found = []
    for cell in cells:
        known = questions[cell.run]
        came: dict[str, list[tuple[str, str]]] = {}
        for key, row in cell.by_question.items():
            for what, example in _of(cell, row, known.get(key)):
                came.setdefault(what, []).append((row["question_id"], example))
        found += [
            Trouble(cell=cell, what=what, count=len(examples), examples=tuple(examples[:_EXAMPLES]))
            for what, examples in came.items()
        ]
    return found


def _of(cell: Cell, row: Seen, question: Seen | None) -> list[tuple[str, str]]:
    """(kind, what came) of one question."""
    rule = cell.rule.value
    if row["error"] is not None:
        return [(f"failed: {row['error'].partition(':')[0][:60]}", row["error"][:400])]
    if row[f"verdict_{rule}"] == "ungraded":
        gold = question["gold"] if question is not None else None
        return [("ungraded answer", f"answer {row[f'answer_{rule}']!r}, gold {gold!r}"[:400])]
    if row[f"answer_{rule}"] is None:
        return [("no answer", f"none in {row['completions']} completions")]
    return []
