"""A run as CSV: ``accuracies.csv``, and ``questions.csv`` with a line a question and strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.answers.answer_rules import Rule
from pipeline.export.samples import samples
from pipeline.export.source import Source
from pipeline.export.tables import ACCURACY_ROWS, accuracy_rows, outcome_row
from pipeline.results.csv_lines import csv_line
from pipeline.store.storage import Folder
from pipeline.store.streams import writing


def _columns(rules: Sequence[Rule]) -> tuple[str, ...]:
    return (
        *("strategy", "benchmark", "question_id", "level", "subject", "gold"),
        *(f"{what}_{rule}" for rule in rules for what in ("answer", "verdict")),
        *("failed", "stop_reason", "completions", "completion_tokens", "thinking_tokens"),
        *("prompt_tokens", "verifier_tokens", "wasted_tokens", "p0", "a", "b", "seconds", "error"),
    )


def write_csv(source: Source, folder: Folder) -> None:
    """Write both files; one question is in memory at a time."""
    with writing(folder, "accuracies.csv") as stream:
        stream.write(_line(ACCURACY_ROWS.names))
        for row in accuracy_rows(source):
            stream.write(_line([row[name] for name in ACCURACY_ROWS.names]))
    columns = _columns(source.rules)
    with writing(folder, "questions.csv") as stream:
        stream.write(_line(columns))
        for cell, found in samples(source, texts=False):
            for sample in found:
                row = outcome_row(cell, sample)
                stream.write(_line([row[name] for name in columns]))


def _line(values: Sequence[Any]) -> bytes:
    return f"{csv_line(values)}\n".encode(errors="replace")
