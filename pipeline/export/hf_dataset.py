"""A run as a data set: Parquet files and a card, as ``datasets.load_dataset(FOLDER)`` reads them.

Configurations: ``outcomes`` (a row a question and strategy), ``completions`` (a row a completion),
``questions``. Verdicts in ``outcomes`` are as summary.json counts them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pipeline.answers.answer_rules import AnswerRule
from pipeline.export.hf_card import card_of
from pipeline.export.samples import Sample, samples
from pipeline.export.source import Cell, Source
from pipeline.records.outcome import SCHEMA as OUTCOMES
from pipeline.records.outcome import has_failed
from pipeline.records.questions import SCHEMA as QUESTIONS
from pipeline.records.trajectory import SCHEMA as COMPLETIONS
from pipeline.records.trajectory import Row
from pipeline.store.storage import Folder
from pipeline.store.streams import Tables, tables

_ROWS, _TOKENS = 20_000, 8_000_000  # of a row group, at most

_DROPPED = ("phase", "epoch", "sequence")  # of the journal's own affairs


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema if field.name not in _DROPPED])


_ASKED = [QUESTIONS.field(name).with_nullable(True) for name in ("subject", "text", "gold")]
OUTCOME_ROWS = pa.schema([*_nullable(OUTCOMES), *_ASKED, pa.field("failed", pa.bool_())])
COMPLETION_ROWS = pa.schema([*_nullable(COMPLETIONS), pa.field("position", pa.int32())])


def write_hf_dataset(source: Source, folder: Folder) -> None:
    """Write the files and the card; a row group is in memory at a time."""
    data = folder.child("data")
    with (
        tables(data, "outcomes.parquet", OUTCOME_ROWS) as outcomes,
        tables(data, "completions.parquet", COMPLETION_ROWS) as completions,
    ):
        for cell, found in samples(source):
            stopped, drawn = _Group(outcomes, OUTCOME_ROWS), _Group(completions, COMPLETION_ROWS)
            for sample in found:
                stopped.add(_outcome(cell, sample))
                for position, row in enumerate(sample.rounds):
                    drawn.add(_completion(sample, position, row))
            stopped.flush()
            drawn.flush()
    data.write_table("questions.parquet", source.questions)
    folder.write("README.md", card_of(source, outcomes.rows, completions.rows).encode())


class _Group:
    """Rows that become one row group."""

    def __init__(self, file: Tables, schema: pa.Schema) -> None:
        self._file, self._schema = file, schema
        self._rows: list[Row] = []
        self._tokens = 0

    def add(self, row: Row) -> None:
        self._rows.append(row)
        self._tokens += row["completion_tokens"] or 0 if "step_scores" in row else 0
        if len(self._rows) >= _ROWS or self._tokens >= _TOKENS:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self._file.add(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._tokens = [], 0


def _outcome(cell: Cell, sample: Sample) -> Row:
    question, outcome = sample.question, sample.outcome
    verdicts: dict[str, Any] = {
        f"verdict_{rule.value}": cell.verdict(outcome, question, rule) for rule in AnswerRule
    }
    asked = {name: question[name] for name in ("level", "subject", "text", "gold")}
    return {**outcome, **asked, **verdicts, "failed": has_failed(outcome)}


def _completion(sample: Sample, position: int, row: Row) -> Row:
    """A completion under the names of its outcome: not all of it may stand in the journal."""
    of = {n: sample.outcome[n] for n in ("run", "strategy", "benchmark", "question_id")}
    return {**row, **of, "position": position}
