"""*RunData*: reads a run directory as cells, one a strategy and benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.answers.answer_rules import RULES, Rule
from pipeline.config.run import RunConfig
from pipeline.config.science import ScienceConfig
from pipeline.config.strategies import rule_of, rules_of, strategies_of
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Strategy
from pipeline.core.text import copies_of
from pipeline.planning.run_caps import Capped
from pipeline.records.outcome import can_apply, counted_verdict, final_rows
from pipeline.records.questions import read_questions
from pipeline.records.run_dir import RunDir
from pipeline.records.side_files import Facts, environments, summary
from pipeline.records.table_rows import RowsTable, RowViews
from pipeline.records.trajectory import Row, Seen
from pipeline.report.run_warnings import NotRun, not_run, warnings_of
from pipeline.results.column import METHODS, method_of
from pipeline.store.storage import is_local, resolve
from pipeline.theory.transitions import QuestionKey

OURS = frozenset({"markovscale_t", "markovscale_star", "markovscale_0"})
"""Kinds that this project is about."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One strategy on one benchmark in one run: what a row of a table stands for."""

    run: str
    label: str
    kind: str
    n: int
    benchmark: str
    backbone: str
    rule: Rule
    """The headline rule."""
    strategy: Strategy = field(repr=False)
    rows: Sequence[Seen] = field(repr=False)
    """Outcomes, one a question."""
    run_shown: bool = False
    """Whether names must tell the run, because another has the benchmark too."""
    without_gold: frozenset[QuestionKey] = field(default=frozenset(), repr=False)
    """Questions whose right answer nobody knows: they are neither right nor wrong."""
    not_run: int = 0
    """Further questions that were asked and have no outcome."""
    rules: Sequence[Rule] = RULES
    """That its rows were read by."""
    copies: Mapping[QuestionKey, QuestionKey] = field(default_factory=dict, repr=False)
    """The first question with the same text, by the key of each later one."""

    @property
    def method(self) -> str:
        """The method's name, with the label where that says more."""
        if self.kind not in METHODS:  # a user's own
            return self.label
        name = method_of(self.kind, getattr(self.strategy, "profile", ""))
        return name if self.label == self.kind else f"{name} ({self.label})"

    @property
    def name(self) -> str:
        """Unique among the cells of a benchmark."""
        return f"{self.method} in {self.run}" if self.run_shown else self.method

    @cached_property
    def by_question(self) -> Mapping[QuestionKey, Seen]:
        """Outcomes by question."""
        return {(row["benchmark"], row["question_id"]): row for row in self.rows}

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        """Completion tokens of each question."""
        return tuple(row["completion_tokens"] for row in self.rows)

    @property
    def graded(self) -> list[Seen]:
        """Outcomes of the questions whose right answer is known."""
        return [
            row
            for row in self.rows
            if (row["benchmark"], row["question_id"]) not in self.without_gold
        ]

    def rights(self, rule: Rule) -> dict[QuestionKey, bool]:
        """Right or wrong by question; failed ones are wrong, ungraded ones are left out.

        Empty where the rule could not be applied, or is another run's.
        """
        if rule not in self.rules or not can_apply(self.graded, rule):
            return {}
        return {
            key: known
            for key, row in self.by_question.items()
            if key not in self.without_gold and (known := right_of(row, rule)) is not None
        }


def right_of(row: Seen, rule: Rule) -> bool | None:
    """Whether a question counts as answered right under a rule; None where nobody can say."""
    verdict = counted_verdict(row, rule)
    return None if verdict is None else {"right": True, "wrong": False}.get(verdict)


@dataclass(frozen=True, eq=False)
class RunData:
    """Everything of a run but its completions, which stay in the journal."""

    run: RunDir
    config: RunConfig
    attempts: Sequence[Mapping[str, Any]]
    questions: Mapping[QuestionKey, Seen]
    cells: tuple[Cell, ...]
    """Benchmark by benchmark, strategies in the order of the configuration."""
    metrics: Sequence[Row]
    environments: Mapping[int, Facts]
    """Versions and hardware by attempt, as far as they were recorded."""
    warnings: tuple[str, ...] = ()
    """What a reader must know first (`pipeline.report.run_warnings`)."""
    capped: Capped | None = None
    """The cap that ended the newest attempt, where one did."""
    name: str | None = None
    """Its own among runs that are looked at together; None is that of its folder."""

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self.name or self.run.run_id

    @property
    def synthetic(self) -> bool:
        """Whether scripted engines answered, and no model did."""
        return self.config.runtime.scripted is not None

    @property
    def chains(self) -> int:
        """Chains of the whole run: questions times strategies."""
        return len(self.questions) * len(self.config.science.strategies)

    @cached_property
    def strategies(self) -> Mapping[str, Strategy]:
        """By label."""
        return strategies_of(self.config.science)

    @cached_property
    def not_run(self) -> tuple[NotRun, ...]:
        """What has no final outcome, by strategy and benchmark."""
        done = {(c.label, c.benchmark): {row["question_id"] for row in c.rows} for c in self.cells}
        return not_run(self.strategies, self.questions, done)

    @property
    def chains_done(self) -> int:
        """Chains that have their final outcome."""
        return sum(len(cell.rows) for cell in self.cells)


