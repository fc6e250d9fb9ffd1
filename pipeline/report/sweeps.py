"""*Sweeps*: shows a sweep and its fronts as sentences, charts and tables of a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.records.table_rows import rows_with
from pipeline.replay.fronts import SCHEMA as FRONTS
from pipeline.replay.sweep import LATER
from pipeline.replay.sweep import SCHEMA as SWEEP
from pipeline.report import charts, words
from pipeline.report.html import Child, Html, figure, h, table, with_ends
from pipeline.results.column import fields_words, method_of, varied
from pipeline.statistics.intervals import interval_in

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
    needed = pa.schema([column for column in SWEEP if column.name not in LATER])
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


def fixed_of(row: Row, tuned: Sequence[str] = ("tau", "gamma")) -> str:
    """All settings of a row but those that are tuned, as JSON; rows alike in it may share a
    table."""
    settings = json.loads(row["settings"])
    return json.dumps({k: v for k, v in settings.items() if k not in tuned}, sort_keys=True)


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
                words.percent_with(interval_in(row, "accuracy")),
                words.count(row["tokens_per_question"]),
            )
            for row in picked
        ],
        caption=f"{_name(picked[0])}: a setting chosen on the test questions is what hindsight "
        f"finds there; one chosen elsewhere is what a user can have",
    )


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


_SERIES = 8
HINT = (
    "Settings are those on the Pareto hull of one half of the questions, judged on the other half, "
    "and the halves swapped; between two settings questions are dealt to both at random, so that "
    "all families spend the same. Intervals (95 %) resample the questions and choose the settings "
    "anew; the split into halves, and what was fitted before (a, b, weights), are held fixed. They "
    "are not corrected for how many there are."
)


def fronts_name(sweep: str) -> str:
    """Where the fronts of a sweep lie: ``sweep-fronts.parquet`` beside ``sweep.parquet``."""
    return f"{sweep.removesuffix('.parquet')}-fronts.parquet"


def read_fronts(made: pa.Table, where: str) -> list[Row]:
    """Rows of a table of fronts (`pipeline.replay.fronts`).

    Raises:
        DataError: naming the columns that are missing.
    """
    if "split_sd" not in made.column_names:  # of earlier versions
        made = made.append_column(FRONTS.field("split_sd"), pa.nulls(len(made), pa.float64()))
    what = "fronts must have the columns of pipeline.replay.fronts"
    return [*rows_with(made, FRONTS, what, where)]


def fronts_section(rows: Sequence[Row], of: str = "") -> list[Child]:
    """A sentence, a chart and a table of each benchmark; `of` is the backbone or run."""
    body: list[Child] = []
    for benchmark in dict.fromkeys(row["benchmark"] for row in rows):
        own = [row for row in rows if row["benchmark"] == benchmark]
        name = f"{benchmark}, {of}" if of else benchmark
        body += [
            h("p", sentence(own, name)),
            _chart(own, name),
            _means_table(own, name),
        ]
    return [*body, h("p", HINT, cls="hint")] if body else []


def sentence(rows: Sequence[Row], name: str) -> str:
    """Who leads over all budgets, and by how much over each control: the best of many is picked, so
    its mean is said to be the highest and no more."""
    best, budgets = ranked(rows)[0], [row["tokens"] for row in rows if row["measure"] == "accuracy"]
    ahead = [
        f"{words.points(row['value'])} {words.points_range(row['low'], row['high'])} over "
        f"{row['against']}"
        for row in rows
        if row["measure"] == "mean_difference" and row["family"] == best["family"]
    ]
    told = f": {'; '.join(ahead)} (points, not corrected)" if ahead else ""
    return (
        f"{name}: over budgets of {words.count(min(budgets))} to {words.count(max(budgets))} "
        f"tokens a question {best['family']} has the highest mean accuracy, "
        f"{words.percent_with(interval_in(best))}{told}."
    )


def controls_of(rows: Sequence[Row]) -> list[str]:
    """The families that all others are held against."""
    held = {row["against"] for row in rows if row["against"] is not None}
    return [name for name in dict.fromkeys(row["family"] for row in rows) if name in held]


def ranked(rows: Sequence[Row]) -> list[Row]:
    """Mean accuracy of each family, the highest first."""
    means = [row for row in rows if row["measure"] == "mean_accuracy"]
    return sorted(means, key=lambda row: -row["value"])


def _chart(rows: Sequence[Row], name: str) -> Html:
    order = [row["family"] for row in ranked(rows)]
    controls = controls_of(rows)
    others = [family for family in order if family not in controls]
    shown = [f for f in order if f in controls or f in others[: _SERIES - len(controls)]]
    left = len(order) - len(shown)
    return figure(
        f"Fronts: {name}",
        charts.lines(
            [
                {"series": family, "x": row["tokens"], "y": row["value"]}
                for family in shown
                for row in rows
                if row["family"] == family and row["measure"] == "accuracy"
            ],
            x="completion tokens per question, log scale",
            y="accuracy, settings of the other half",
            log=True,
            percent=True,
        ),
        "Each line is a family with its settings tuned on the other half of the questions."
        + (f" {words.plural(left, 'more family').replace('familys', 'families')} in the tables."
           if left else ""),
        ("family", "half judged", "setting on its front", "accuracy", "tokens"),
        [
            (
                row["family"],
                str(row["half"]),
                row["setting"],
                words.percent(row["value"]),
                words.count(row["tokens"]),
            )
            for row in rows
            if row["measure"] == "setting"
        ],
    )  # fmt: skip


def _means_table(rows: Sequence[Row], name: str) -> Html:
    controls = controls_of(rows)
    header = ["family", "mean accuracy over budgets"]
    for control in controls:
        header += [f"minus {control}, points", "its tokens at equal accuracy"]
    body: list[list[Child]] = []
    for mean in ranked(rows):
        value, ends = words.percent(mean["value"]), words.percent_range(interval_in(mean))
        cells: list[Child] = [mean["family"], with_ends(value, ends)]
        for control in controls:
            cells += _versus(rows, mean["family"], control)
        body.append(cells)
    return table(header, body, caption=f"Over all budgets, {name}")


def _versus(rows: Sequence[Row], family: str, control: str) -> list[Child]:
    found = {
        row["measure"]: row
        for row in rows
        if row["family"] == family and row["against"] == control and row["measure"] != "difference"
    }
    if not found:
        return [words.NONE, words.NONE]
    gain, ratio = found["mean_difference"], found["tokens_ratio"]
    return [
        with_ends(words.points(gain["value"]), words.points_range(gain["low"], gain["high"])),
        [
            f"× {_factor(ratio['value'])}",
            h("small", f"[{_factor(ratio['low'])}, {_factor(ratio['high'])}]"),
            h("small", f"{words.percent(ratio['level'])} with {words.count(ratio['tokens'])} "
                       f"against {words.count(ratio['control_tokens'])}"),
        ],
    ]  # fmt: skip


def _factor(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"
