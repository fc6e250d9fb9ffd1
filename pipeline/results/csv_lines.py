"""*CSV lines*: writes rows as CSV that a spreadsheet shows as they are."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.statistics.intervals import Interval

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_line(values: Iterable[Any]) -> str:
    """One line without its end. Text that a spreadsheet would run as a formula gets a ``'`` before
    it: what begins with one of ``= + - @``, a tab or a carriage return and is no number."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_shown(v) for v in values])  # quotes a lone \r
    return out.getvalue().removesuffix("\r\n")


def csv_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """A file with these columns, or those of the first row; what a row does not have is empty."""
    rows = list(rows)
    columns = columns or [*(rows[0] if rows else ())]
    lines = [csv_line(columns), *(csv_line(row.get(name) for name in columns) for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def ends_of(name: str, interval: Interval | None) -> dict[str, float | None]:
    """A value and its ends as columns; None where there is no interval."""
    return {
        f"{name}{end}": None if interval is None else getattr(interval, field)
        for end, field in (("", "value"), ("_low", "low"), ("_high", "high"))
    }


def _shown(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
