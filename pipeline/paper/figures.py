"""The paper's figures of accuracy: against tokens, and by round with the chain fitted to it."""

from __future__ import annotations

from typing import Any

from pipeline.paper.curves import Convergence
from pipeline.paper.evaluation import Evaluation
from pipeline.paper.formats import count_with, ends_of
from pipeline.paper.tables import MAIN
from pipeline.report import words
from pipeline.report.charts import pareto, short, whole_percent
from pipeline.report.figure import Key, figure
from pipeline.report.html import Html
from pipeline.report.svg import (
    Size,
    axes,
    band,
    line,
    mark,
    padded,
    path,
    picture,
    plot,
    text,
)
from pipeline.results.column import Column

_SERIES = 8

Lines = dict[str, list[Column]]
"""A method's numbers over N, cheapest first."""


def lines_of(made: Evaluation) -> Lines:
    """Methods of the main table; those whose tau was chosen on the test are left out."""
    found: Lines = {}
    for name in MAIN:
        points = [entry for (row, _), entry in made.main.items() if row == name]
        points = [p for p in points if p.accuracy is not None and p.tokens is not None]
        if points and points[0].chosen_on != "test":
            found[points[0].method] = sorted(points, key=lambda p: p.n or 0)
    return found


def accuracy_against_tokens(made: Evaluation) -> Html | None:
    """Each method as a line over its budgets, with both intervals, and the front."""
    series = lines_of(made)
    flat = [(p, p.accuracy, p.tokens) for points in series.values() for p in points]
    shown = [(p, right, spent) for p, right, spent in flat if right and spent and spent.value > 0]
    if not shown:
        return None
    x_ends = (
        min(max(t.low, t.value / 2) for _, _, t in shown) * 0.85,
        max(t.high for _, _, t in shown) * 1.15,
    )
    y_ends = padded([v for _, r, _ in shown for v in (r.low, r.high)], within=(0.0, 1.0))
    place_of = {method: place for place, method in enumerate(series)}
    front = [shown[i] for i in pareto([(t.value, r.value) for _, r, t in shown])]

    def draw(size: Size, label: str) -> Html:
        area = plot(size, x_ends, y_ends, log_x=True)
        x, y = area.x, area.y
        drawn = axes(
            area,
            x_label="completion tokens a question, log scale",
            y_label="accuracy",
            x_text=short,
            y_text=whole_percent,
        )
        steps: list[tuple[float, float]] = []
        for _, right, spent in front:
            if steps:
                steps.append((x(spent.value), steps[-1][1]))
            steps.append((x(spent.value), y(right.value)))
        drawn.append(path([*steps, (x.end, steps[-1][1])], "front"))
        for method in series:
            at = [(x(t.value), y(r.value)) for p, r, t in shown if p.method == method]
            drawn.append(path(at, f"thin s{place_of[method] % _SERIES}"))
        for point, right, spent in shown:
            place = place_of[point.method]
            cls = f"s{place % _SERIES}"
            at_x, at_y = x(spent.value), y(right.value)
            drawn.append(line((at_x, y(right.low)), (at_x, y(right.high)), f"whisker {cls}"))
            drawn.append(line((x(spent.low), at_y), (x(spent.high), at_y), f"whisker {cls}"))
            drawn.append(mark(place, at_x, at_y, cls, f"{name_of(point)}: {_said(point)}"))
        return picture(size, drawn, label=label)

    return figure(
        f"Accuracy against tokens: {made.title}",
        draw,
        says="; ".join(f"{name_of(p)} {_said(p)}" for p, _, _ in shown),
        caption="A line is one method over N. Crosses are 95 % intervals. The dashed steps are the "
        "Pareto front as observed; within the intervals it may run otherwise. τ is chosen on the "
        "other half of the questions.",
        keys=[
            Key(cls=f"s{p % _SERIES} shape{p % 5}", name=method) for method, p in place_of.items()
        ],
        header=("method", "setting", "accuracy [95 %]", "tokens a question [95 %]", "on the front"),
        rows=[
            (
                name_of(p),
                p.setting,
                words.percent_with(right),
                count_with(t),
                "yes" if any(p is best for best, _, _ in front) else "no",
            )
            for p, right, t in shown
        ],
    )


def accuracy_rows(made: Evaluation) -> list[dict[str, Any]]:
    """The points of that figure."""
    return [
        {
            "backbone": made.backbone,
            "benchmark": made.benchmark,
            "method": point.method,
            "n": point.n,
            "setting": point.setting,
            **ends_of("accuracy", point.accuracy),
            **ends_of("tokens", point.tokens),
        }
        for points in lines_of(made).values()
        for point in points
    ]


