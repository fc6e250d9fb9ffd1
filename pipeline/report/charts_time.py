"""The charts of time and of sweeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeline.report import words
from pipeline.report.charts import short, whole_percent
from pipeline.report.figure import Key, figure
from pipeline.report.html import Html
from pipeline.report.spending import Moment
from pipeline.report.svg import Point, Size, axes, mark, padded, path, picture, plot

_WIDE = Size(width=720, height=220, narrow=False)
_NARROW = Size(width=360, height=220, narrow=True)
_MOST_POINTS = 600

Series = dict[str, list[Point]]
"""Points (seconds or setting, value) by name."""


def throughput(moments: Sequence[Moment]) -> Html:
    """Completion tokens per second."""
    points = [(m.seconds, m.tokens_per_s) for m in moments]
    highest = max(v for _, v in points)
    return _over_time(
        "Completion tokens per second",
        {"tokens per second": _steps(points)},
        y_text=short,
        top=highest,
        says=f"Completion tokens per second over {words.duration(points[-1][0])}, at most "
        f"{words.count(highest)}.",
        caption="All generator replicas together, between two rows of counters.",
    )


def chains_at_work(moments: Sequence[Moment]) -> Html | None:
    """Chains in flight and waiting; None for a run that was done between two looks at it."""
    series: Series = {
        "in flight": [(m.seconds, float(m.in_flight)) for m in moments],
        "waiting": [(m.seconds, float(m.waiting)) for m in moments],
    }
    highest = max(v for points in series.values() for _, v in points)
    if not highest:
        return None
    return _over_time(
        "Chains",
        series,
        y_text=short,
        top=highest,
        says=f"Chains in flight and waiting over time, at most {words.count(highest)}.",
        caption="A falling end is the tail: few long chains, idle engines.",
    )


def slots_in_use(moments: Sequence[Moment]) -> Html | None:
    """Share of sequence slots in use by pool; None where no engine said."""
    pools = list(dict.fromkeys(pool for m in moments for pool in m.slots))
    if not pools:
        return None
    series = {
        pool: [(m.seconds, m.slots[pool]) for m in moments if pool in m.slots] for pool in pools
    }
    replicas = {pool: max(m.replicas.get(pool, 0) for m in moments) for pool in pools}
    means = {pool: sum(v for _, v in points) / len(points) for pool, points in series.items()}
    return _over_time(
        "Engine pools: slots in use",
        {pool: _steps(points) for pool, points in series.items()},
        y_text=whole_percent,
        top=1.0,
        says="Share of sequence slots in use: "
        + ", ".join(f"{pool} {words.percent(mean)} in the mean" for pool, mean in means.items()),
        caption="Slot-seconds used over slot-seconds there were, "
        + ", ".join(f"{pool}: {words.plural(replicas[pool], 'replica')}" for pool in pools)
        + " at most.",
    )


def _over_time(
    title: str,
    series: Series,
    *,
    y_text: Callable[[float], str],
    top: float,
    says: str,
    caption: str,
) -> Html:
    thinned = {name: _thin(points) for name, points in series.items()}
    end = max(points[-1][0] for points in series.values())
    unit, seconds = next((u, s) for u, s in _UNITS if end <= 150 * s or s == 3600)

    def draw(size: Size, label: str) -> Html:
        area = plot(size, (0.0, end / seconds), (0.0, top or 1.0))
        drawn = axes(
            area,
            x_label=f"{unit} since the start, time between attempts left out",
            y_label="",
            x_text=short,
            y_text=y_text,
        )
        for number, points in enumerate(thinned.values()):
            at = [(area.x(t / seconds), area.y(v)) for t, v in points]
            drawn.append(path(at, f"s{number}"))
            if len(at) == 1:
                drawn.append(mark(number, *at[0], f"s{number}", f"{points[0][1]:g}"))
        return picture(size, drawn, label=label)

    keys = [Key(cls=f"s{i}", name=name, shape="line") for i, name in enumerate(series)]
    return figure(
        title,
        draw,
        says=says,
        caption=caption,
        keys=keys if len(keys) > 1 else (),
        wide=_WIDE,
        narrow=_NARROW,
    )


_UNITS = (("seconds", 1.0), ("minutes", 60.0), ("hours", 3600.0))


def _steps(points: list[Point]) -> list[Point]:
    """Each value held over the time that it is the mean of: since the point before."""
    starts = [0.0, *(t for t, _ in points)]
    return [p for start, (t, v) in zip(starts, points, strict=False) for p in ((start, v), (t, v))]


def _thin(points: list[Point]) -> list[Point]:
    """At most so many points that a screen can show, means of neighbours."""
    step = -(-len(points) // _MOST_POINTS)
    groups = [points[i : i + step] for i in range(0, len(points), step)]
    return [(g[-1][0], sum(v for _, v in g) / len(g)) for g in groups]


def sweep_lines(
    title: str,
    x_label: str,
    series: Series,
    chosen: Sequence[tuple[str, Point]],
    *,
    percent: bool,
    caption: str,
) -> Html:
    """A quantity over a setting, one line a group, chosen settings marked.

    Args:
        series: points (setting, value) by group, in order of the setting.
        chosen: (how it was chosen, point) of settings that someone would take.
    """
    points = [p for line in series.values() for p in line] + [p for _, p in chosen]
    x_ends = padded([x for x, _ in points], share=0.03)
    y_ends = padded([y for _, y in points], within=(0.0, 1.0) if percent else (0.0, float("inf")))
    y_text: Callable[[float], str] = whole_percent if percent else short

    def draw(size: Size, label: str) -> Html:
        area = plot(size, x_ends, y_ends)
        drawn = axes(area, x_label=x_label, y_label="", x_text=lambda v: f"{v:g}", y_text=y_text)
        for number, line in enumerate(series.values()):
            drawn.append(path([(area.x(a), area.y(b)) for a, b in line], f"s{number % 8}"))
        for how, (a, b) in chosen:
            tip = f"chosen on {how}: {x_label} {a:g}, {y_text(b)}"
            drawn.append(mark(3 if how == "test" else 0, area.x(a), area.y(b), _chosen(how), tip))
        return picture(size, drawn, label=label)

    names = list(dict.fromkeys(how for how, _ in chosen))
    return figure(
        title,
        draw,
        says=f"{title} over {x_label}, {len(series)} lines.",
        caption=caption,
        keys=[
            *(Key(cls=f"s{i % 8}", name=name, shape="line") for i, name in enumerate(series)),
            *(Key(cls=_chosen(how), name=f"chosen on {how}") for how in names),
        ],
        header=(x_label, *series),
        rows=[
            (f"{a:g}", *(_at(line, a, y_text) for line in series.values()))
            for a in sorted({x for line in series.values() for x, _ in line})
        ],
    )


def _chosen(how: str) -> str:
    return "chosen-test" if how == "test" else "chosen-held"


def _at(line: Sequence[Point], x: float, y_text: Callable[[float], str]) -> str:
    return next((y_text(b) for a, b in line if a == x), words.NONE)