def read_runs(addresses: Sequence[str]) -> list[RunData]:
    """Read run directories to look at together: cells name their run where another has their
    benchmark too.

    Raises:
        ConfigError: where one is given twice.
        ConfigError, DataError: as `read_run`.
    """
    runs = _named_apart([read_run(address) for address in addresses])
    having = Counter(name for run in runs for name in benchmarks_of(run.cells))
    return [
        replace(
            run,
            cells=tuple(replace(c, run_shown=having[c.benchmark] > 1) for c in run.cells),
        )
        for run in runs
    ]


def _named_apart(runs: Sequence[RunData]) -> list[RunData]:
    """Runs whose folders have the same name get the folders above them in their names."""
    places = [
        resolve(run.run.address)[1] if is_local(run.run.address) else run.run.address
        for run in runs
    ]
    twice = [place for place, count in Counter(places).items() if count > 1]
    if twice:
        raise ConfigError(f"runs to look at together must differ, got {twice[0]} twice")
    names, parts = [run.run_id for run in runs], 1
    while len(set(names)) < len(names):
        parts += 1
        same = Counter(names)
        names = [
            "/".join(place.split("/")[-parts:]) if same[name] > 1 else name
            for name, place in zip(names, places, strict=True)
        ]
    return [
        replace(run, name=name, cells=tuple(replace(cell, run=name) for cell in run.cells))
        for run, name in zip(runs, names, strict=True)
    ]


def read_run(
    address: str, columns: Callable[[Sequence[Rule]], Sequence[str]] | None = None
) -> RunData:
    """Read a run directory, finished or not.

    Args:
        address: path or address of the directory.
        columns: which of the outcomes are read, by the rules of the run; None reads all.

    Raises:
        ConfigError, DataError: where it is no run directory, or was written by another version.
    """
    run = RunDir.open(address)
    config = run.config()
    questions = {
        (row["benchmark"], row["question_id"]): row for row in RowViews(read_questions(run.folder))
    }
    science, strategies = config.science, strategies_of(config.science)
    outcomes = run.outcomes(columns=columns and columns(rules_of(science)))
    rows = final_rows(outcomes, strategies)
    cells = cells_of(run.run_id, science, strategies, rows, outcomes.schema, questions)
    return RunData(
        run=run,
        config=config,
        attempts=run.attempts(),
        questions=questions,
        cells=cells,
        metrics=run.metrics(),
        environments=environments(run.folder),
        warnings=warnings_of(run, config, (row for cell in cells for row in cell.rows)),
        capped=_capped(run),
    )


def without_gold(questions: Mapping[QuestionKey, Seen]) -> frozenset[QuestionKey]:
    """Those whose right answer nobody knows."""
    return frozenset(key for key, row in questions.items() if row["gold"] is None)


def _capped(run: RunDir) -> Capped | None:
    """What summary.json says, unless an attempt has begun since."""
    capped = summary(run.folder).get("capped")
    if not isinstance(capped, dict) or not capped.keys() >= {"attempt", "name", "spent", "cap"}:
        return None
    if capped["attempt"] != run.newest().number:
        return None
    return Capped(name=capped["name"], spent=capped["spent"], cap=capped["cap"])


def rules_in(cells: Iterable[Cell]) -> tuple[Rule, ...]:
    """The rules of cells, the shipped ones first."""
    return tuple(dict.fromkeys(rule for cell in cells for rule in cell.rules))


def benchmarks_of(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Cells by benchmark, in order of first appearance."""
    grouped: dict[str, list[Cell]] = {}
    for cell in cells:
        grouped.setdefault(cell.benchmark, []).append(cell)
    return grouped


def _asked(row: Seen) -> str:
    """Earlier turns, where there are any, and the question."""
    return f"{row['turns'] or ''}{row['text']}" if "turns" in row else row["text"]


def cells_of(
    run_id: str,
    science: ScienceConfig,
    strategies: Mapping[str, Strategy],
    outcomes: Iterable[Row],
    schema: pa.Schema,
    questions: Mapping[QuestionKey, Seen],
) -> tuple[Cell, ...]:
    """The cells of final outcomes, benchmark by benchmark, those that have any.

    Args:
        run_id: name of the run.
        science: benchmarks, generator and answer rules.
        strategies: by label.
        outcomes: as `final_rows` gives them.
        schema: of the outcomes.
        questions: all that were asked.
    """
    counts = Counter(benchmark for benchmark, _ in questions)
    found: dict[tuple[str, str], RowsTable] = {}
    for row in outcomes:
        found.setdefault((row["benchmark"], row["strategy"]), RowsTable(schema)).add(row)
    tables = {key: rows.table() for key, rows in found.items()}
    ended = {key: pc.count_distinct(made["question_id"]).as_py() for key, made in tables.items()}
    grouped = {key: RowViews(made) for key, made in tables.items()}
    no_gold, rules = without_gold(questions), rules_of(science)
    copies = copies_of((key, _asked(row)) for key, row in questions.items())
    return tuple(
        Cell(
            run=run_id,
            label=label,
            kind=strategy.kind,
            n=strategy.n,
            benchmark=source.name,
            backbone=science.generator.model,
            rule=rule_of(science, strategy),
            strategy=strategy,
            rows=grouped[(source.name, label)],
            without_gold=no_gold,
            not_run=counts[source.name] - ended[(source.name, label)],
            rules=rules,
            copies=copies,
        )
        for source in science.benchmarks
        for label, strategy in strategies.items()
        if (source.name, label) in grouped
    )
