"""*Paper tables*: the paper's tables from runs, with its own numbers where they match.

Every row is one setting of one strategy: cells of one label whose settings differ stand in rows of
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial

from pipeline.report.comparison import column_of
from pipeline.report.published import NONE_PUBLISHED, NOTHING, Numbers, Published
from pipeline.report.run_data import Cell
from pipeline.report.tables import Entry, Table
from pipeline.results.column import METHODS

_BEYOND = ("chain_asc", "agree", "settled", "chain_expected_agreement", "expected_agreement")
"""Strategies that the paper does not have; they stand in its tables only where they were run."""
_VARIANTS = ("mr_thinking", "markovscale_t", "markovscale_star", "markovscale_0")

_TITLES = {"main": "Accuracy", "variants": "Variants", "ablation": "Ablation of MarkovScale*"}

Rows = list[tuple[str, Mapping[str, Cell]]]
"""Title and cells by benchmark of each row."""


def paper_tables(cells: Sequence[Cell], paper: Published = NONE_PUBLISHED) -> list[Table]:
    """Every table of the paper that the cells have a number for, all benchmarks side by side."""
    tables: list[Table] = []
    for backbone in dict.fromkeys(cell.backbone for cell in cells):
        own = [cell for cell in cells if cell.backbone == backbone]
        sizes = sorted({cell.n for cell in own if _has_n(cell)}) or [1]
        for n in sizes:
            kinds = [k for k in METHODS if k not in _BEYOND or any(c.kind == k for c in own)]
            tables.append(_methods("main", n, own, paper, kinds))
        for n in sizes:
            of_n = [cell for cell in own if cell.n == n]
            if any(cell.kind in _VARIANTS[1:] for cell in of_n):
                tables.append(_methods("variants", n, own, paper, _VARIANTS))
            if any(cell.kind == "markovscale_star" for cell in of_n):
                tables.append(_ablation(n, of_n, paper))
    return tables


def _has_n(cell: Cell) -> bool:
    """Whether N is a setting of the strategy. Base, Budget Forcing and Atom of Thoughts draw what
    their method draws, and stand beside every N."""
    return "n" in {f.name for f in fields(cell.strategy)}


def _methods(
    name: str, n: int, cells: Sequence[Cell], paper: Published, kinds: Sequence[str]
) -> Table:
    rows: list[tuple[str, tuple[Entry, ...]]] = []
    backbone = cells[0].backbone
    for kind in kinds:
        mine = [c for c in cells if c.kind == kind and (c.n == n or not _has_n(c))]
        found = _rows(None, mine) or [(METHODS[kind], {})]
        papers = _papers_row(kind, found) if mine else 0
        rows += _entries(found, papers, cells, partial(_main, paper, backbone, kind, n))
    return _table(name, n, cells, rows, tokens=name != "main")


def _main(paper: Published, backbone: str, kind: str, n: int, benchmark: str) -> Numbers:
    return paper.main(backbone, kind, benchmark, n)


def _entries(
    found: Rows, papers: int | None, cells: Sequence[Cell], paper_of: Callable[[str], Numbers]
) -> Iterator[tuple[str, tuple[Entry, ...]]]:
    """Rows of entries, a benchmark each; the paper's numbers stand in the row `papers`."""
    for place, (title, by_benchmark) in enumerate(found):
        entries = [
            Entry(
                column=column_of(cell) if (cell := by_benchmark.get(benchmark)) else None,
                paper=paper_of(benchmark) if place == papers else NOTHING,
            )
            for benchmark in dict.fromkeys(cell.benchmark for cell in cells)
        ]
        yield title, tuple(entries)


def _table(
    name: str,
    n: int,
    cells: Sequence[Cell],
    rows: Sequence[tuple[str, tuple[Entry, ...]]],
    *,
    tokens: bool,
) -> Table:
    return Table(
        name=name,
        title=f"{_TITLES[name]}, N = {n}",
        backbone=cells[0].backbone,
        benchmark="",
        columns=tuple(f"{each}, N = {n}" for each in dict.fromkeys(c.benchmark for c in cells)),
        rows=tuple(rows),
        tokens=tokens,
    )


def _rows(name: str | None, cells: Sequence[Cell]) -> Rows:
    """One row a label and setting, and where a benchmark comes twice, one a run; named by the
    method where no name is given."""
    groups: dict[tuple[str, ...], dict[str, Cell]] = {}
    for cell in cells:
        key: tuple[str, ...] = (cell.label, repr(cell.strategy), cell.rule.value)
        if cell.benchmark in groups.get(key, {}):
            key = (*key, cell.run)
        groups.setdefault(key, {})[cell.benchmark] = cell
    titled = []
    for found in groups.values():
        first = next(iter(found.values()))
        titled.append((first.method if name is None else _labelled(name, first), found))
    titles = [title for title, _ in titled]
    return [
        (title if titles.count(title) == 1 else f"{title} in {_runs(found)}", found)
        for title, found in titled
    ]


def _labelled(name: str, cell: Cell) -> str:
    return name if cell.label == cell.kind else f"{name} ({cell.label})"


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


def _ablation(n: int, cells: Sequence[Cell], paper: Published) -> Table:
    rows: list[tuple[str, tuple[Entry, ...]]] = []
    backbone = cells[0].backbone
    for variant, matches in _ABLATION.items():
        name = variant.replace("^*", "*")
        found = _rows(name, [cell for cell in cells if matches(cell)])
        papers = 0 if len(found) < 2 else _papers_row("markovscale_star", found)
        found = found if len(found) > 1 else [(name, found[0][1] if found else {})]
        rows += _entries(found, papers, cells, partial(_ablated, paper, backbone, variant, n))
    return _table("ablation", n, cells, rows, tokens=True)


def _ablated(paper: Published, backbone: str, variant: str, n: int, benchmark: str) -> Numbers:
    return paper.ablation(backbone, variant, benchmark, n)
