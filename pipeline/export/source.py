"""*Source*: reads what every export needs: final outcomes, questions and accuracies of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.answers.answer_rules import RULES, Rule
from pipeline.benchmarks.known import known_of
from pipeline.benchmarks.source import BenchmarkSource
from pipeline.config.run import RunConfig
from pipeline.config.strategies import rules_of, strategies_of
from pipeline.core.errors import DataError
from pipeline.core.protocol import Strategy
from pipeline.records.outcome import counted_verdict
from pipeline.records.questions import read_questions
from pipeline.records.run_dir import RunDir
from pipeline.records.side_files import environments
from pipeline.records.trajectory import Row
from pipeline.report.run_data import read_run
from pipeline.report.summary import summarise, summed

LIBRARY = "markovscale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One strategy on one benchmark of a run."""

    label: str
    benchmark: BenchmarkSource
    strategy: Strategy
    rule: Rule
    """The headline rule."""
    entry: Mapping[str, Any]
    """What summary.json says of it (`pipeline.report.summary.summarise`)."""
    all_rules: Sequence[Rule] = RULES
    """Of the run."""
    joint: str = "-"
    """Between benchmark and label in `name`; another where ``-`` would give two cells one name."""

    @property
    def name(self) -> str:
        """Of files about it."""
        return f"{self.benchmark.name}{self.joint}{self.label}"

    def rules(self) -> list[Rule]:
        """Those that could be applied: the ones with an accuracy."""
        return [r for r in self.all_rules if (self.entry["accuracy"][r.value] or {}).get("graded")]

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


@dataclass(frozen=True, eq=False)
class Source:
    """A run that is exported, finished or not."""

    run: RunDir
    config: RunConfig
    exported: float
    """When, in seconds since 1970."""
    strategies: Mapping[str, Strategy] = field(repr=False)
    questions: pa.Table = field(repr=False)
    """All that were asked for (`pipeline.records.questions.SCHEMA`)."""
    cells: tuple[Cell, ...] = field(repr=False)
    """Benchmark by benchmark; those without any final outcome are left out."""

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """Every answer rule that the run was read by."""
        return rules_of(self.config.science)

    @property
    def synthetic(self) -> bool:
        """Whether scripted engines answered, and no model did."""
        return self.config.runtime.scripted is not None

    @property
    def finished(self) -> bool:
        """Whether every question has its outcome under every strategy."""
        asked: int = self.questions.num_rows * len(self.strategies)
        return bool(asked == sum(cell.entry["questions"] for cell in self.cells))

    @cached_property
    def times(self) -> tuple[float, float]:
        """First and last sign of life in the metrics; the time of the export where none are."""
        seen = [row["time"] for row in self.run.metrics() if row.get("time")]
        return (min(seen), max(seen)) if seen else (self.exported, self.exported)

    @cached_property
    def versions(self) -> Mapping[str, str]:
        """Of what drew the completions, as the newest attempt recorded them."""
        found = environments(self.run.folder)
        return found[max(found)].get("versions", {}) if found else {}

    def not_run(self, cell: Cell) -> int:
        """Questions of a cell that have no final outcome."""
        return self.asked(cell.benchmark.name) - int(cell.entry["questions"])

    def asked(self, benchmark: str) -> int:
        """Questions that a benchmark has in this run."""
        return int(pc.sum(pc.equal(self.questions["benchmark"], benchmark)).as_py() or 0)


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
    strategies = strategies_of(science)
    benchmarks = {source.name: source for source in science.benchmarks}
    names = [f"{name}-{label}" for name in benchmarks for label in strategies]
    cells = tuple(
        Cell(
            label=cell.label,
            benchmark=benchmarks[cell.benchmark],
            strategy=cell.strategy,
            rule=cell.rule,
            entry=entry,
            all_rules=cell.rules,
            joint="-" if len(names) == len(set(names)) else "=",
        )
        for cell, entry in zip(
            found.cells, summarise(found.cells, found.config.runtime.prices()), strict=True
        )
    )
    questions = read_questions(found.run.folder)
    return Source(found.run, found.config, exported, strategies, questions, cells)


def hub_dataset(source: BenchmarkSource) -> str | None:
    """The data set on Hugging Face; None for other questions."""
    if source.hf_dataset is not None or source.path is not None:
        return source.hf_dataset
    known = known_of(source.name)
    return None if known is None else known.dataset


def packed(value: Any) -> bytes:
    """A value as JSON on one line."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace")
