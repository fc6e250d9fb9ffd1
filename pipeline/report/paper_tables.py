"""The paper's tables from our runs, with the paper's own numbers beside them where they match.

A pair of numbers is marked only where the paper's lies outside our interval. Every row is one
setting of one strategy: cells of one label whose settings differ stand in rows of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from pipeline.report.comparison import accuracy
from pipeline.report.paper_numbers import (
    FILES,
    Entry,
    Measure,
    PaperNumbers,
    PaperTable,
    normal,
    number_of,
    read_paper,
)
from pipeline.report.paper_sweeps import sweep_tables
from pipeline.report.run_data import Cell
from pipeline.results.column import METHODS
from pipeline.statistics.intervals import mean_interval

__all__ = ["Entry", "PaperNumbers", "PaperTable", "normal", "paper_tables", "read_paper"]

ABLATION_SETTING = ("deepseekr1distillqwen7b", 8)
"""Backbone and N of the paper's ablation: its row without both parts is MR-Thinking there."""

_PAPER_METHODS = {
    **METHODS,
    "markovscale_t": "MarkovScale^t",
    "markovscale_star": "MarkovScale^*",
    "markovscale_0": "MarkovScale^0",
}
_BEYOND = ("chain_asc", "agree")
"""Strategies that the paper does not have; they stand in its tables only where they were run."""
_VARIANTS = ("mr_thinking", "markovscale_t", "markovscale_star", "markovscale_0")

Rows = list[tuple[str, Mapping[str, Cell]]]
"""Title and cells by benchmark of each row."""


def paper_tables(
    cells: Sequence[Cell], paper: PaperNumbers | None, sweep: Sequence[Mapping[str, Any]] = ()
) -> list[PaperTable]:
    """Every table of the paper that the cells or the sweep have a number for.

    Rows of a sweep that name their ``backbone`` stand under that one only.
    """
    numbers = paper or dict.fromkeys(FILES, ())
    tables: list[PaperTable] = []
    for backbone in dict.fromkeys(cell.backbone for cell in cells):
        own = [cell for cell in cells if cell.backbone == backbone]
        sizes = sorted({cell.n for cell in own if _has_n(cell)}) or [1]
        for n in sizes:
            kinds = [k for k in METHODS if k not in _BEYOND or any(c.kind == k for c in own)]
            tables.append(_methods("main", backbone, n, own, numbers, kinds, ["accuracy"]))
        for n in sizes:
            of_n = [cell for cell in own if cell.n == n]
            if any(cell.kind in _VARIANTS[1:] for cell in of_n):
                both = ["accuracy", "tokens"]
                tables.append(_methods("variants", backbone, n, own, numbers, _VARIANTS, both))
            if any(cell.kind == "markovscale_star" for cell in of_n):
                tables.append(_ablation(backbone, n, of_n, numbers))
        swept = [row for row in sweep if row.get("backbone", backbone) == backbone]
        tables += sweep_tables(backbone, swept, numbers)
    return [table for table in tables if table.rows]


def _has_n(cell: Cell) -> bool:
    """Whether N is a setting of the strategy. Base, Budget Forcing and Atom of Thoughts draw what
    their method draws, and stand beside every N."""
    return "n" in {f.name for f in fields(cell.strategy)}  # type: ignore[arg-type]  # a dataclass


def _methods(
    name: str,
    backbone: str,
    n: int,
    cells: Sequence[Cell],
    paper: PaperNumbers,
    kinds: Sequence[str],
    measures: Sequence[Measure],
) -> PaperTable:
    benchmarks = list(dict.fromkeys(cell.benchmark for cell in cells))
    file = "main_accuracy" if name == "main" else "variants"

    def paper_of(kind: str, benchmark: str, measure: Measure) -> float | None:
        rows = [
            row
            for row in paper[file]
            if row["method"] == _PAPER_METHODS[kind]
            and int(row["n"]) == n
            and normal(row["backbone"]) == normal(backbone)
            and normal(row["benchmark"]) == normal(benchmark)
        ]
        return number_of(rows, measure)

    rows = []
    for kind in kinds:
        found = _rows(
            METHODS[kind], [c for c in cells if c.kind == kind and (c.n == n or not _has_n(c))]
        )
        papers = _papers_row(kind, found) if found else 0
        for place, (title, by_benchmark) in enumerate(found or [(METHODS[kind], {})]):
            entries = tuple(
                _entry(
                    by_benchmark.get(benchmark),
                    measure,
                    paper_of(kind, benchmark, measure) if place == papers else None,
                )
                for benchmark in benchmarks
                for measure in measures
            )
            rows.append((title, entries))
    return PaperTable(
        name=name,
        title=f"{'Accuracy' if name == 'main' else 'Variants'}, N = {n}",
        backbone=backbone,
        n=n,
        columns=tuple((b, m) for b in benchmarks for m in measures),
        rows=tuple(rows),
    )


