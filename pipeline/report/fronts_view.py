"""*Fronts view*: shows the fronts of a sweep as sentences, charts and tables of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.report import charts, words
from pipeline.report.html import Child, Html, figure, h, table, with_ends
from pipeline.statistics.intervals import interval_in

Row = Mapping[str, Any]

_SERIES = 8
HINT = (
    "Settings are those on the Pareto hull of one half of the questions, judged on the other half, "
    "and the halves swapped; between two settings questions are dealt to both at random, so that "
    "all families spend the same. Intervals (95 %) resample the questions and choose the settings "
    "anew; the split into halves, and what was fitted before (a, b, weights), are held fixed. They "
    "are not corrected for how many there are."
)


def fronts_name(sweep: str) -> str:
    """The file of a sweep's fronts: ``sweep-fronts.parquet`` of ``sweep.parquet``."""
    return f"{sweep.removesuffix('.parquet')}-fronts.parquet"


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
    ahead_words = f": {'; '.join(ahead)} (points, not corrected)" if ahead else ""
    return (
        f"{name}: over budgets of {words.count(min(budgets))} to {words.count(max(budgets))} "
        f"tokens a question {best['family']} has the highest mean accuracy, "
        f"{words.percent_with(interval_in(best))}{ahead_words}."
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
