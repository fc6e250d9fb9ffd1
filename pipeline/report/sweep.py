"""A sweep's table as charts: what one pool of completions gives under many settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.core.errors import DataError
from pipeline.replay.sweep_table import SCHEMA
from pipeline.report import words
from pipeline.report.charts_time import Series, sweep_lines
from pipeline.report.figure import table
from pipeline.report.html import Child, Html
from pipeline.report.run_data import METHODS
from pipeline.statistics.intervals import Interval

FILE = "sweep.parquet"
"""Where a run directory keeps its sweep."""

Row = Mapping[str, Any]

_HOW = {"test": "the test questions themselves", "held_out": "held-out questions"}
_MOST_LINES = 8


def sweep_rows(swept: pa.Table, where: str) -> list[Row]:
    """Rows of a sweep (`pipeline.replay.sweep_table`).

    Raises:
        DataError: naming the columns that are missing.
    """
    missing = [name for name in SCHEMA.names if name not in swept.column_names]
    if missing:
        raise DataError(
            f"a sweep must have the columns of pipeline.replay.sweep_table, {where} lacks "
            f"{', '.join(missing)}"
        )
    rows: list[Row] = swept.select(SCHEMA.names).to_pylist()
    return rows


def sweep_section(rows: Sequence[Row]) -> list[Child]:
    """Accuracy and tokens over tau and over gamma by the headline rule, and the chosen settings."""
    headline = [row for row in rows if row["headline"] and row["accuracy"] is not None]
    grid = [row for row in headline if row["chosen_on"] is None]
    chosen = [row for row in headline if row["chosen_on"] is not None]
    body: list[Child] = []
    for group, members in _grouped(grid, ("benchmark", "strategy", "n")).items():
        picked = [row for row in chosen if tuple(row[k] for k in _GROUP) == group]
        body += _charts(members, picked)
        if picked:
            body.append(_chosen_table(group, picked))
    return body


_GROUP = ("benchmark", "strategy", "n")


def _charts(members: Sequence[Row], picked: Sequence[Row]) -> list[Html]:
    charts: list[Html] = []
    for axis, other, sign in (("tau", "gamma", "γ"), ("gamma", "tau", "τ")):
        if len({row[axis] for row in members if row[axis] is not None}) < 2:
            continue
        for value, title in (("accuracy", "Accuracy"), ("tokens_per_question", "Tokens")):
            charts.append(
                sweep_lines(
                    f"{title} over {axis}: {_name(members[0])}",
                    axis,
                    _lines(members, axis, other, sign, value),
                    [
                        (row["chosen_on"], (row[axis], row[value]))
                        for row in picked
                        if row[axis] is not None
                    ],
                    percent=value == "accuracy",
                    caption="Every point replays the same completions.",
                )
            )
    return charts


def _chosen_table(group: tuple[Any, ...], picked: Sequence[Row]) -> Html:
    return table(
        ("chosen on", "settings", "accuracy [95 %]", "tokens a question"),
        [
            (
                _HOW.get(row["chosen_on"], f"the pool {row['chosen_on']}"),
                _settings(row),
                words.percent_with(interval_of(row)),
                words.count(row["tokens_per_question"]),
            )
            for row in picked
        ],
        caption=f"{_name(picked[0])}: a setting chosen on the test questions is what hindsight "
        f"finds there; one chosen elsewhere is what a user can have",
    )


def interval_of(row: Row) -> Interval:
    """Accuracy of a row with its Wilson interval."""
    return Interval(value=row["accuracy"], low=row["low"], high=row["high"])


def _settings(row: Row) -> str:
    told = [
        f"{name} = {row[name]:g}" for name in ("tau", "gamma", "sigma") if row[name] is not None
    ]
    if row["tau"] is None and row["split"] == "cross_fit":
        told.append("each half judged with the setting of the other")
    return ", ".join(told) or words.NONE


def _name(row: Row) -> str:
    method = METHODS.get(row["kind"], row["kind"])
    label = "" if row["strategy"] == row["kind"] else f" ({row['strategy']})"
    return f"{method}{label}, {row['benchmark']}, N = {row['n']}, {row['answer_rule']}"


def _lines(members: Sequence[Row], axis: str, other: str, sign: str, value: str) -> Series:
    series: Series = {}
    known = [row for row in members if row[axis] is not None]
    for (held,), rows in _grouped(known, (other,)).items():
        name = "all" if held is None else f"{sign} = {held:g}"
        series[name] = sorted((float(row[axis]), float(row[value])) for row in rows)
    return dict(list(series.items())[:_MOST_LINES])


def _grouped(rows: Sequence[Row], names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups
