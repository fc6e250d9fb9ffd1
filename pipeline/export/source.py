"""What every export is made of: a run's final outcomes, its questions and its accuracies."""

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
from pipeline.config.strategies import rule_of, rules_of, strategies_of
from pipeline.core.errors import DataError
from pipeline.core.protocol import Strategy
from pipeline.records.outcome import counted_verdict, final_outcomes
from pipeline.records.questions import read_questions
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.side_files import environments
from pipeline.records.trajectory import Row
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
    run = RunDir.open(address)
    config = run.config()
    questions = read_questions(run.folder)
    strategies = strategies_of(config.science)
    cells = _cells(run, config, questions, strategies)
    if not cells:
        raise DataError(f"a run must have at least one final outcome, {address} has none yet")
    return Source(run, config, exported, strategies, questions, cells)


def _cells(
    run: RunDir,
    config: RunConfig,
    questions: pa.Table,
    strategies: Mapping[str, Strategy],
) -> tuple[Cell, ...]:
    rules = rules_of(config.science)
    headlines = {label: rule_of(config.science, s) for label, s in strategies.items()}
    keys = zip(
        questions["benchmark"].to_pylist(), questions["question_id"].to_pylist(), strict=True
    )
    golds = questions["gold"].to_pylist()
    no_gold = frozenset(key for key, gold in zip(keys, golds, strict=True) if gold is None)
    outcomes = run.outcomes(columns=summed(rules))
    names = [f"{one.name}-{label}" for one in config.science.benchmarks for label in strategies]
    joint = "-" if len(names) == len(set(names)) else "="
    cells = []
    for source in config.science.benchmarks:  # one at a time: rows are large as Python objects
        mine = rows_of(outcomes.filter(pc.equal(outcomes["benchmark"], source.name)))
        outcomes_here = final_outcomes(mine, strategies)
        prices = config.runtime.prices()
        entries = summarise(outcomes_here, strategies, headlines, no_gold, rules, prices)
        cells += [
            Cell(
                label=entry["strategy"],
                benchmark=source,
                strategy=strategies[entry["strategy"]],
                rule=headlines[entry["strategy"]],
                entry=entry,
                all_rules=rules,
                joint=joint,
            )
            for entry in entries
        ]
    return tuple(cells)


def hub_dataset(source: BenchmarkSource) -> tuple[str, str | None, str | None, str | None] | None:
    """(data set, configuration, split, revision) on Hugging Face; None for other questions."""
    if source.hf_dataset is not None:
        return source.hf_dataset, source.hf_config, source.hf_split, source.revision
    known = None if source.path is not None else known_of(source.name)
    if known is None:
        return None
    return known.dataset, known.config, known.split, known.revision


def packed(value: Any) -> bytes:
    """A value as JSON on one line."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace")
