"""*TableRows*, *RowViews*: read rows of a table as Python objects, few at a time.

A dictionary for every row takes many times the memory of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import pyarrow as pa

from pipeline.records.trajectory import Row

_ROWS_AT_ONCE = 1_024
_ROWS_OF_VIEWS = 256  # may be looked at one here, one there


class TableRows(Sequence[Row]):
    """The rows of a table, in their order; each access makes a new object."""

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


class RowView(Mapping[str, Any]):
    """A row by the names of its columns: its place in the table, and no values."""

    __slots__ = ("_at", "_views")

    def __init__(self, views: RowViews, at: int) -> None:
        self._views, self._at = views, at

    def __getitem__(self, name: str) -> Any:
        """The value in a column."""
        return self._views.value(name, self._at)

    def __iter__(self) -> Iterator[str]:
        """The names of the columns."""
        return iter(self._views.names)

    def __len__(self) -> int:
        """How many columns there are."""
        return len(self._views.names)


class RowViews(Sequence[RowView]):
    """The rows of a table as views, which may all be kept: columns become Python objects when they
    are asked for, a few rows at a time."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.names: list[str] = table.column_names
        self._block = -1
        self._values: dict[str, list[Any]] = {}

    def value(self, name: str, at: int) -> Any:
        """What stands in a column of a row."""
        block, place = divmod(at, _ROWS_OF_VIEWS)
        if block != self._block:
            self._block, self._values = block, {}
        if name not in self._values:
            column = self._table[name].slice(block * _ROWS_OF_VIEWS, _ROWS_OF_VIEWS)
            self._values[name] = column.to_pylist()
        return self._values[name][place]

    def __len__(self) -> int:
        """How many rows there are."""
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, at: int) -> RowView: ...

    @overload
    def __getitem__(self, at: slice) -> list[RowView]: ...

    def __getitem__(self, at: int | slice) -> RowView | list[RowView]:
        """A view of a row, or of those of a slice."""
        places = range(len(self))[at]
        if isinstance(places, int):
            return RowView(self, places)
        return [RowView(self, place) for place in places]


class RowsTable:
    """A table in the making, from one row after the other."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._tables = [schema.empty_table()]
        self._held: list[Row] = []

    def add(self, row: Row) -> None:
        """Add a row."""
        self._held.append(row)
        if len(self._held) >= _ROWS_AT_ONCE:
            self._put_away()

    def table(self) -> pa.Table:
        """All rows so far."""
        self._put_away()
        return pa.concat_tables(self._tables).combine_chunks()

    def _put_away(self) -> None:
        self._tables.append(pa.Table.from_pylist(self._held, schema=self._schema))
        self._held = []
