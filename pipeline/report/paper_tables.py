"""The paper's tables from our runs, with the paper's own numbers beside them where they match.

The paper's numbers are read from CSV files that the user has (``main_accuracy.csv``,
``variants.csv``, ``ablation.csv``, ``tau.csv``, ``gamma.csv``); none are kept here. A pair of
numbers is marked only where the paper's lies outside our interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.core.errors import DataError
from pipeline.report.comparison import accuracy, mean_interval
from pipeline.report.run_data import METHODS, Cell
from pipeline.report.sweep import interval_of
from pipeline.statistics.intervals import Interval
from pipeline.store.local import read_csv_rows

ABLATION_SETTING = ("deepseekr1distillqwen7b", 8)
"""Backbone and N of the paper's ablation: its row without both parts is MR-Thinking there."""
SWEEP_N = 64
"""N of the paper's tables of tau and gamma."""
GAMMA_SETTING = ("deepseekr1distillqwen7b", SWEEP_N, "aime2024")
"""Backbone, N and benchmark of its table of gamma."""

_ALIASES = {"amc23": "amc2023", "aime24": "aime2024", "aime25": "aime2025"}
_PAPER_METHODS = {
    **METHODS,
    "markovscale_t": "MarkovScale^t",
    "markovscale_star": "MarkovScale^*",
    "markovscale_0": "MarkovScale^0",
}
_FILES = ("main_accuracy", "variants", "ablation", "tau", "gamma")

Measure = str
"""``accuracy`` or ``tokens``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One number of a table, ours and the paper's."""

    measure: Measure
    ours: Interval | None = None
    """Accuracy as a share, or tokens a question; None where it was not run. An entry without an
    interval of its own has both ends at its value."""
    paper: float | None = None
    """On the same scale; None where the paper has no matching number."""

    @property
    def differs(self) -> bool:
        """Whether the paper's number lies outside our interval."""
        if self.ours is None or self.paper is None or self.ours.low == self.ours.high:
            return False
        return not self.ours.low <= self.paper <= self.ours.high


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """Rows of entries under columns of (benchmark or gamma, measure)."""

    name: str
    """``main``, ``variants``, ``ablation``, ``tau`` or ``gamma``."""
    title: str
    backbone: str
    n: int
    columns: tuple[tuple[str, Measure], ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]


PaperNumbers = Mapping[str, Sequence[Mapping[str, str]]]
"""Rows of each CSV file by its name without ending; [] where the file is not there."""


def read_paper(folder: str) -> PaperNumbers:
    """The paper's numbers.

    Raises:
        DataError: where the folder holds none of the files.
    """
    found: dict[str, Sequence[Mapping[str, str]]] = {}
    for name in _FILES:
        if rows := read_csv_rows(folder, f"{name}.csv"):
            found[name] = rows
    if not found:
        raise DataError(
            f"--paper must be a folder with any of {', '.join(f'{n}.csv' for n in _FILES)}, "
            f"got {folder!r}"
        )
    return {name: found.get(name, []) for name in _FILES}


def normal(name: str) -> str:
    """A backbone's or benchmark's name without owner, case and punctuation."""
    bare = "".join(c for c in name.rpartition("/")[2].lower() if c.isalnum())
    return _ALIASES.get(bare, bare)


