"""*Export tables*: builds rows of outcomes as they count, of completions and accuracies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from pipeline.answers.answer_rules import RULES, Rule
from pipeline.export.samples import Sample
from pipeline.export.source import Cell, Source
from pipeline.records.outcome import has_failed, schema_of
from pipeline.records.questions import SCHEMA as QUESTIONS
from pipeline.records.trajectory import SCHEMA as COMPLETIONS
from pipeline.records.trajectory import Row

_DROPPED = ("phase", "epoch", "sequence")  # of the journal's own affairs


def _nullable(schema: pa.Schema) -> list[pa.Field]:
    return [field.with_nullable(True) for field in schema if field.name not in _DROPPED]


_ASKED = ("level", "subject", "text", "gold")


def outcome_rows_schema(rules: Sequence[Rule] = RULES) -> pa.Schema:
    """The columns of `outcome_row`, with those of users' own answer rules among `rules`."""
    return pa.schema(
        [
            *_nullable(schema_of(rules)),
            *(QUESTIONS.field(name).with_nullable(True) for name in _ASKED if name != "level"),
            pa.field("failed", pa.bool_()),
        ]
    )


COMPLETION_ROWS = pa.schema([*_nullable(COMPLETIONS), pa.field("position", pa.int32())])
ACCURACY_ROWS = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("strategy", "kind")),
        pa.field("n", pa.int32()),
        *(pa.field(name, pa.string()) for name in ("benchmark", "answer_rule")),
        pa.field("headline", pa.bool_()),  # whether it is the strategy's own rule
        *(pa.field(name, pa.int64()) for name in ("right", "graded", "ungraded")),
        *(pa.field(name, pa.float64()) for name in ("accuracy", "low", "high")),
        *(pa.field(name, pa.int64()) for name in ("questions", "not_run", "failed", "completions")),
        *(pa.field(name, pa.float64()) for name in ("tokens_per_question", "tokens_saved", "usd")),
    ]
)


def accuracy_rows(source: Source) -> Iterator[Row]:
    """What summary.json says, a row a strategy, benchmark and answer rule that could be applied."""
    for cell in source.cells:
        for rule in cell.applied():
            yield {
                **{name: cell.entry[name] for name in ACCURACY_ROWS.names if name in cell.entry},
                "usd": cell.entry.get("usd"),
                "benchmark": cell.benchmark,
                "answer_rule": rule.value,
                "headline": rule == cell.rule,
                "not_run": cell.not_run,
                **cell.entry["accuracy"][rule.value],
            }


def outcome_row(cell: Cell, sample: Sample) -> Row:
    """An outcome with its question; its verdicts are what it counts as in summary.json."""
    question, outcome = sample.question, sample.outcome
    verdicts: dict[str, Any] = {
        f"verdict_{rule.value}": cell.verdict(outcome, question, rule) for rule in cell.rules
    }
    asked = {name: question[name] for name in _ASKED}
    return {**outcome, **asked, **verdicts, "failed": has_failed(outcome)}


def completion_rows(sample: Sample) -> Iterator[Row]:
    """The completions of a sample, with their positions in it."""
    of = {name: sample.outcome[name] for name in ("run", "strategy", "benchmark", "question_id")}
    for position, row in enumerate(sample.rounds):
        yield {**row, **of, "position": position}


class RowGroups:
    """Rows that are gathered into tables of a bounded size.

    Args:
        take: is given each table.
        schema: of the rows.
    """

    def __init__(self, take: Callable[[pa.Table], None], schema: pa.Schema) -> None:
        self._take, self._schema = take, schema
        self._rows: list[Row] = []
        self._tokens = 0

    def add(self, row: Row) -> None:
        """Add a row."""
        self._rows.append(row)
        self._tokens += row["completion_tokens"] or 0
        if len(self._rows) >= _ROWS or self._tokens >= _TOKENS:
            self.flush()

    def flush(self) -> None:
        """Hand over what is held."""
        if self._rows:
            self._take(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._tokens = [], 0


_ROWS, _TOKENS = 20_000, 8_000_000  # of a table, at most
