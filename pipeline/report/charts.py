"""*Charts*: one function per kind of chart, from rows to a Vega-Altair chart.

Report, paper page, API and notebooks draw with the same functions. Each takes plain rows (mappings
from column to value), returns an ``altair`` chart and does nothing else. Charts name no colours but
by series, so that the page that shows them decides on light, dark and print. Shares are in [0, 1];
tokens are completion tokens per question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt
else:

    class _Altair:
        """Imports altair at its first use: it takes half a second, and most verbs draw nothing."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("altair"), name)

    alt = _Altair()

Row = Mapping[str, Any]

_LOG_FROM = 8.0  # a range of tokens wider than this factor has a logarithmic axis
_TOKENS = "completion tokens per question"
_SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right"]
"""Seven, so that with eight colours no two of 56 series look alike."""


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


def accuracy_by_tokens(
    points: Sequence[Row], *, paths: Sequence[Row] = (), joined: bool = False
) -> alt.LayerChart:
    """Accuracy against tokens with both intervals, and the Pareto front as observed.

    Args:
        points: ``series``, ``tokens``, ``accuracy``; with intervals ``low``, ``high``,
            ``tokens_low``, ``tokens_high``; ``name`` where it says more than the series.
        paths: ``series``, ``tokens``, ``accuracy`` of thin lines, in their order.
        joined: whether the points of a series are joined.
    """
    points = [{"name": point["series"], **point} for point in points]
    tokens = [t for p in points for t in (p.get("tokens_low"), p["tokens"]) if t and t > 0]
    highest = max((p.get("tokens_high", p["tokens"]) for p in points), default=0.0)
    log = bool(tokens) and highest > _LOG_FROM * min(tokens)
    axis = f"{_TOKENS}, log scale" if log else _TOKENS
    floor = min(tokens, default=0.0)  # a logarithmic axis has no place for an end below zero
    if log:
        points = [
            {**p, "tokens_low": max(p["tokens_low"], floor)} if "tokens_low" in p else p
            for p in points
        ]
    x = alt.X("tokens:Q", title=axis, scale=_tokens_scale(log))
    y = alt.Y("accuracy:Q", title="accuracy", axis=_percents(), scale=alt.Scale(zero=False))
    colour = alt.Color("series:N", title=None, scale=alt.Scale(domain=_series(points)))
    base = alt.Chart(_data(points)).encode(color=colour)
    layers = [_front(points).encode(x=x, y=y)]
    if paths:
        numbered = [{**row, "order": place} for place, row in enumerate(paths)]
        thin = alt.Chart(_data(numbered)).mark_line(strokeWidth=1.3, opacity=0.7)
        layers.append(thin.encode(x=x, y=y, color=colour, order="order:Q"))
    if joined:
        layers.append(base.mark_line(strokeWidth=1.3, opacity=0.7).encode(x=x, y=y))
    if points and "low" in points[0]:
        whisker = base.mark_rule(strokeWidth=1.6, opacity=0.6)
        layers.append(whisker.encode(x=x, y=alt.Y("low:Q", title="accuracy"), y2="high:Q"))
        if "tokens_low" in points[0]:
            layers.append(
                whisker.encode(x=alt.X("tokens_low:Q", title=axis), x2="tokens_high", y=y)
            )
    tips = [
        alt.Tooltip("name:N", title="setting"),
        *_interval_tips("accuracy", "accuracy", points),
        alt.Tooltip("tokens:Q", title="tokens", format=",.0f"),
    ]
    marks = base.mark_point(filled=True, size=90, opacity=1)
    layers.append(marks.encode(x=x, y=y, shape=_shape(points), tooltip=tips))
    return _layered(*layers).properties(height=300)


