"""The paper's tables of tau and gamma from a sweep: one table a setting of everything else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.core.errors import DataError
from pipeline.report.paper_numbers import (
    Entry,
    Measure,
    PaperNumbers,
    PaperTable,
    normal,
    number_of,
)
from pipeline.report.sweep import fixed_of, interval_of, told_apart
from pipeline.statistics.intervals import Interval

SWEEP_N = 64
"""N of the paper's tables of tau and gamma."""
GAMMA_SETTING = ("deepseekr1distillqwen7b", SWEEP_N, "aime2024")
"""Backbone, N and benchmark of its table of gamma."""

Row = Mapping[str, Any]


def sweep_tables(backbone: str, sweep: Sequence[Row], paper: PaperNumbers) -> list[PaperTable]:
    """Tables of tau (at gamma = 10) and of tau by gamma for every N of MarkovScale^*.

    Rows that differ in anything but tau and gamma stand in tables of their own, whose titles name
    the difference.

    Raises:
        DataError: where one setting has two results.
    """
    swept = [
        row
        for row in sweep
        if row["kind"] == "markovscale_star" and row["headline"] and row["chosen_on"] is None
    ]
    tables: list[PaperTable] = []
    for n in sorted({row["n"] for row in swept}):
        rows = [row for row in swept if row["n"] == n]
        for told, own in _settings(rows):
            tables += [*_tau(backbone, n, own, paper, told), *_gamma(backbone, n, own, paper, told)]
    return tables


def _settings(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Rows of one setting but for tau and gamma, and what tells it from the others."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["strategy"], fixed_of(row)), []).append(row)
    told = told_apart([fixed for _, fixed in groups])
    labels = {label for label, _ in groups}
    for ((label, _), own), words in zip(groups.items(), told, strict=True):
        yield ", ".join([label] * (len(labels) > 1) + [words] * bool(words)), own


def _is_papers(rows: Sequence[Row]) -> bool:
    """Whether the paper's numbers are of this setting: both parts on, the rule as printed."""
    settings = json.loads(rows[0]["settings"])
    known = (settings.get("gate"), settings.get("stopping"), settings.get("stop_rule"))
    return known == (True, True, "printed") and settings.get("calibration") is None


def _tau(
    backbone: str, n: int, sweep: Sequence[Row], paper: PaperNumbers, told: str
) -> list[PaperTable]:
    at_ten = [row for row in sweep if row["gamma"] == 10]
    if not at_ten:
        return []
    comparable = _is_papers(sweep) and n == SWEEP_N
    benchmarks = list(dict.fromkeys(row["benchmark"] for row in at_ten))
    columns = tuple((b, m) for b in benchmarks for m in ("accuracy", "tokens"))
    rows = []
    for tau in sorted({row["tau"] for row in at_ten}):
        entries = []
        for benchmark, measure in columns:
            ours = [r for r in at_ten if r["tau"] == tau and r["benchmark"] == benchmark]
            theirs = [
                row
                for row in (paper["tau"] if comparable else ())
                if _close(row["tau"], tau)
                and normal(row["benchmark"]) == normal(benchmark)
                and normal(row["backbone"]) == normal(backbone)
            ]
            entries.append(_swept(ours, measure, number_of(theirs, measure)))
        rows.append((f"{tau:.2f}", tuple(entries)))
    title = f"MarkovScale* by τ, γ = 10, N = {n}"
    return [_table("tau", title, told, backbone, n, columns, rows)]


def _gamma(
    backbone: str, n: int, sweep: Sequence[Row], paper: PaperNumbers, told: str
) -> list[PaperTable]:
    tables = []
    for benchmark in dict.fromkeys(row["benchmark"] for row in sweep):
        own = [row for row in sweep if row["benchmark"] == benchmark]
        gammas = sorted({row["gamma"] for row in own})
        if len(gammas) < 2:
            continue
        setting = (normal(backbone), n, normal(benchmark))
        comparable = _is_papers(sweep) and setting == GAMMA_SETTING
        columns = tuple((f"γ = {g:g}", m) for g in gammas for m in ("accuracy", "tokens"))
        rows = []
        for tau in sorted({row["tau"] for row in own}):
            entries = []
            for gamma in gammas:
                ours = [r for r in own if (r["tau"], r["gamma"]) == (tau, gamma)]
                theirs = [
                    row
                    for row in (paper["gamma"] if comparable else ())
                    if _close(row["tau"], tau) and _close(row["gamma"], gamma)
                ]
                entries += [_swept(ours, m, number_of(theirs, m)) for m in ("accuracy", "tokens")]
            rows.append((f"{tau:.2f}", tuple(entries)))
        title = f"MarkovScale* by τ and γ on {benchmark}, N = {n}"
        tables.append(_table("gamma", title, told, backbone, n, columns, rows))
    return tables


def _table(
    name: str,
    title: str,
    told: str,
    backbone: str,
    n: int,
    columns: tuple[tuple[str, Measure], ...],
    rows: Sequence[tuple[str, tuple[Entry, ...]]],
) -> PaperTable:
    return PaperTable(
        name=name,
        title=f"{title}, {told}" if told else title,
        backbone=backbone,
        n=n,
        columns=columns,
        rows=tuple(rows),
    )


def _swept(rows: Sequence[Row], measure: Measure, paper: float | None) -> Entry:
    if not rows:
        return Entry(measure=measure, paper=paper)
    row = rows[0]
    if any(other != row for other in rows[1:]):
        raise DataError(
            f"a setting must have one result, got {len(rows)} unlike ones of {row['strategy']} on "
            f"{row['benchmark']} with {row['settings']}"
        )
    if measure == "accuracy":
        ours = None if row["accuracy"] is None else interval_of(row)
        return Entry(measure=measure, ours=ours, paper=paper)
    value = float(row["tokens_per_question"])
    return Entry(measure=measure, ours=Interval(value=value, low=value, high=value), paper=paper)


def _close(text: str, value: float) -> bool:
    return abs(float(text) - value) < 1e-9
