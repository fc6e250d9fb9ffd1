"""*Words*: formats numbers, intervals and durations for people."""

from __future__ import annotations

import math

from pipeline.statistics.intervals import Interval

NONE = "–"
"""What stands where there is no number."""
NOT_RUN = "not run"

_MINUS = "\N{MINUS SIGN}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share as a percentage: 0.875 is ``87.5 %``."""
    if share is None or math.isnan(share):
        return NONE
    return f"{share * 100:z.{digits}f} %".replace("-", _MINUS)  # no minus before a zero


def percent_range(interval: Interval | None, digits: int = 1) -> str:
    """The ends of an interval of shares: ``[80.1, 92.4]``."""
    if interval is None or math.isnan(interval.low):
        return ""
    return f"[{interval.low * 100:z.{digits}f}, {interval.high * 100:z.{digits}f}]".replace(
        "-", _MINUS
    )


def percent_with(interval: Interval | None, digits: int = 1) -> str:
    """Value and ends: ``87.5 % [80.1, 92.4]``."""
    if interval is None:
        return NONE
    return f"{percent(interval.value, digits)} {percent_range(interval, digits)}".rstrip()


def points(share: float, digits: int = 1) -> str:
    """A difference of shares in percentage points, signed: ``+2.5``."""
    rounded = round(share * 100, digits) or 0.0  # no minus before a zero
    return f"{rounded:{'+' if rounded else ''}.{digits}f}".replace("-", _MINUS)


def magnitude(share: float, digits: int = 1) -> str:
    """The size of a share or difference in percentage points, unsigned."""
    return f"{abs(share) * 100:.{digits}f}"


def points_range(low: float, high: float) -> str:
    """The ends of a difference in points."""
    return f"[{points(low)}, {points(high)}]"


def count(value: float | None) -> str:
    """A whole number with thousands apart."""
    return NONE if value is None else f"{round(value):,}".replace("-", _MINUS)


def money(value: float | None) -> str:
    """USD with the digits that matter: ``12.30``, ``0.00042``."""
    return NONE if value is None else f"{value:,.2f}" if value >= 1 else f"{value:.2g}"


def decimal(value: float | None, digits: int = 3) -> str:
    """A number to a fixed number of digits."""
    if value is None or math.isnan(value):
        return NONE
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", _MINUS)  # no minus before a zero


def decimal_with(interval: Interval, digits: int = 3) -> str:
    """Value and ends of an interval that is no share."""
    ends = f"[{decimal(interval.low, digits)}, {decimal(interval.high, digits)}]"
    return f"{decimal(interval.value, digits)} {ends}"


def p_value(p: float) -> str:
    """A p-value: ``p = 0.031``, or ``p < 0.001``."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def duration(seconds: float) -> str:
    """Seconds as people say them: ``41 s``, ``12 min``, ``3.4 h``, ``2.1 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


def plural(number: int, noun: str) -> str:
    """``1 question``, ``120 questions``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(items: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def count_with(interval: Interval | None) -> str:
    """A number of tokens with its interval."""
    return NONE if interval is None else f"{count(interval.value)} {count_range(interval)}"


def count_range(interval: Interval | None) -> str:
    """The ends of an interval of tokens."""
    return "" if interval is None else f"[{count(interval.low)}, {count(interval.high)}]"
