"""*Spending*: adds up tokens, their price, and failures of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.core.prices import Prices
from pipeline.records.outcome import TOKEN_KINDS
from pipeline.records.trajectory import Seen
from pipeline.report.run_data import Cell
from pipeline.theory.transitions import QuestionKey

_EXAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Tokens of one cell, in all."""

    cell: Cell
    completions: int
    totals: Mapping[str, int]
    """By token kind, ``wasted_tokens`` and ``tokens_unknown`` (failures whose engine could not say)
    among them. Thinking tokens are part of completion tokens, cached ones of prompt tokens."""
    cost: float | None
    """All tokens at the prices of the run (`RuntimeConfig.prices`), in USD; None without prices."""

    @property
    def cost_per_right(self) -> float | None:
        """The cost of each question that is answered right by the headline rule."""
        right = sum(self.cell.rights(self.cell.rule).values())
        return None if self.cost is None or not right else self.cost / right


def bill_of(cell: Cell, prices: Prices | None) -> Bill:
    """Add up a cell."""
    names = (*TOKEN_KINDS, "wasted_tokens", "tokens_unknown")
    totals = {name: sum(row[name] for row in cell.rows) for name in names}
    return Bill(
        cell=cell,
        completions=sum(row["completions"] for row in cell.rows),
        totals=totals,
        cost=None if prices is None else prices.usd(totals),
    )


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
