"""The charts of accuracy: against tokens, by round, by strategy."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.report import words
from pipeline.report.chain_view import RoundCurve
from pipeline.report.comparison import accuracy
from pipeline.report.figure import Key, figure
from pipeline.report.html import Html
from pipeline.report.run_data import Cell
from pipeline.report.svg import (
    Plot,
    Point,
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
from pipeline.statistics.intervals import Interval, mean_interval
from pipeline.theory.estimate import Bounds

_LOG_FROM = 8.0


def whole_percent(share: float) -> str:
    """A tick of an axis of shares: as many digits as it needs."""
    return f"{round(share * 100, 1):g} %"


def short(value: float) -> str:
    """A tick of an axis of counts: 950, 1.5k, 20k, 3M."""
    for power, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= power:
            return f"{value / power:.3g}{unit}"
    return f"{value:.3g}"


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """Positions of the points that no other beats in accuracy for as few tokens, cheapest first.

    Args:
        points: (tokens, accuracy).
    """
    order = sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1]))
    front: list[int] = []
    for i in order:
        if not front or points[i][1] > points[front[-1]][1]:
            front.append(i)
    return front


def accuracy_against_tokens(
    cells: Sequence[Cell], curves: Sequence[RoundCurve], series: dict[str, int]
) -> Html:
    """Each cell as a point with both intervals, MR-Thinking's path by round, and the front."""
    shown = [
        (cell, interval, mean_interval(cell.tokens))
        for cell in cells
        if (interval := accuracy(cell, cell.rule)) is not None
    ]
    front = pareto([(tokens.value, right.value) for _, right, tokens in shown])
    paths = [
        [(t, i.value) for t, i in zip(c.tokens, c.observed, strict=True) if i is not None]
        for c in curves
    ]
    ends = [(t.low, r.low) for _, r, t in shown] + [(t.high, r.high) for _, r, t in shown]
    everything = ends + [point for points in paths for point in points]
    least = min(x for x, _ in everything if x > 0)
    log = max(x for x, _ in everything) > _LOG_FROM * least
    span = [max(x, least) for x, _ in everything]
    x_ends = (least * 0.85, max(span) * 1.15) if log else padded(span, within=(0, float("inf")))
    y_ends = padded([y for _, y in everything], within=(0.0, 1.0))

    def draw(size: Size, label: str) -> Html:
        area = plot(size, x_ends, y_ends, log_x=log)
        x, y = area.x, area.y
        drawn = axes(
            area,
            x_label=f"completion tokens a question{', log scale' if log else ''}",
            y_label="accuracy",
            x_text=short,
            y_text=whole_percent,
        )
        steps: list[Point] = []
        for place in front:
            _, right, tokens = shown[place]
            if steps:
                steps.append((x(tokens.value), steps[-1][1]))
            steps.append((x(tokens.value), y(right.value)))
        drawn.append(path([*steps, (x.end, steps[-1][1])], "front"))
        for curve, points in zip(curves, paths, strict=True):
            cls = f"s{series[curve.cell.name]}"
            drawn.append(path([(x(t), y(v)) for t, v in points], f"thin {cls}"))
        for cell, right, tokens in shown:
            place, at = series[cell.name], (x(tokens.value), y(right.value))
            drawn.append(line((at[0], y(right.low)), (at[0], y(right.high)), f"whisker s{place}"))
            drawn.append(line((x(tokens.low), at[1]), (x(tokens.high), at[1]), f"whisker s{place}"))
            tip = f"{cell.name}: {words.percent_with(right)}, {words.count(tokens.value)} tokens"
            drawn.append(mark(place, *at, f"s{place}", tip))
        return picture(size, drawn, label=label)

    best = [shown[place][0].name for place in front]
    return figure(
        "Accuracy against tokens",
        draw,
        says="Accuracy against completion tokens a question. "
        + "; ".join(
            f"{cell.name} {words.percent(right.value)} at {words.count(tokens.value)}"
            for cell, right, tokens in shown
        ),
        caption="Up and to the left is better. Each point is one setting as it was run; what a "
        "strategy gives at other budgets, tuned, is told by a sweep. Crosses are 95 % intervals. "
        "The dashed steps are "
        f"the Pareto front as observed ({words.listed(best)}); within the intervals it may run "
        "otherwise."
        + (" The thin line is MR-Thinking after each of its rounds." if curves else ""),
        keys=[Key(cls=f"s{series[c.name]} shape{series[c.name] % 5}", name=c.name) for c in cells],
        header=("strategy", "accuracy [95 %]", "tokens a question [95 %]", "on the front"),
        rows=[
            (
                cell.name,
                words.percent_with(right),
                f"{words.count(tokens.value)} "
                f"[{words.count(tokens.low)}, {words.count(tokens.high)}]",
                "yes" if place in front else "no",
            )
            for place, (cell, right, tokens) in enumerate(shown)
        ],
    )


