"""Files of outcomes: written whole, with a checksum in their names, and read column by column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.errors import DataError
from pipeline.core.protocol import StopReason, Strategy
from pipeline.records.epochs import Fences
from pipeline.records.journal import Corrupt
from pipeline.records.outcome import BILL, SCHEMA, field_of, final_outcomes
from pipeline.records.trajectory import Row
from pipeline.store.parquet import parquet_bytes, parquet_table
from pipeline.store.storage import Folder, checksum

_CHECKED = re.compile(r"outcomes-.+-(?P<sum>[0-9a-f]{16})\.parquet")
_KEY = ("strategy", "phase", "benchmark", "question_id")
_QUESTION = ("strategy", "benchmark", "question_id")
FINAL = (*_KEY, *BILL, "seconds")
"""Columns that final outcomes are made of, besides those that one wants to see."""
_ROWS_AT_ONCE = 4_096
_JUDGED = ("epoch", "sequence", "attempt", "stop_reason")
_DRAWN = "drawn"


def write_outcomes(folder: Folder, writer: str, table: pa.Table) -> str:
    """Write a file of outcomes; returns its name.

    Args:
        folder: of the phase.
        writer: tells its files from those of others.
    """
    data = parquet_bytes(table)
    name = f"outcomes-{writer}-{checksum(data)}.parquet"
    folder.write(name, data)
    return name


def read_outcomes(folder: Folder, name: str, columns: Sequence[str]) -> pa.Table:
    """Some columns of a file of outcomes; those that an older file lacks are null.

    Raises:
        DataError: naming the file, where it is torn or changed.
    """
    data = folder.read(name)
    where = f"{folder.address}/{name}"
    match = _CHECKED.fullmatch(name)
    if match is not None and checksum(data) != match["sum"]:
        raise DataError(f"checksum must be {match['sum']}, got {checksum(data)} in {where}")
    table = parquet_table(data, where, list(columns))
    schema = pa.schema([field_of(column) for column in columns])
    arrays = []
    try:
        if match is None:
            table.validate(full=True)
        for column in schema:
            if column.name in table.column_names:
                arrays.append(table[column.name].cast(column.type))
            else:
                arrays.append(pa.nulls(table.num_rows, column.type))
            if not column.nullable and arrays[-1].null_count:
                raise DataError(f"{column.name} must have no nulls in {where}")
    except pa.ArrowException as error:
        raise DataError(f"outcomes must have the columns of an outcome in {where}: {error}") from (
            error
        )
    return pa.Table.from_arrays(arrays, schema=schema)


def files_of(root: Folder, phase: str | None = None) -> Iterator[tuple[Folder, str]]:
    """Every file of outcomes with its folder; of one phase folder alone where it is named."""
    for name in root.folders():
        if phase is None or name == phase:
            folder = root.child(name)
            yield from ((folder, file) for file in folder.names() if file.endswith(".parquet"))


def set_aside_torn(root: Folder) -> list[Corrupt]:
    """Move files that are torn or changed to ``corrupt/`` below their folders."""
    torn = []
    for folder, name in files_of(root):
        try:
            read_outcomes(folder, name, _KEY if _CHECKED.fullmatch(name) else SCHEMA.names)
        except DataError as error:
            torn.append(Corrupt(name, str(error)))
            folder.move(name, f"corrupt/{name}")
    return torn


def standing(
    root: Folder,
    columns: Sequence[str],
    fences: Fences,
    depths: Mapping[str, int],
    phase: str | None = None,
) -> pa.Table:
    """The columns of the outcomes that stand (`pipeline.records.run_dir.RunDir.outcomes`).

    One file is unpacked at a time; those that are torn are left out.
    """
    needed = list(dict.fromkeys([*columns, *_KEY, *_JUDGED]))
    schema = pa.schema([field_of(name) for name in needed]).append(pa.field(_DRAWN, pa.int32()))
    tables = [schema.empty_table()]
    for folder, name in files_of(root, phase):
        try:
            table = read_outcomes(folder, name, list(dict.fromkeys([*needed, "round_answers"])))
        except DataError:
            continue
        drawn = pc.list_value_length(table["round_answers"])
        tables.append(table.select(needed).append_column(schema.field(_DRAWN), drawn))
    table = pa.concat_tables(tables)
    counting = _count(table, fences)
    if not pc.all(counting).as_py():
        table = table.filter(counting)
    best = _best(table, depths)
    # taking them all would only copy them
    return (table if len(best) == table.num_rows else table.take(best)).select(columns)


def final_rows(table: pa.Table, strategies: Mapping[str, Strategy]) -> Iterator[Row]:
    """As `pipeline.records.outcome.final_outcomes`, in that order, a few thousand rows in memory.

    Args:
        table: at least `FINAL` of the outcomes that stand.
        strategies: by label.
    """
    keys = _numbered(table, _QUESTION)
    _, first, at = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first[at], kind="stable")  # rows of one question side by side
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    ends = [*starts[_ROWS_AT_ONCE::_ROWS_AT_ONCE].tolist(), len(order)]
    begin = 0
    for end in ends:
        yield from final_outcomes(_rows_at(table, order[begin:end]), strategies)
        begin = end


def _rows_at(table: pa.Table, places: np.ndarray) -> list[Row]:
    """Some rows; those that lie side by side are not copied, for which Arrow copies the table."""
    first, last = (int(places.min()), int(places.max())) if len(places) else (0, -1)
    near = table.slice(first, last - first + 1)
    if not np.array_equal(places, np.arange(first, first + len(places))):
        near = near.take(pa.array(places - first))
    rows: list[Row] = near.to_pylist()
    return rows


def _numbered(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """A number a row, the same for rows with the same values."""
    keys = np.zeros(table.num_rows, dtype=np.int64)
    for column in columns:
        codes, values = _codes(table[column])
        _, keys = np.unique(keys * max(1, len(values)) + codes, return_inverse=True)
    return keys


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str | None]]:
    """Numbers of the values of a column, and the values."""
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()


def _count(table: pa.Table, fences: Fences) -> pa.Array:
    """Which outcomes have rounds that the journal holds and accepts; those of none all count."""
    codes, epochs = _codes(table["epoch"])
    last = np.array([-1 if e is None else fences.whole_until(e) for e in epochs], dtype=np.int64)
    free = np.array([epoch is None for epoch in epochs], dtype=bool)
    sequence = pc.fill_null(table["sequence"], -1).to_numpy()
    return pa.array(free[codes] | (sequence <= last[codes]) if len(epochs) else codes.astype(bool))


def _best(table: pa.Table, depths: Mapping[str, int]) -> pa.Array:
    """Rows of the newest outcome of each key, then the deepest, then the first; those of pools
    that are to become deeper are left out."""
    keys = _numbered(table, _KEY)
    labels, names = _codes(table["strategy"])
    drawn, attempt = (table[name].to_numpy() for name in (_DRAWN, "attempt"))
    wanted = np.array([depths.get(str(name), 0) for name in names], dtype=np.int64)
    ended = pc.equal(table["stop_reason"], StopReason.BUDGET.value).to_numpy()
    shallow = ended & (drawn < wanted[labels] if len(names) else ended)
    rows = np.flatnonzero(~shallow)
    order = rows[np.lexsort((-rows, drawn[rows], attempt[rows], keys[rows]))]
    last_of_key = np.append(keys[order][1:] != keys[order][:-1], True)[: len(order)]
    return pa.array(np.sort(order[last_of_key]))
