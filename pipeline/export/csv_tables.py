"""A run as CSV: ``accuracies.csv``, and ``questions.csv`` with a line a question and strategy."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from pipeline.answers.answer_rules import AnswerRule
from pipeline.export.samples import Sample, samples
from pipeline.export.source import Cell, Source
from pipeline.records.outcome import has_failed
from pipeline.store.storage import Folder
from pipeline.store.streams import writing

_ACCURACY = ("right", "graded", "ungraded", "accuracy", "low", "high")
_ENTRY = ("questions", "failed", "completions", "tokens_per_question", "tokens_saved")
_COLUMNS = (
    *("strategy", "benchmark", "question_id", "level", "subject", "gold"),
    *(f"{what}_{rule.value}" for rule in AnswerRule for what in ("answer", "verdict")),
    *("failed", "stop_reason", "completions", "completion_tokens", "thinking_tokens"),
    *("prompt_tokens", "verifier_tokens", "wasted_tokens", "p0", "a", "b", "seconds", "error"),
)


def write_csv(source: Source, folder: Folder) -> None:
    """Write both files; one question is in memory at a time."""
    with writing(folder, "accuracies.csv") as stream:
        head = ("strategy", "kind", "n", "benchmark", "answer_rule", "headline")
        stream.write(_line((*head, *_ACCURACY, *_ENTRY)))
        for cell in source.cells:
            for rule in cell.rules():
                accuracy = cell.entry["accuracy"][rule.value]
                stream.write(
                    _line(
                        (
                            *(cell.label, cell.strategy.kind, cell.entry["n"]),
                            *(cell.benchmark.name, rule.value, rule is cell.rule),
                            *(accuracy[name] for name in _ACCURACY),
                            *(cell.entry[name] for name in _ENTRY),
                        )
                    )
                )
    with writing(folder, "questions.csv") as stream:
        stream.write(_line(_COLUMNS))
        for cell, found in samples(source, texts=False):
            for sample in found:
                stream.write(_line(_values(cell, sample)))


def _values(cell: Cell, sample: Sample) -> list[Any]:
    row = {**sample.question, **sample.outcome, "failed": has_failed(sample.outcome)}
    for rule in AnswerRule:
        row[f"verdict_{rule.value}"] = cell.verdict(sample.outcome, sample.question, rule)
    return [row[name] for name in _COLUMNS]


def _line(values: Sequence[Any]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(values)
    return out.getvalue().encode(errors="replace")
