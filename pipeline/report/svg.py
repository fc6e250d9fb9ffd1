"""A little drawing kit: scales, axes and marks as SVG that follows the page's colours.

Colours are classes (``s0`` to ``s7`` for series, ``axis``, ``grid``), so that light, dark and print
are the style sheet's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.report.html import Html, h

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Values [low, high] laid on pixels [start, end]; `log` for a logarithmic axis."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Where a value lies, in pixels; values outside are put at the ends."""
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (self.end - self.start) * (value - low) / ((high - low) or 1.0)

    def ticks(self, wanted: int) -> list[float]:
        """Round values within the scale, about as many as wanted."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            steps = (1, 2, 5) if last - first < 3 else (1,)
            values = [s * 10.0**e for e in range(first, last + 1) for s in steps]
        else:
            step = nice_step((self.high - self.low) / max(1, wanted))
            first = math.ceil(self.low / step - 1e-9)
            values = [n * step for n in range(first, first + 4 * wanted + 4)]
        span = 1e-9 * (self.high - self.low)
        return [v for v in values if self.low - span <= v <= self.high + span]


def nice_step(least: float) -> float:
    """The least of 1, 2, 5 times a power of ten that is not below `least` (> 0)."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= least * (1 - 1e-9))


def padded(values: Sequence[float], *, share: float = 0.06, within: Point | None = None) -> Point:
    """Ends that leave room around values, within given ends; never empty."""
    low, high = min(values), max(values)
    room = (high - low) * share or abs(high) * share or 1.0
    low, high = low - room, high + room
    return (low, high) if within is None else (max(low, within[0]), min(high, within[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a chart is drawn; text is 12 px in both."""

    width: int
    height: int
    narrow: bool


WIDE = Size(width=720, height=380, narrow=False)
NARROW = Size(width=360, height=320, narrow=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """The area within axes."""

    size: Size
    x: Scale
    y: Scale


def plot(
    size: Size,
    x: Point,
    y: Point,
    *,
    log_x: bool = False,
    left: int = 46,
    right: int = 14,
    top: int = 22,
    bottom: int = 44,
) -> Plot:
    """A plot with room for axes."""
    return Plot(
        size=size,
        x=Scale(low=x[0], high=x[1], start=left, end=size.width - right, log=log_x),
        y=Scale(low=y[0], high=y[1], start=size.height - bottom, end=top),
    )


def axes(
    area: Plot,
    *,
    x_label: str,
    y_label: str,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
    x_ticks: Sequence[float] | None = None,
) -> list[Html]:
    """Grid lines, tick labels and axis titles."""
    x, y = area.x, area.y
    drawn = []
    for value in y.ticks(5):
        drawn.append(line((x.start, y(value)), (x.end, y(value)), "grid"))
        drawn.append(text(x.start - 6, y(value) + 4, y_text(value), "tick", anchor="end"))
    ticks = x.ticks(4 if area.size.narrow else 8) if x_ticks is None else x_ticks
    for value in _apart(ticks, x, x_text):
        drawn.append(line((x(value), y.start), (x(value), y.start + 4), "axis"))
        drawn.append(text(x(value), y.start + 17, x_text(value), "tick", anchor="middle"))
    drawn.append(line((x.start, y.start), (x.end, y.start), "axis"))
    drawn.append(text((x.start + x.end) / 2, y.start + 36, x_label, "title", anchor="middle"))
    drawn.append(text(x.start, y.end - 10, y_label, "title"))  # clear of marks at the top
    return drawn


def _apart(ticks: Sequence[float], x: Scale, label: Callable[[float], str]) -> list[float]:
    """Ticks whose labels do not run into each other."""
    kept: list[float] = []
    free = -math.inf
    for value in ticks:
        half = 3.6 * len(label(value)) + 3
        if x(value) - half >= free:
            kept.append(value)
            free = x(value) + half
    return kept


def picture(size: Size, *content: Html | Sequence[Html], label: str) -> Html:
    """A whole drawing; `label` says what it shows to those who do not see it."""
    return h(
        "svg",
        *content,
        viewBox=f"0 0 {size.width} {size.height}",
        role="img",
        aria_label=label,
        cls="narrow" if size.narrow else "wide",
    )


def line(start: Point, end: Point, cls: str) -> Html:
    """A straight line."""
    return h("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], cls=cls)


def text(x: float, y: float, content: str, cls: str, *, anchor: str = "start") -> Html:
    """A label; its baseline is at y."""
    return h("text", content, x=float(x), y=float(y), cls=cls, text_anchor=anchor)


def path(points: Sequence[Point], cls: str) -> Html:
    """Straight pieces through points."""
    return h("path", d=_through(points), cls=f"line {cls}")


def band(low: Sequence[Point], high: Sequence[Point], cls: str) -> Html:
    """The area between two paths over the same x."""
    return h("path", d=_through([*low, *reversed(high)]) + "Z", cls=f"band {cls}")


def bar(x: float, y: float, width: float, height: float, cls: str, tip: str) -> Html:
    """A filled rectangle with a tip."""
    return h(
        "rect", x=x, y=y, width=max(0.0, width), height=max(0.0, height), cls=cls, data_tip=tip
    )


def mark(shape: int, x: float, y: float, cls: str, tip: str) -> Html:
    """A point of a series: shapes tell series apart where colours do not."""
    r = 5.5
    match shape % 5:
        case 0:
            return h("circle", cx=x, cy=y, r=r, cls=f"mark {cls}", data_tip=tip)
        case 1:
            corners = [(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)]
        case 2:
            corners = [(x, y - r * 1.25), (x + r * 1.2, y + r), (x - r * 1.2, y + r)]
        case 3:
            d = r * 1.35
            corners = [(x, y - d), (x + d, y), (x, y + d), (x - d, y)]
        case _:
            corners = [(x, y + r * 1.25), (x + r * 1.2, y - r), (x - r * 1.2, y - r)]
    return h("path", d=_through(corners) + "Z", cls=f"mark {cls}", data_tip=tip)


def _through(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