def paper_tables(
    cells: Sequence[Cell], paper: PaperNumbers | None, sweep: Sequence[Mapping[str, Any]] = ()
) -> list[PaperTable]:
    """Every table of the paper that the cells or the sweep have a number for."""
    numbers = paper or dict.fromkeys(_FILES, ())
    tables: list[PaperTable] = []
    for backbone in dict.fromkeys(cell.backbone for cell in cells):
        own = [cell for cell in cells if cell.backbone == backbone]
        sizes = sorted({cell.n for cell in own if cell.n > 1}) or [1]
        for n in sizes:
            tables.append(_methods("main", backbone, n, own, numbers, list(METHODS), ["accuracy"]))
        variants = ["mr_thinking", "markovscale_t", "markovscale_star", "markovscale_0"]
        for n in sizes:
            if any(cell.kind in variants[1:] and cell.n == n for cell in own):
                both = ["accuracy", "tokens"]
                tables.append(_methods("variants", backbone, n, own, numbers, variants, both))
            if any(cell.kind == "markovscale_star" and cell.n == n for cell in own):
                tables.append(_ablation(backbone, n, own, numbers))
        swept = [row for row in sweep if row["kind"] == "markovscale_star" and row["headline"]]
        for n in sorted({row["n"] for row in swept}):
            rows = [row for row in swept if row["n"] == n and row["chosen_on"] is None]
            tables += [_tau(backbone, n, rows, numbers), *_gamma(backbone, n, rows, numbers)]
    return [table for table in tables if table.rows]


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
        return _number(rows, measure)

    rows = []
    for kind in kinds:
        of_kind = [c for c in cells if c.kind == kind and (c.n == n or kind == "base")]
        labels = list(dict.fromkeys(cell.label for cell in of_kind)) or [kind]
        for label in labels:
            found = {c.benchmark: c for c in reversed(of_kind) if c.label == label}
            plain = label == kind or len(labels) == 1  # a variant of ours has no number there
            title = METHODS[kind] if label == kind else f"{METHODS[kind]} ({label})"
            entries = tuple(
                _entry(
                    found.get(benchmark),
                    measure,
                    paper_of(kind, benchmark, measure) if plain else None,
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
        found = {c.benchmark: c for c in reversed(cells) if c.n == n and matches(c)}
        entries = []
        for benchmark, measure in columns:
            told = [
                row
                for row in paper["ablation"]
                if row["variant"] == variant and normal(row["benchmark"]) == normal(benchmark)
            ]
            theirs = _number(told, measure) if comparable else None
            entries.append(_entry(found.get(benchmark), measure, theirs))
        rows.append((variant.replace("^*", "*"), tuple(entries)))
    return PaperTable(
        name="ablation",
        title=f"Ablation of MarkovScale*, N = {n}",
        backbone=backbone,
        n=n,
        columns=columns,
        rows=tuple(rows),
    )


def _tau(
    backbone: str, n: int, sweep: Sequence[Mapping[str, Any]], paper: PaperNumbers
) -> PaperTable:
    at_ten = [row for row in sweep if row["gamma"] == 10]
    benchmarks = list(dict.fromkeys(row["benchmark"] for row in at_ten))
    columns = tuple((b, m) for b in benchmarks for m in ("accuracy", "tokens"))
    rows = []
    for tau in sorted({row["tau"] for row in at_ten}):
        entries = []
        for benchmark, measure in columns:
            ours = [r for r in at_ten if r["tau"] == tau and r["benchmark"] == benchmark]
            told = [
                row
                for row in paper["tau"]
                if _close(row["tau"], tau)
                and normal(row["benchmark"]) == normal(benchmark)
                and (normal(row["backbone"]), n) == (normal(backbone), SWEEP_N)
            ]
            entries.append(_swept(ours, measure, _number(told, measure)))
        rows.append((f"{tau:.2f}", tuple(entries)))
    return PaperTable(
        name="tau",
        title=f"MarkovScale* by τ, γ = 10, N = {n}",
        backbone=backbone,
        n=n,
        columns=columns,
        rows=tuple(rows),
    )


def _gamma(
    backbone: str, n: int, sweep: Sequence[Mapping[str, Any]], paper: PaperNumbers
) -> list[PaperTable]:
    tables = []
    for benchmark in dict.fromkeys(row["benchmark"] for row in sweep):
        own = [row for row in sweep if row["benchmark"] == benchmark]
        gammas = sorted({row["gamma"] for row in own})
        if len(gammas) < 2:
            continue
        comparable = (normal(backbone), n, normal(benchmark)) == GAMMA_SETTING
        columns = tuple((g, m) for g in gammas for m in ("accuracy", "tokens"))
        rows = []
        for tau in sorted({row["tau"] for row in own}):
            entries = []
            for gamma, measure in columns:
                ours = [r for r in own if (r["tau"], r["gamma"]) == (tau, gamma)]
                told = [
                    row
                    for row in (paper["gamma"] if comparable else ())
                    if _close(row["tau"], tau) and _close(row["gamma"], gamma)
                ]
                entries.append(_swept(ours, measure, _number(told, measure)))
            rows.append((f"{tau:.2f}", tuple(entries)))
        tables.append(
            PaperTable(
                name="gamma",
                title=f"MarkovScale* by τ and γ on {benchmark}, N = {n}",
                backbone=backbone,
                n=n,
                columns=tuple((f"γ = {g:g}", m) for g, m in columns),
                rows=tuple(rows),
            )
        )
    return tables


def _entry(cell: Cell | None, measure: Measure, paper: float | None) -> Entry:
    if cell is None:
        return Entry(measure=measure, paper=paper)
    ours = accuracy(cell, cell.rule) if measure == "accuracy" else mean_interval(cell.tokens)
    return Entry(measure=measure, ours=ours, paper=paper)


def _swept(rows: Sequence[Mapping[str, Any]], measure: Measure, paper: float | None) -> Entry:
    if not rows:
        return Entry(measure=measure, paper=paper)
    if measure == "accuracy":
        known = rows[0]["accuracy"] is not None
        ours = interval_of(rows[0]) if known else None
        return Entry(measure=measure, ours=ours, paper=paper)
    value = float(rows[0]["tokens_per_question"])
    return Entry(measure=measure, ours=Interval(value=value, low=value, high=value), paper=paper)


def _number(rows: Sequence[Mapping[str, str]], measure: Measure) -> float | None:
    """The one number of matching rows of the paper; percentages as shares."""
    if not rows:
        return None
    if measure == "accuracy":
        return float(rows[0]["accuracy_percent"]) / 100
    return float(rows[0]["tokens_per_question"])


def _close(text: str, value: float) -> bool:
    return abs(float(text) - value) < 1e-9