def accuracy_by_round(
    rows: Sequence[Row], *, limits: Sequence[Row] = (), lines: Mapping[str, str] | None = None
) -> alt.LayerChart:
    """Accuracy of each round with its interval, and lines of the closed form (Eq. 4).

    Args:
        rows: ``series``, ``round``, ``accuracy``, ``low``, ``high``, and a column for each line.
        limits: ``name`` and ``value`` of horizontal lines, such as L.
        lines: name of each further line by its column; None is the closed form alone.
    """
    if lines is None:
        lines = {"closed_form": "closed form p_r"}
    named = {"accuracy": "observed", **lines}
    long = [
        {**row, "line": name, "value": row[column]}
        for column, name in named.items()
        for row in rows
        if row.get(column) is not None
    ]
    x = alt.X(
        "round:Q", title="round (0 is the first answer)", axis=alt.Axis(format="d", tickMinStep=1)
    )
    y = alt.Y("value:Q", title="accuracy", axis=_percents(), scale=alt.Scale(zero=False))
    colour = _colour(rows)
    seen = alt.Chart(_data([row for row in long if row["line"] == "observed"])).encode(x=x)
    dashes = alt.StrokeDash(
        "line:N",
        title=None,
        scale=alt.Scale(domain=[*named.values()], range=[[1, 0], [6, 4], [2, 3]][: len(named)]),
        legend=alt.Legend(symbolStrokeColor="gray", symbolType="stroke"),
    )
    band = seen.mark_area(opacity=0.14)
    layers = [
        band.encode(y=alt.Y("low:Q", title="accuracy"), y2="high:Q", color=colour),
        alt.Chart(_data(long)).mark_line(strokeWidth=2).encode(
            x=x, y=y, color=colour, strokeDash=dashes
        ),
        seen.mark_point(filled=True, size=45, opacity=1).encode(
            y=y,
            color=colour,
            tooltip=[
                alt.Tooltip("series:N", title="of"),
                alt.Tooltip("round:Q"),
                *_interval_tips("accuracy", "observed", rows),
                *(alt.Tooltip(f"{c}:Q", title=name, format=".1%") for c, name in lines.items()),
            ],
        ),
    ]  # fmt: skip
    if limits:
        rule = alt.Chart(_data(limits)).encode(y=alt.Y("value:Q", title="accuracy"))
        label = rule.mark_text(align="right", dy=-7).encode(x=alt.value("width"), text="name:N")
        layers += [rule.mark_rule(color="gray"), label]
    return _layered(*layers).properties(height=320)


def intervals(rows: Sequence[Row], limits: Sequence[Row] = ()) -> alt.LayerChart:
    """Accuracy of each setting on a line of its own, and bounds as vertical lines.

    Args:
        rows: ``name``, ``accuracy``, ``low``, ``high``.
        limits: ``name`` and ``value`` of each bound.
    """
    base = alt.Chart(_data(rows)).encode(
        y=alt.Y("name:N", title=None, sort=None, axis=alt.Axis(labelLimit=230, grid=False))
    )
    x = alt.X("accuracy:Q", title="accuracy", axis=_percents(), scale=alt.Scale(zero=False))
    layers = []
    if limits:
        dashes = alt.StrokeDash(
            "name:N",
            title=None,
            scale=alt.Scale(range=[[3, 4], [1, 0], [8, 3]]),
            legend=alt.Legend(columns=1),
        )
        rule = alt.Chart(_data(limits)).mark_rule(strokeWidth=2, color="gray")
        layers.append(
            rule.encode(
                x=alt.X("value:Q", title="accuracy"),
                strokeDash=dashes,
                tooltip=["name:N", alt.Tooltip("value:Q", format=".1%")],
            )
        )
    layers += [
        base.mark_rule(strokeWidth=1.6).encode(x=alt.X("low:Q", title="accuracy"), x2="high:Q"),
        base.mark_point(filled=True, size=90, opacity=1).encode(
            x=x, tooltip=["name:N", *_interval_tips("accuracy", "accuracy", rows)]
        ),
    ]
    return _layered(*layers).properties(height=26 * len(rows))


