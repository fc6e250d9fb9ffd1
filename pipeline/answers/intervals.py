"""Intervals, their unions, and what is taken out of them."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.answers.algebra.numeric import real_value
from pipeline.answers.algebra.polynomial import Work
from pipeline.answers.algebra.tokens import Token, depths, is_command
from pipeline.answers.values import (
    Infinity,
    Interval,
    Region,
    Scalar,
    Sequence,
    SetOf,
    Union,
    Value,
    set_of,
)
from pipeline.answers.verdict import Unreadable

_END_WORK = 300
SET_OPERATIONS = ("cup", "setminus", "backslash")


def interval_of(opening: str, items: list[Value], closing: str) -> Value | None:
    """An interval, where the brackets or an infinite end leave no doubt."""
    if len(items) != 2:
        return None
    infinite = any(isinstance(item, Infinity) for item in items)
    mixed = (opening, closing) in (("(", "]"), ("[", ")"))
    if not infinite and not mixed:
        return None
    return made_interval(opening, items[0], items[1], closing)


def made_interval(opening: str, low: Value, high: Value, closing: str) -> Value:
    if isinstance(low, Infinity):
        opening = "("
    if isinstance(high, Infinity):
        closing = ")"
    finite = isinstance(low, Scalar) and isinstance(high, Scalar)
    if finite and (opening, closing) in (("(", ")"), ("[", "]")):
        return Sequence(opening, (low, high), closing)
    return Interval(opening, low, high, closing)


def as_set(value: Value) -> Value:
    """What may stand behind "in"."""
    if isinstance(value, Sequence | Interval | Union | SetOf):
        return value
    raise Unreadable("a variable must lie in a set")


def union_of(tokens: list[Token], read: Callable[[list[Token]], Value]) -> Value | None:
    """Intervals and points joined by ``\\cup``, or with points taken out by ``\\setminus``."""
    parts: list[list[Token]] = [[]]
    signs: list[str] = []
    for token, depth in zip(tokens, depths(tokens), strict=True):
        if depth == 0 and is_command(token, *SET_OPERATIONS):
            signs.append(token.text)
            parts.append([])
        else:
            parts[-1].append(token)
    if not signs:
        return None
    values = [read(part) for part in parts]
    if signs == ["setminus"] and isinstance(values[1], SetOf):
        return _joined(_without(as_intervals(values[0]), values[1]))
    if set(signs) != {"cup"}:
        raise Unreadable("sets must be joined by unions")
    if all(isinstance(value, SetOf) for value in values):
        return set_of(tuple(item for v in values if isinstance(v, SetOf) for item in v.items))
    return _joined([interval for value in values for interval in as_intervals(value)])


def either_region(items: list[Value]) -> Value | None:
    """The union of regions of one variable: x < 1 or x > 2."""
    regions = [item for item in items if isinstance(item, Region)]
    if len(regions) != len(items) or len({region.name for region in regions}) != 1:
        return None
    intervals = [part for region in regions for part in as_intervals(region.values)]
    return Region(regions[0].name, _joined(intervals))


def as_intervals(value: Value) -> list[Interval]:
    """A value as intervals; points are closed intervals of length 0.

    Raises:
        Unreadable: if it is no set of reals.
    """
    match value:
        case Interval():
            return [value]
        case Union(intervals=intervals):
            return list(intervals)
        case Sequence(opening=o, items=(Scalar() as low, Scalar() as high), closing=c):
            return [Interval(o, low, high, c)]
        case SetOf(items=items):
            return [Interval("[", item, item, "]") for item in items]
        case _:
            raise Unreadable("a union must be of intervals and points")


def _end(value: Value) -> float | None:
    if isinstance(value, Infinity):
        return float("inf") if value.positive else float("-inf")
    return real_value(value.expression, Work(_END_WORK)) if isinstance(value, Scalar) else None


def _joined(intervals: list[Interval]) -> Value:
    """Sorted, with what touches or overlaps made one; unsorted where an end has no value."""
    ends = [(_end(i.low), _end(i.high)) for i in intervals]
    if any(low is None or high is None for low, high in ends):
        return Union(tuple(intervals))
    keyed = sorted(
        (
            (low or 0.0, i.opening == "(", high or 0.0, i)
            for (low, high), i in zip(ends, intervals, strict=True)
        ),
        key=lambda item: item[:3],
    )
    merged: list[Interval] = []
    for _, _, _, interval in keyed:
        if merged and _touch(merged[-1], interval):
            merged[-1] = _hull(merged[-1], interval)
        else:
            merged.append(interval)
    if len(merged) == 1:
        only = merged[0]
        return made_interval(only.opening, only.low, only.high, only.closing)
    return Union(tuple(merged))


def _touch(left: Interval, right: Interval) -> bool:
    high, low = _end(left.high) or 0.0, _end(right.low) or 0.0
    if left.high.text == right.low.text:
        return left.closing == "]" or right.opening == "["
    return low < high


def _hull(left: Interval, right: Interval) -> Interval:
    left_high, right_high = _end(left.high) or 0.0, _end(right.high) or 0.0
    if left.high.text == right.high.text:
        closing = "]" if "]" in (left.closing, right.closing) else ")"
        return Interval(left.opening, left.low, left.high, closing)
    longer = left if left_high > right_high else right
    return Interval(left.opening, left.low, longer.high, longer.closing)


def _without(intervals: list[Interval], points: SetOf) -> list[Interval]:
    for point in points.items:
        place = _end(point)
        if place is None:
            raise Unreadable("points that are taken out must be numbers")
        cut: list[Interval] = []
        for interval in intervals:
            low, high = _end(interval.low), _end(interval.high)
            if low is None or high is None:
                raise Unreadable("the ends of an interval must be numbers")
            if low < place < high:
                cut.append(Interval(interval.opening, interval.low, point, ")"))
                cut.append(Interval("(", point, interval.high, interval.closing))
            else:
                opening = "(" if low == place else interval.opening
                closing = ")" if high == place else interval.closing
                cut.append(Interval(opening, interval.low, interval.high, closing))
        intervals = cut
    return intervals
