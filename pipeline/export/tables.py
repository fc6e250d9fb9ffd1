"""*Export tables*: builds rows of outcomes as they count, of completions and accuracies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from pipeline.answers.answer_rules import RULES, Rule
from pipeline.export.samples import samples
from pipeline.export.source import Source
from pipeline.records.outcome import has_failed, schema_of
from pipeline.records.questions import SCHEMA as QUESTIONS
from pipeline.records.trajectory import SCHEMA as COMPLETIONS
from pipeline.records.trajectory import Row

_DROPPED = ("phase", "epoch", "sequence")  # of the journal's own affairs


def _nullable(schema: pa.Schema) -> list[pa.Field]:
    return [field.with_nullable(True) for field in schema if field.name not in _DROPPED]


_ASKED = ("level", "subject", "text", "gold")


def outcome_rows_schema(rules: Sequence[Rule] = RULES) -> pa.Schema:
    """The columns of `outcome_rows`, with those of users' own answer rules among `rules`."""
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


def outcome_rows(source: Source) -> Iterator[Row]:
    """Every outcome with its question; its verdicts are what it counts as in summary.json."""
    for cell, found in samples(source, texts=False):
        for sample in found:
            question, outcome = sample.question, sample.outcome
            verdicts: dict[str, Any] = {
                f"verdict_{rule.value}": cell.verdict(outcome, question, rule)
                for rule in cell.rules
            }
            of_question = {name: question[name] for name in _ASKED}
            yield {**outcome, **of_question, **verdicts, "failed": has_failed(outcome)}


def completion_rows(source: Source) -> Iterator[Row]:
    """Every completion that an outcome rests on, with its position in request order."""
    for _, found in samples(source):
        for sample in found:
            keys = ("run", "strategy", "benchmark", "question_id")
            of = {name: sample.outcome[name] for name in keys}
            for position, row in enumerate(sample.rounds):
                yield {**row, **of, "position": position}


_ROWS, _TOKENS = 20_000, 8_000_000  # of a table, at most


def in_tables(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.Table]:
    """Rows as tables of a bounded size, one in memory at a time."""
    held: list[Row] = []
    tokens = 0
    for row in rows:
        held.append(row)
        tokens += row["completion_tokens"] or 0
        if len(held) >= _ROWS or tokens >= _TOKENS:
            yield pa.Table.from_pylist(held, schema=schema)
            held, tokens = [], 0
    yield pa.Table.from_pylist(held, schema=schema)
