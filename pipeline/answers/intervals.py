"""Intervals, their unions, and what is taken out of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pipeline.answers import values as va
from pipeline.answers.algebra.numeric import real_value
from pipeline.answers.algebra.polynomial import Work
from pipeline.answers.algebra.tokens import Token, depths, is_command, split
from pipeline.answers.verdict import Unreadable

_END_WORK = 300
SET_OPERATIONS = ("cup", "setminus", "backslash")


def interval(opening: str, low: va.Value, high: va.Value, closing: str) -> va.Sequence:
    """An interval, open at infinity."""
    opening = "(" if low == va.MINUS_INFINITY else opening
    return va.Sequence(opening, (low, high), ")" if high == va.INFINITY else closing)


def as_set(value: va.Value) -> va.Value:
    """What may stand behind "in"."""
    if isinstance(value, va.Sequence | va.Union | va.SetOf):
        return value
    raise Unreadable("a variable must lie in a set")


def union_of(tokens: list[Token], read: Callable[[list[Token]], va.Value]) -> va.Value | None:
    """Intervals and points joined by ``\\cup``, or with points taken out by ``\\setminus``."""
    at = zip(tokens, depths(tokens), strict=True)
    signs = [token.text for token, d in at if d == 0 and is_command(token, *SET_OPERATIONS)]
    if not signs:
        return None
    values = [read(part) for part in split(tokens, lambda t: is_command(t, *SET_OPERATIONS))]
    if signs == ["setminus"] and isinstance(values[1], va.SetOf):
        return _joined(_without(as_intervals(values[0]), values[1]))
    if set(signs) != {"cup"}:
        raise Unreadable("sets must be joined by unions")
    if all(isinstance(value, va.SetOf) for value in values):
        return va.set_of(tuple(item for v in values if isinstance(v, va.SetOf) for item in v.items))
    return _joined([part for value in values for part in as_intervals(value)])


def either_region(items: list[va.Value]) -> va.Value | None:
    """The union of regions of one variable: x < 1 or x > 2."""
    regions = [item for item in items if isinstance(item, va.Region)]
    if len(regions) != len(items) or len({region.name for region in regions}) != 1:
        return None
    intervals = [part for region in regions for part in as_intervals(region.values)]
    return va.Region(regions[0].name, _joined(intervals))


def as_intervals(value: va.Value) -> list[va.Sequence]:
    """A set of reals as intervals; points are closed intervals of length 0."""
    match value:
        case va.Union(intervals=intervals):
            return list(intervals)
        case va.Sequence(items=(va.Scalar() | va.Sign(), va.Scalar() | va.Sign())):
            return [value]
        case va.SetOf(items=items):
            return [interval("[", item, item, "]") for item in items]
        case _:
            raise Unreadable("a union must be of intervals and points")


def _end(value: va.Value) -> float:
    """An end as a number; Unreadable if it has no value."""
    if value in (va.INFINITY, va.MINUS_INFINITY):
        return float("inf") if value == va.INFINITY else float("-inf")
    if not isinstance(value, va.Scalar):
        raise Unreadable("the ends of an interval must be numbers")
    return float(real_value(value.expression, Work(_END_WORK)))


def _ends(value: va.Sequence) -> tuple[float, float]:
    return _end(value.items[0]), _end(value.items[1])


def _joined(intervals: list[va.Sequence]) -> va.Value:
    """Sorted, with what touches or overlaps made one; unsorted where an end has no value."""
    try:
        ordered = sorted(intervals, key=lambda i: (_ends(i)[0], i.opening == "(", _ends(i)[1]))
    except Unreadable:
        return va.Union(tuple(intervals))
    merged: list[va.Sequence] = []
    for other in ordered:
        last = merged[-1] if merged else other
        meets = last.items[1].text == other.items[0].text
        touches = "]" in last.closing or "[" in other.opening
        if not merged or not (touches if meets else _ends(other)[0] < _ends(last)[1]):
            merged.append(other)
        elif last.items[1].text == other.items[1].text:  # "]" comes behind ")"
            merged[-1] = replace(last, closing=max(last.closing, other.closing))
        else:
            longer = max(last, other, key=lambda i: _ends(i)[1])
            items = (last.items[0], longer.items[1])
            merged[-1] = va.Sequence(last.opening, items, longer.closing)
    return merged[0] if len(merged) == 1 else va.Union(tuple(merged))


def _without(intervals: list[va.Sequence], points: va.SetOf) -> list[va.Sequence]:
    for point in points.items:
        cut: list[va.Sequence] = []
        for i in intervals:
            (low, high), place = _ends(i), _end(point)
            if low < place < high:
                cut.append(va.Sequence(i.opening, (i.items[0], point), ")"))
                cut.append(va.Sequence("(", (point, i.items[1]), i.closing))
            else:
                opening, closing = "(" if low == place else "", ")" if high == place else ""
                cut.append(va.Sequence(opening or i.opening, i.items, closing or i.closing))
        intervals = cut
    return intervals