def accuracy_by_round(curve: RoundCurve, place: int) -> Html:
    """Observed accuracy of each round with its interval, p_r of the closed form, and L."""
    limit = curve.fit.stationary_accuracy
    seen = [(r, i) for r, i in enumerate(curve.observed) if i is not None]
    y_ends = padded(
        [v for _, i in seen for v in (i.low, i.high)] + [*curve.predicted, limit.value],
        within=(0.0, 1.0),
    )
    rounds = len(curve.observed)

    def draw(size: Size, label: str) -> Html:
        area = plot(size, (0.0, float(rounds - 1)), y_ends)
        x, y = area.x, area.y
        drawn = axes(
            area,
            x_label="round (0 is the first answer)",
            y_label="accuracy of the answer of that round",
            x_text=lambda v: f"{v:.0f}",
            y_text=whole_percent,
            x_ticks=[float(r) for r in range(rounds)] if rounds <= 16 else None,
        )
        drawn.append(
            band(
                [(x(r), y(i.low)) for r, i in seen],
                [(x(r), y(i.high)) for r, i in seen],
                f"s{place}",
            )
        )
        drawn.append(line((x.start, y(limit.value)), (x.end, y(limit.value)), "limit"))
        drawn.append(
            text(
                x.end, y(limit.value) - 6, f"L = {words.percent(limit.value)}", "note", anchor="end"
            )
        )
        drawn.append(path([(x(r), y(p)) for r, p in enumerate(curve.predicted)], "closed"))
        drawn.append(path([(x(r), y(i.value)) for r, i in seen], f"s{place}"))
        if rounds <= 33:
            drawn += [
                mark(place, x(r), y(i.value), f"s{place}", _round_tip(curve, r, i)) for r, i in seen
            ]
        return picture(size, drawn, label=label)

    last = seen[-1]
    return figure(
        f"Accuracy by round: {curve.cell.name}",
        draw,
        says=f"Accuracy by round of {curve.cell.name}: {words.percent(seen[0][1].value)} in round "
        f"0, {words.percent(last[1].value)} in round {last[0]}; the closed form gives "
        f"{words.percent(curve.predicted[last[0]])}, its limit L is "
        f"{words.percent(limit.value)}.",
        caption=f"The dashed line is p_r of the two-state chain (Eq. 4) with "
        f"p0 = {words.decimal(curve.p0)}, a = {words.decimal(curve.fit.a.value)} and "
        f"b = {words.decimal(curve.fit.b.value)} counted on these chains: a description, no "
        f"forecast. It is off by {words.magnitude(curve.error)} points in the mean over rounds. "
        f"The band is the 95 % interval of each round.",
        keys=[
            Key(cls=f"s{place}", name="observed", shape="line"),
            Key(cls="closed", name="closed form p_r", shape="dashed"),
            Key(cls="limit", name="L = b / (a + b)", shape="line"),
        ],
        header=("round", "observed [95 %]", "p_r", "tokens so far"),
        rows=[
            (
                str(r),
                words.percent_with(interval),
                words.percent(curve.predicted[r]),
                words.count(curve.tokens[r]),
            )
            for r, interval in enumerate(curve.observed)
        ],
    )


