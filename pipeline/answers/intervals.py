"""Intervals, their unions, and what is taken out of them."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.answers.algebra.numeric import real_value
from pipeline.answers.algebra.polynomial import Work
from pipeline.answers.algebra.tokens import Token, depths, is_command, split
from pipeline.answers.values import (
    INFINITY,
    MINUS_INFINITY,
    Interval,
    Region,
    Scalar,
    Sequence,
    SetOf,
    Sign,
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
    infinite = any(isinstance(item, Sign) for item in items)
    mixed = (opening, closing) in (("(", "]"), ("[", ")"))
    if not infinite and not mixed:
        return None
    return made_interval(opening, items[0], items[1], closing)


def made_interval(opening: str, low: Value, high: Value, closing: str) -> Value:
    if low == MINUS_INFINITY:
        opening = "("
    if high == INFINITY:
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
    at = zip(tokens, depths(tokens), strict=True)
    signs = [token.text for token, d in at if d == 0 and is_command(token, *SET_OPERATIONS)]
    if not signs:
        return None
    values = [read(part) for part in split(tokens, lambda t: is_command(t, *SET_OPERATIONS))]
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


def _end(value: Value) -> float:
    """An end as a number.

    Raises:
        Unreadable: if it has no value.
    """
    if value in (INFINITY, MINUS_INFINITY):
        return float("inf") if value == INFINITY else float("-inf")
    if not isinstance(value, Scalar):
        raise Unreadable("the ends of an interval must be numbers")
    return float(real_value(value.expression, Work(_END_WORK)))


def _joined(intervals: list[Interval]) -> Value:
    """Sorted, with what touches or overlaps made one; unsorted where an end has no value."""
    try:
        ordered = sorted(intervals, key=lambda i: (_end(i.low), i.opening == "(", _end(i.high)))
    except Unreadable:
        return Union(tuple(intervals))
    merged: list[Interval] = []
    for interval in ordered:
        last = merged[-1] if merged else interval
        meets = last.high.text == interval.low.text
        if not merged or not (
            ("]" in last.closing or "[" in interval.opening)
            if meets
            else _end(interval.low) < _end(last.high)
        ):
            merged.append(interval)
        elif last.high.text == interval.high.text:
            closing = max(last.closing, interval.closing)  # "]" comes behind ")"
            merged[-1] = Interval(last.opening, last.low, last.high, closing)
        else:
            longer = max(last, interval, key=lambda i: _end(i.high))
            merged[-1] = Interval(last.opening, last.low, longer.high, longer.closing)
    if len(merged) == 1:
        return made_interval(merged[0].opening, merged[0].low, merged[0].high, merged[0].closing)
    return Union(tuple(merged))


def _without(intervals: list[Interval], points: SetOf) -> list[Interval]:
    for point in points.items:
        cut: list[Interval] = []
        for i in intervals:
            if _end(i.low) < _end(point) < _end(i.high):
                cut.append(Interval(i.opening, i.low, point, ")"))
                cut.append(Interval("(", point, i.high, i.closing))
            else:
                opening = "(" if _end(i.low) == _end(point) else i.opening
                closing = ")" if _end(i.high) == _end(point) else i.closing
                cut.append(Interval(opening, i.low, i.high, closing))
        intervals = cut
    return intervals