def convergence_figure(made: Evaluation, curve: Convergence) -> Html:
    """Observed accuracy by round, the fitted chain, the chain of the other half, and L."""
    limit = curve.fit.stationary_accuracy
    ends = [v for i in curve.observed for v in (i.low, i.high)]
    drawn_through = [p.value for p in (*curve.fitted, *curve.forecast, limit)]
    y_ends = padded([*ends, *drawn_through], within=(0.0, 1.0))
    last = len(curve.observed) - 1

    def draw(size: Size, label: str) -> Html:
        area = plot(size, (0.0, float(last)), y_ends)
        x, y = area.x, area.y
        drawn = axes(
            area,
            x_label="round (0 is the first answer)",
            y_label="accuracy of the answer of that round",
            x_text=lambda v: f"{v:.0f}",
            y_text=whole_percent,
            x_ticks=[float(r) for r in range(last + 1)] if last < 16 else None,
        )
        low = [(x(r), y(i.low)) for r, i in enumerate(curve.observed)]
        high = [(x(r), y(i.high)) for r, i in enumerate(curve.observed)]
        drawn.append(band(low, high, "s0"))
        drawn.append(line((x.start, y(limit.value)), (x.end, y(limit.value)), "limit"))
        drawn.append(text(x.end, y(limit.value) - 6, f"L = {words.percent(limit.value)}", "note",
                          anchor="end"))  # fmt: skip
        drawn.append(path([(x(r), y(p.value)) for r, p in enumerate(curve.forecast)], "thin s2"))
        drawn.append(path([(x(r), y(p.value)) for r, p in enumerate(curve.fitted)], "closed"))
        drawn.append(path([(x(r), y(i.value)) for r, i in enumerate(curve.observed)], "s0"))
        return picture(size, drawn, label=label)

    fit, off, held = curve.fit, curve.error(curve.fitted), curve.error(curve.forecast)
    return figure(
        f"Convergence: {made.title}",
        draw,
        says=f"Accuracy {words.percent(curve.observed[0].value)} in round 0, "
        f"{words.percent(curve.observed[-1].value)} in round {last}; fitted "
        f"{words.percent_with(curve.fitted[-1])}; L {words.percent_with(limit)}.",
        caption=f"Dashed: p_r (Eq. 4) with p0 of round 0, a = {words.decimal_with(fit.a)} and "
        f"b = {words.decimal_with(fit.b)} counted on these chains, a description, off by "
        f"{words.percent(off)} in the mean over rounds. Thin: the same with a and b that were not "
        f"counted on the question ({made.believed.words}), off by {words.percent(held)}. "
        f"λ = {words.decimal_with(fit.second_eigenvalue)}, L = {words.percent_with(limit)}; "
        f"intervals weigh whole questions. The band is the 95 % interval of each round.",
        keys=[
            Key(cls="s0", name="observed", shape="line"),
            Key(cls="closed", name="fitted p_r", shape="dashed"),
            Key(cls="s2", name="p_r, a and b not of the question", shape="line"),
            Key(cls="limit", name="L = b / (a + b)", shape="line"),
        ],
        header=(
            "round",
            "observed [95 %]",
            "fitted p_r [95 %]",
            "held-out p_r [95 %]",
            "tokens so far [95 %]",
        ),
        rows=[
            (
                str(r),
                words.percent_with(seen),
                words.percent_with(curve.fitted[r]),
                words.percent_with(curve.forecast[r]),
                count_with(curve.tokens[r]),
            )
            for r, seen in enumerate(curve.observed)
        ],
    )


def convergence_rows(made: Evaluation, curve: Convergence) -> list[dict[str, Any]]:
    """The points of that figure."""
    return [
        {
            "backbone": made.backbone,
            "benchmark": made.benchmark,
            "round": r,
            **ends_of("accuracy", seen),
            **ends_of("fitted", curve.fitted[r]),
            **ends_of("held_out", curve.forecast[r]),
            **ends_of("tokens", curve.tokens[r]),
            **ends_of("a", curve.fit.a),
            **ends_of("b", curve.fit.b),
            **ends_of("L", curve.fit.stationary_accuracy),
            **ends_of("lambda", curve.fit.second_eigenvalue),
        }
        for r, seen in enumerate(curve.observed)
    ]


def name_of(point: Column) -> str:
    """A method and its budget."""
    return point.method if point.n in (None, 1) else f"{point.method}, N = {point.n}"


def _said(point: Column) -> str:
    spent = None if point.tokens is None else point.tokens.value
    return f"{words.percent_with(point.accuracy)}, {words.count(spent)} tokens"