def _rows(name: str, cells: Sequence[Cell]) -> Rows:
    """One row a label and setting, and where a benchmark comes twice, one a run."""
    groups: dict[tuple[str, ...], dict[str, Cell]] = {}
    for cell in cells:
        key: tuple[str, ...] = (cell.label, repr(cell.strategy), cell.rule.value)
        if cell.benchmark in groups.get(key, {}):
            key = (*key, cell.run)
        groups.setdefault(key, {})[cell.benchmark] = cell
    titled = []
    for found in groups.values():
        first = next(iter(found.values()))
        titled.append((name if first.label == first.kind else f"{name} ({first.label})", found))
    titles = [title for title, _ in titled]
    return [
        (title if titles.count(title) == 1 else f"{title} in {_runs(found)}", found)
        for title, found in titled
    ]


def _runs(found: Mapping[str, Cell]) -> str:
    return ", ".join(dict.fromkeys(cell.run for cell in found.values()))


def _papers_row(kind: str, rows: Rows) -> int | None:
    """Place of the row that the paper's numbers belong to; None where that cannot be told."""
    cells = [next(iter(found.values())) for _, found in rows]
    likely = [i for i, cell in enumerate(cells) if _as_published(cell)]
    in_profile = [i for i in likely if getattr(cells[i].strategy, "profile", "") == "paper"]
    by_name = [i for i in likely if cells[i].label == kind]
    found = next((i for i in (in_profile, likely, by_name) if len(i) == 1), None)
    return found[0] if found else None


def _as_published(cell: Cell) -> bool:
    """Whether a cell is the method whole: gate and stopping on, the rule as printed."""
    if cell.kind != "markovscale_star":
        return True
    printed = getattr(cell.strategy, "stop_rule", "printed") == "printed"
    raw = getattr(cell.strategy, "calibration", None) is None
    return printed and raw and _parts(cell) == (True, True)


_ABLATION: dict[str, Callable[[Cell], bool]] = {
    "MarkovScale^* (full)": lambda c: _parts(c) == (True, True),
    "w/o Scaling Gating (SG)": lambda c: _parts(c) == (False, True),
    "w/o Optimal Stopping (OS)": lambda c: _parts(c) == (True, False),
    "w/o OS + SG": lambda c: c.kind == "mr_thinking",
}


def _parts(cell: Cell) -> tuple[bool, bool] | None:
    """(gate, stopping) of a MarkovScale^* cell."""
    if cell.kind != "markovscale_star":
        return None
    return (getattr(cell.strategy, "gate", True), getattr(cell.strategy, "stopping", True))


def _ablation(backbone: str, n: int, cells: Sequence[Cell], paper: PaperNumbers) -> PaperTable:
    benchmarks = list(dict.fromkeys(cell.benchmark for cell in cells))
    comparable = (normal(backbone), n) == ABLATION_SETTING
    columns = tuple((b, m) for b in benchmarks for m in ("accuracy", "tokens"))
    rows = []
    for variant, matches in _ABLATION.items():
        name = variant.replace("^*", "*")
        found = _rows(name, [cell for cell in cells if matches(cell)])
        papers = 0 if len(found) < 2 else _papers_row("markovscale_star", found)
        for place, (title, by_benchmark) in enumerate(found or [(name, {})]):
            entries = []
            for benchmark, measure in columns:
                told = [
                    row
                    for row in paper["ablation"]
                    if row["variant"] == variant and normal(row["benchmark"]) == normal(benchmark)
                ]
                theirs = number_of(told, measure) if comparable and place == papers else None
                entries.append(_entry(by_benchmark.get(benchmark), measure, theirs))
            rows.append((title if len(found) > 1 else name, tuple(entries)))
    return PaperTable(
        name="ablation",
        title=f"Ablation of MarkovScale*, N = {n}",
        backbone=backbone,
        n=n,
        columns=columns,
        rows=tuple(rows),
    )


def _entry(cell: Cell | None, measure: Measure, paper: float | None) -> Entry:
    if cell is None:
        return Entry(measure=measure, paper=paper)
    ours = accuracy(cell, cell.rule) if measure == "accuracy" else mean_interval(cell.tokens)
    return Entry(measure=measure, ours=ours, paper=paper)
