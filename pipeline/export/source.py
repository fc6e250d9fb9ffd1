"""*Source*: reads what every export needs: final outcomes, questions and accuracies of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import pyarrow as pa

from pipeline.answers.answer_rules import Rule
from pipeline.benchmarks.source import BenchmarkSource
from pipeline.config.strategies import rules_of
from pipeline.core.errors import DataError
from pipeline.records.outcome import counted_verdict
from pipeline.records.questions import read_questions
from pipeline.records.trajectory import Row
from pipeline.report import run_data
from pipeline.report.run_data import RunData, read_run
from pipeline.report.summary import summarise, summed

LIBRARY = "markovscale"


@dataclass(frozen=True, eq=False, kw_only=True)
class Cell(run_data.Cell):
    """One strategy on one benchmark, with its accuracies."""

    entry: Mapping[str, Any] = field(repr=False)
    """What summary.json says of it (`pipeline.report.summary.summarise`)."""
    file: str
    """Name of files about it, without ending."""

    @property
    def total(self) -> int:
        """Questions that the benchmark has in this run."""
        return self.not_run + int(self.entry["questions"])

    def applied(self) -> list[Rule]:
        """The rules that could be applied: those with an accuracy."""
        return [r for r in self.rules if (self.entry["accuracy"][r.value] or {}).get("graded")]

    def verdict(self, outcome: Row, question: Row, rule: Rule) -> str | None:
        """What a question counts as, as in summary.json: ``right``, ``wrong`` (also where it
        failed), ``ungraded``; None without gold answer, or where the rule could not be applied."""
        if question["gold"] is None or self.entry["accuracy"][rule.value] is None:
            return None
        return counted_verdict(outcome, rule)

    def right(self, outcome: Row, question: Row, rule: Rule) -> bool | None:
        """Whether a question counts as answered right; None where it counts as neither."""
        verdict = self.verdict(outcome, question, rule)
        return None if verdict is None else {"right": True, "wrong": False}.get(verdict)


@dataclass(frozen=True, eq=False, kw_only=True)
class Source(RunData):
    """A run that is exported, finished or not."""

    cells: tuple[Cell, ...] = field(repr=False)
    """Benchmark by benchmark; those without any final outcome are left out."""
    question_table: pa.Table = field(repr=False)
    """All questions of the run (`pipeline.records.questions.SCHEMA`)."""
    exported: float
    """When, in seconds since 1970."""

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """Every answer rule that the run was read by."""
        return rules_of(self.config.science)

    @property
    def finished(self) -> bool:
        """Whether every question has its outcome under every strategy."""
        return self.chains_done == self.chains

    @property
    def times(self) -> tuple[float, float]:
        """First and last sign of life in the metrics; the time of the export where none are."""
        seen = [row["time"] for row in self.metrics if row.get("time")]
        return (min(seen), max(seen)) if seen else (self.exported, self.exported)

    @property
    def versions(self) -> Mapping[str, str]:
        """Of what drew the completions, as the newest attempt recorded them."""
        found = self.environments
        return found[max(found)].get("versions", {}) if found else {}

    @property
    def benchmarks(self) -> Mapping[str, BenchmarkSource]:
        """By name."""
        return {source.name: source for source in self.config.science.benchmarks}


def open_source(address: str, exported: float) -> Source:
    """Read what a run's exports have in common, without the texts of its completions.

    Args:
        address: of the run directory.
        exported: the time, in seconds since 1970.

    Raises:
        ConfigError, DataError: where it is no run, or has nothing to export.
    """
    found = read_run(address, summed)
    if not found.cells:
        raise DataError(f"a run must have at least one final outcome, {address} has none yet")
    science = found.config.science
    names = [f"{b.name}-{label}" for b in science.benchmarks for label in found.strategies]
    joint = "-" if len(names) == len(set(names)) else "="  # where - gives two cells one name
    entries = summarise(found.cells, found.config.runtime.prices())
    cells = tuple(
        Cell(**_fields(cell), entry=entry, file=f"{cell.benchmark}{joint}{cell.label}")
        for cell, entry in zip(found.cells, entries, strict=True)
    )
    return Source(
        **{**_fields(found), "cells": cells},
        question_table=read_questions(found.run.folder),
        exported=exported,
    )


def _fields(of: run_data.Cell | RunData) -> dict[str, Any]:
    return {each.name: getattr(of, each.name) for each in fields(of)}


def packed(value: Any) -> bytes:
    """A value as JSON on one line."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace")
