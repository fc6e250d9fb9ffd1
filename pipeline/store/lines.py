"""JSON lines, plain and compressed."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from typing import Any

from pipeline.core.errors import DataError

Row = dict[str, Any]


def packed_lines(rows: Iterable[Row]) -> bytes:
    """Rows as compressed JSON lines; fractions are kept to three or four digits."""
    text = "".join(json.dumps(_rounded(row), separators=(",", ":")) + "\n" for row in rows)
    return lzma.compress(text.encode())


def unpacked_lines(data: bytes, where: str) -> list[Row]:
    """The rows of compressed JSON lines.

    Raises:
        DataError: naming the file, where it is torn or something else.
    """
    try:
        return lines_of(lzma.decompress(data), where)
    except (lzma.LZMAError, EOFError) as error:
        raise DataError(f"{where} must be compressed JSON lines, got: {error}") from error


def lines_of(data: bytes, where: str) -> list[Row]:
    """The rows of JSON lines, an object each.

    Raises:
        DataError: naming the file, where it is something else.
    """
    try:
        rows = [json.loads(line) for line in data.splitlines()]
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("a line is no object")
        return rows
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} must be JSON lines, got: {error}") from error


def _rounded(value: Any) -> Any:
    """A value with fewer digits: those of a clock and of a share are mostly noise, and noise does
    not compress."""
    if isinstance(value, float):
        return round(value, 4 if abs(value) < 1 else 3)
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return value