def _round_tip(curve: RoundCurve, r: int, interval: Interval) -> str:
    return (
        f"round {r}: {words.percent_with(interval)}, closed form "
        f"{words.percent(curve.predicted[r])}"
    )


def strategies_and_bounds(
    cells: Sequence[Cell], bounds: Bounds | None, series: dict[str, int]
) -> Html:
    """Accuracy of every cell on one line each, and the paper's bounds behind them."""
    shown = [(c, i) for c in cells if (i := accuracy(c, c.rule)) is not None]
    limits = bounds_of(bounds)
    values = [v for _, i in shown for v in (i.low, i.high)] + [i.value for _, i in limits]
    x_ends = padded(values, within=(0.0, 1.0))
    wide = Size(width=720, height=70 + 34 * len(shown), narrow=False)
    narrow = Size(width=360, height=74 + 50 * len(shown), narrow=True)

    def draw(size: Size, label: str) -> Html:
        area = plot(size, x_ends, (0.0, 1.0), left=14 if size.narrow else 210, top=20)
        x, step = area.x, (area.y.start - area.y.end) / max(1, len(shown))
        drawn = [
            *_value_axis(area),
            *(
                line((x(i.value), area.y.end - 4), (x(i.value), area.y.start), f"bound {name}")
                for name, i in limits
            ),
        ]
        for row, (cell, right) in enumerate(shown):
            middle = area.y.end + step * (row + (0.7 if size.narrow else 0.5))
            place = series[cell.name]
            label_at = (x.start, middle - 14) if size.narrow else (x.start - 10, middle + 4)
            anchor = "start" if size.narrow else "end"
            drawn.append(text(*label_at, cell.name, "name", anchor=anchor))
            drawn.append(line((x(right.low), middle), (x(right.high), middle), f"whisker s{place}"))
            tip = f"{cell.name}: {words.percent_with(right)}"
            drawn.append(mark(place, x(right.value), middle, f"s{place}", tip))
        return picture(size, drawn, label=label)

    return figure(
        "Strategies and bounds",
        draw,
        says="Accuracy of each strategy: "
        + "; ".join(f"{c.name} {words.percent_with(i)}" for c, i in shown)
        + ". Bounds: "
        + ("; ".join(f"{name} {words.percent(i.value)}" for name, i in limits) or "none"),
        caption="Each strategy by its headline answer rule, with its 95 % interval. The bounds are "
        "limits of the chain, not of these questions: selection by a verifier may pass them.",
        keys=[
            Key(cls=f"bound {name}", name=f"{name} bound {words.percent_with(i)}", shape="line")
            for name, i in limits
        ],
        header=("strategy", "accuracy [95 %]", *(f"above {name}, points" for name, _ in limits)),
        rows=[
            (
                cell.name,
                words.percent_with(right),
                *(words.points(right.value - i.value) for _, i in limits),
            )
            for cell, right in shown
        ],
        wide=wide,
        narrow=narrow,
    )


def bounds_of(bounds: Bounds | None) -> list[tuple[str, Interval]]:
    """(name, L) of the bounds that exist."""
    if bounds is None:
        return []
    parts = (("lower", bounds.lower), ("neutral", bounds.neutral), ("upper", bounds.upper))
    return [(name, part.stationary_accuracy) for name, part in parts if part is not None]


def _value_axis(area: Plot) -> list[Html]:
    x, y = area.x, area.y
    drawn = [line((x.start, y.start), (x.end, y.start), "axis")]
    for value in x.ticks(5):
        drawn.append(line((x(value), y.start), (x(value), y.end), "grid"))
        drawn.append(text(x(value), y.start + 17, whole_percent(value), "tick", anchor="middle"))
    drawn.append(text((x.start + x.end) / 2, y.start + 36, "accuracy", "title", anchor="middle"))
    return drawn
