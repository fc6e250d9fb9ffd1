"""A sweep's table as charts: what one pool of completions gives under many settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.records.table_rows import rows_with
from pipeline.replay.sweep import LATER, SCHEMA
from pipeline.report import charts, words
from pipeline.report.html import Child, Html, figure, table
from pipeline.results.column import method_of
from pipeline.results.settings import fields_words, varied
from pipeline.statistics.intervals import Interval

FILE = "sweep.parquet"
"""Where a run directory keeps its sweep."""

Row = Mapping[str, Any]

_HOW = {"test": "the test questions themselves", "held_out": "held-out questions"}
_MOST_LINES = 8


def sweep_rows(swept: pa.Table, where: str) -> list[Row]:
    """Rows of a sweep (`pipeline.replay.sweep`).

    Raises:
        DataError: naming the columns that are missing.
    """
    what = "a sweep must have the columns of pipeline.replay.sweep"
    needed = pa.schema([column for column in SCHEMA if column.name not in LATER])
    return [*rows_with(swept, needed, what, where)]


def sweep_section(rows: Sequence[Row]) -> list[Child]:
    """Accuracy and tokens over tau and over gamma by the headline rule, and the chosen settings.

    Settings that differ in anything but tau and gamma stand in charts of their own.
    """
    headline = [row for row in rows if row["headline"] and row["accuracy"] is not None]
    grid = [row for row in headline if row["chosen_on"] is None]
    chosen = [row for row in headline if row["chosen_on"] is not None]
    body: list[Child] = []
    for group, members in _grouped(grid, _GROUP).items():
        picked = [row for row in chosen if tuple(row.get(k) for k in _GROUP) == group]
        settings: dict[str, list[Row]] = {}
        for row in members:
            settings.setdefault(fixed_of(row), []).append(row)
        told = told_apart(list(settings))
        for (fixed, own), words_of in zip(settings.items(), told, strict=True):
            body += _charts(own, [row for row in picked if fixed_of(row) == fixed], words_of)
        if picked:
            body.append(_chosen_table(group, picked))
    return body


_GROUP = ("source", "benchmark", "strategy", "n")
_FREE = ("tau", "gamma")


def fixed_of(row: Row) -> str:
    """All settings of a row but tau and gamma, as JSON; rows alike in it may share a table."""
    settings = json.loads(row["settings"])
    return json.dumps({k: v for k, v in settings.items() if k not in _FREE}, sort_keys=True)


def told_apart(fixed: Sequence[str]) -> list[str]:
    """In words, what tells each of some settings (`fixed_of`) from the others; "" for one alone."""
    known = [json.loads(one) for one in fixed]
    return [fields_words(one, sorted(varied(known))) for one in known]


def _charts(members: Sequence[Row], picked: Sequence[Row], told: str) -> list[Html]:
    found: list[Html] = []
    name = f"{_name(members[0])}, {told}" if told else _name(members[0])
    for axis, other, sign in (("tau", "gamma", "γ"), ("gamma", "tau", "τ")):
        known = [row for row in members if row[axis] is not None]
        if len({row[axis] for row in known}) < 2:
            continue
        lines = _grouped(known, (other,))
        left = len(lines) - _MOST_LINES
        for value, title in (("accuracy", "Accuracy"), ("tokens_per_question", "Tokens")):
            shown: list[dict[str, Any]] = [
                {
                    "series": "all" if held is None else f"{sign} = {held:g}",
                    "x": float(row[axis]),
                    "y": float(row[value]),
                }
                for (held,), rows in [*lines.items()][:_MOST_LINES]
                for row in sorted(rows, key=lambda row: float(row[axis]))
            ]
            write = words.percent if value == "accuracy" else words.count
            found.append(
                figure(
                    f"{title} over {axis}: {name}",
                    charts.lines(
                        shown,
                        x=axis,
                        y=title.lower(),
                        percent=value == "accuracy",
                        chosen=[
                            {
                                "x": row[axis],
                                "y": row[value],
                                "how": f"chosen on {row['chosen_on']}",
                            }
                            for row in picked
                            if row[axis] is not None
                        ],
                    ),
                    "Every point replays the same completions."
                    + (f" {left} more lines are in the table of the sweep." if left > 0 else ""),
                    (axis, "line", title.lower()),
                    [(f"{row['x']:g}", row["series"], write(row["y"])) for row in shown],
                )
            )
    return found


def _chosen_table(group: tuple[Any, ...], picked: Sequence[Row]) -> Html:
    every = dict.fromkeys(name for row in picked for name in json.loads(row["settings"]))
    names = [name for name in every if name != "n"]
    return table(
        ("chosen on", "settings", "accuracy [95 %]", "tokens a question"),
        [
            (
                _HOW.get(row["chosen_on"], f"the pool {row['chosen_on']}"),
                _settings(row, names),
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


def _settings(row: Row, names: Sequence[str]) -> str:
    known = json.loads(row["settings"])
    told = [fields_words(known, [n for n in names if known.get(n) is not None])]
    if row["split"] == "cross_fit" and any(isinstance(known.get(n), list) for n in names):
        told.append("each half judged with the setting of the other")
    return ", ".join(filter(None, told)) or words.NONE


def _name(row: Row) -> str:
    method = method_of(row["kind"], json.loads(row["settings"]).get("profile", ""))
    label = "" if row["strategy"] == row["kind"] else f" ({row['strategy']})"
    source = f" of {row['source']}" if row.get("source") else ""
    return f"{method}{label}{source}, {row['benchmark']}, N = {row['n']}, {row['answer_rule']}"


def _grouped(rows: Sequence[Row], names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return groups
