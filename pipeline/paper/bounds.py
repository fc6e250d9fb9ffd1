"""The paper's figure of bounds: neutral, upper and lower accuracy, and the methods in them."""

from __future__ import annotations

from typing import Any

from pipeline.paper.evaluation import Evaluation
from pipeline.paper.figures import lines_of, name_of
from pipeline.paper.formats import ends_of
from pipeline.report import words
from pipeline.report.charts import bounds_of as limits_of
from pipeline.report.charts import whole_percent
from pipeline.report.figure import Key, figure
from pipeline.report.html import Html
from pipeline.report.svg import Size, line, mark, padded, picture, plot, text
from pipeline.results.column import Column
from pipeline.theory.estimate import Bounds

_SERIES = 8


def bounded(made: Evaluation) -> list[Column]:
    """What the figure of bounds shows: every method at its largest budget."""
    return [points[-1] for points in lines_of(made).values()]


def bounds_figure(made: Evaluation, found: Bounds) -> Html:
    """Neutral, upper and lower bound with their intervals, and the methods in them."""
    shown = [(p, right) for p in bounded(made) if (right := p.accuracy) is not None]
    limits = limits_of(found)
    values = [v for _, i in shown for v in (i.low, i.high)]
    x_ends = padded(values + [v for _, i in limits for v in (i.low, i.high)], within=(0.0, 1.0))
    rows = len(shown) + len(limits)
    wide = Size(width=720, height=70 + 30 * rows, narrow=False)
    narrow = Size(width=360, height=74 + 46 * rows, narrow=True)

    def draw(size: Size, label: str) -> Html:
        area = plot(size, x_ends, (0.0, 1.0), left=14 if size.narrow else 230, top=20)
        x, step = area.x, (area.y.start - area.y.end) / max(1, rows)
        drawn = [line((x.start, area.y.start), (x.end, area.y.start), "axis")]
        for value in x.ticks(5):
            drawn.append(line((x(value), area.y.start), (x(value), area.y.end), "grid"))
            drawn.append(text(x(value), area.y.start + 17, whole_percent(value), "tick",
                              anchor="middle"))  # fmt: skip
        for name, limit in limits:
            ends = (x(limit.value), area.y.end - 4), (x(limit.value), area.y.start)
            drawn.append(line(*ends, f"bound {name}"))
        every = [(f"{name} bound", limit, None) for name, limit in limits]
        points = [(name_of(p), right, place) for place, (p, right) in enumerate(shown)]
        for row, (name, right, place) in enumerate([*every, *points]):
            middle = area.y.end + step * (row + (0.7 if size.narrow else 0.5))
            at = (x.start, middle - 14) if size.narrow else (x.start - 10, middle + 4)
            drawn.append(text(*at, name, "name", anchor="start" if size.narrow else "end"))
            cls = "s0" if place is None else f"s{place % _SERIES}"
            drawn.append(line((x(right.low), middle), (x(right.high), middle), f"whisker {cls}"))
            if place is not None:
                tip = f"{name}: {words.percent_with(right)}"
                drawn.append(mark(place, x(right.value), middle, cls, tip))
        return picture(size, drawn, label=label)

    sides = ", ".join(f"{count:,} {side}" for side, count in found.n_questions.items())
    return figure(
        f"Bounds: {made.title}",
        draw,
        says="; ".join(f"{name} bound {words.percent_with(i)}" for name, i in limits),
        caption=f"Each method at its largest N. Questions are split by the gate's criterion, p0 "
        f"over the {made.pool.samples} samples against L ({sides}); each side gives its bound. "
        f"Bounds are limits of chains read by their last answer: selection may pass them."
        + _crossed(found),
        keys=[Key(cls=f"bound {name}", name=f"{name} bound", shape="line") for name, _ in limits],
        header=("method", "setting", "accuracy [95 %]"),
        rows=[
            *((f"{name} bound", _setting(made, name), words.percent_with(i)) for name, i in limits),
            *((name_of(p), p.setting, words.percent_with(right)) for p, right in shown),
        ],
        wide=wide,
        narrow=narrow,
    )


def _crossed(found: Bounds) -> str:
    upper, lower = found.upper, found.lower
    if upper is None or lower is None:
        return ""
    if upper.stationary_accuracy.value >= lower.stationary_accuracy.value:
        return ""
    return (
        " The upper bound lies below the lower one: questions differ, and the hard ones are those "
        "whose p0 is below L."
    )


def _setting(made: Evaluation, name: str) -> str:
    """What makes a bound."""
    side = {"upper": "p0 below L", "lower": "p0 above L"}.get(name)
    of = f"questions with {side}, p0 over {made.pool.samples} samples" if side else "all questions"
    return f"L = b / (a + b), a and b counted by gold on the chains of {of}"


def bounds_rows(made: Evaluation, found: Bounds | None) -> list[dict[str, Any]]:
    """The lines of that figure."""
    place = {"backbone": made.backbone, "benchmark": made.benchmark}
    limits = [
        {**place, "name": f"{name} bound", "setting": _setting(made, name),
         **ends_of("accuracy", limit)}
        for name, limit in limits_of(found)
    ]  # fmt: skip
    return limits + [
        {**place, "name": name_of(p), "setting": p.setting, **ends_of("accuracy", p.accuracy)}
        for p in bounded(made)
    ]
