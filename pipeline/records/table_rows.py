"""Rows of a table as dictionaries that exist while they are looked at.

A dictionary a row takes ten times the memory of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import pyarrow as pa

from pipeline.records.trajectory import Row

_ROWS_AT_ONCE = 1_024


class TableRows(Sequence[Row]):
    """The rows of a table, in their order; each time one is asked for it is a new object."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        """How many rows there are."""
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[Row]:
        """The rows, about a thousand of them in memory."""
        for start in range(0, len(self), _ROWS_AT_ONCE):
            yield from self._table.slice(start, _ROWS_AT_ONCE).to_pylist()

    @overload
    def __getitem__(self, at: int) -> Row: ...

    @overload
    def __getitem__(self, at: slice) -> TableRows: ...

    def __getitem__(self, at: int | slice) -> Row | TableRows:
        """One row, or those of a slice."""
        places = range(len(self))[at]
        if isinstance(places, int):
            row: Row = self._table.slice(places, 1).to_pylist()[0]
            return row
        return TableRows(self._table.take(pa.array(places, type=pa.int64())))