def bars(
    rows: Sequence[Row],
    *,
    of: str,
    value: str,
    part: str,
    parts: Sequence[str],
) -> alt.Chart:
    """Stacked bars.

    Args:
        rows: one per bar and part, with the columns below.
        of: column that names the bar, and the title of its axis.
        value: column with the length.
        part: column that names the part.
        parts: its values in the order in which they are stacked.
    """
    rows = [{**row, "order": parts.index(row[part])} for row in rows]
    return (
        alt.Chart(_data(rows))
        .mark_bar()
        .encode(
            x=alt.X(f"{of}:O", title=of, axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y(f"{value}:Q", title=value, axis=_counts()),
            color=alt.Color(f"{part}:N", title=None, scale=alt.Scale(domain=[*parts])),
            order="order:Q",
            tooltip=[f"{of}:N", f"{part}:N", alt.Tooltip(f"{value}:Q", format=",.0f")],
        )
        .properties(height=190)
    )


def lines(
    rows: Sequence[Row],
    *,
    x: str,
    y: str,
    log: bool = False,
    percent: bool = False,
    step: bool = False,
    band: bool = False,
) -> alt.LayerChart:
    """One quantity over another, one line per series.

    Args:
        rows: ``series``, ``x``, ``y``; ``low`` and ``high`` with a band.
        x: title of the axis.
        y: the same.
        log: whether x is logarithmic.
        percent: whether y is a share.
        step: whether y is a mean since the point before.
        band: whether intervals are drawn.
    """
    across = alt.X("x:Q", title=x, scale=_tokens_scale(log))
    up = alt.Y(
        "y:Q",
        title=y,
        axis=_percents() if percent else _counts(),
        scale=alt.Scale(zero=step),
    )
    names = len({row["series"] for row in rows})
    colour = _colour(rows, legend=names > 1)
    base = alt.Chart(_data(rows)).encode(color=colour)
    tips = [
        *([alt.Tooltip("series:N", title="of")] if names > 1 else []),
        alt.Tooltip("x:Q", title=x, format=",.6~g"),
        alt.Tooltip("y:Q", title=y, format=".1%" if percent else ",.4~g"),
    ]
    line = base.mark_line(interpolate="step-before" if step else "linear", strokeWidth=2)
    dots = base.mark_point(size=120, opacity=0)  # what a pointer finds
    layers = [line.encode(x=across, y=up), dots.encode(x=across, y=up, tooltip=tips)]
    if band:
        area = base.mark_area(opacity=0.1).encode(x=across, y=alt.Y("low:Q", title=y), y2="high:Q")
        layers.insert(0, area)
    return _layered(*layers).properties(height=300)


def _data(rows: Iterable[Row]) -> alt.Data:
    return alt.Data(values=[dict(row) for row in rows])


def _layered(*layers: alt.Chart) -> alt.LayerChart:
    return alt.LayerChart(layer=list(layers))


def _front(points: Sequence[Row]) -> alt.Chart:
    """The steps of the points that no other beats."""
    places = pareto([(point["tokens"], point["accuracy"]) for point in points])
    steps = [{name: points[place][name] for name in ("tokens", "accuracy")} for place in places]
    line: alt.Chart = alt.Chart(_data(steps)).mark_line(
        interpolate="step-after", strokeDash=[2, 4], strokeWidth=1.5, color="gray"
    )
    return line


def _series(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["series"] for row in rows))


def _colour(rows: Sequence[Row], *, legend: bool = True) -> alt.Color:
    key = alt.Legend(symbolOpacity=1, symbolType="circle") if legend else None
    return alt.Color("series:N", title=None, scale=alt.Scale(domain=_series(rows)), legend=key)


def _shape(rows: Sequence[Row]) -> alt.Shape:
    scale = alt.Scale(domain=_series(rows), range=_SHAPES)
    return alt.Shape("series:N", title=None, scale=scale)


def _tokens_scale(log: bool) -> alt.Scale:
    if log:
        return alt.Scale(type="log", nice=False, padding=16)
    return alt.Scale(zero=False, nice=False, padding=16)


def _percents() -> alt.Axis:
    return alt.Axis(format=".3~%", tickCount=5)


def _counts() -> alt.Axis:
    return alt.Axis(format="~s", tickCount=5)


def _interval_tips(value: str, title: str, rows: Sequence[Row]) -> list[alt.Tooltip]:
    """The value, and the ends of its 95 % interval where rows have them."""
    tips = [alt.Tooltip(f"{value}:Q", title=title, format=".1%")]
    if rows and "low" in rows[0]:
        tips += [alt.Tooltip("low:Q", title="95 % from", format=".1%"),
                 alt.Tooltip("high:Q", title="to", format=".1%")]  # fmt: skip
    return tips
