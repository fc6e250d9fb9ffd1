"""*Parquet*: writes tables as bytes of Parquet files, and checks such bytes before unpacking."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.errors import DataError

MOST_UNPACKED_BYTES = 8 << 30
"""What one Parquet object may unpack to; a segment of a journal is a thousandth of it."""
MOST_ROWS = 20_000_000

NO_PARQUET = (pa.ArrowException, ValueError, TypeError, KeyError)
"""What pyarrow raises for bytes that are no whole Parquet file, in addition to OSError."""


def parquet_bytes(table: pa.Table) -> bytes:
    """A table as the bytes of a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def parquet_table(data: bytes, where: str, columns: list[str] | None = None) -> pa.Table:
    """A table from the bytes of a Parquet file, or of some columns those that it has.

    Raises:
        DataError: naming the file, where it is cut short, is something else, or would fill memory.
    """
    try:
        metadata = pq.read_metadata(pa.BufferReader(data))
        check_unpacked_size(metadata, where)
        if columns is not None:
            has = set(metadata.schema.to_arrow_schema().names)
            columns = [name for name in columns if name in has]
        # in this thread: one of Arrow's that still holds `data` as Python ends aborts the process
        return pq.ParquetFile(pa.BufferReader(data)).read(columns=columns, use_threads=False)
    except (*NO_PARQUET, OSError, MemoryError) as error:
        raise no_parquet(where, error) from error


def parquet_groups(data: bytes, where: str) -> Iterator[pa.Table]:
    """The row groups of a Parquet file, one after the other; together they may unpack to more than
    a process should hold.

    Raises:
        DataError: as `parquet_table`, of each.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        for number in range(file.num_row_groups):
            check_unpacked_size(file.metadata, where, groups=[number])
            yield file.read_row_group(number)
    except (*NO_PARQUET, OSError, MemoryError) as error:
        raise no_parquet(where, error) from error


def parquet_schema(data: bytes, where: str) -> pa.Schema:
    """The schema in the bytes of a Parquet file.

    Raises:
        DataError: as `parquet_table`.
    """
    try:
        metadata = pq.read_metadata(pa.BufferReader(data))
        check_unpacked_size(metadata, where)
        return metadata.schema.to_arrow_schema()
    except (*NO_PARQUET, OSError, MemoryError) as error:
        raise no_parquet(where, error) from error


def no_parquet(where: str, error: BaseException) -> DataError:
    """What to raise for bytes that are no whole Parquet file."""
    return DataError(f"{where} must be a whole Parquet file, got: {first_line(error)}")


def check_unpacked_size(
    metadata: pq.FileMetaData,
    where: str,
    most_bytes: int = MOST_UNPACKED_BYTES,
    groups: Iterable[int] | None = None,
) -> None:
    """Refuse a Parquet file that says it unpacks to more than a process should hold.

    Args:
        metadata: of the file.
        where: it is.
        most_bytes: that it may unpack to.
        groups: its row groups that are read at once; None for all.

    Raises:
        DataError: naming the file.
    """
    numbers = range(metadata.num_row_groups) if groups is None else groups
    unpacked = sum(metadata.row_group(number).total_byte_size for number in numbers)
    if unpacked > most_bytes or metadata.num_rows > MOST_ROWS:
        raise DataError(
            f"a Parquet file must unpack to at most {most_bytes:,} bytes and {MOST_ROWS:,} rows, "
            f"got {unpacked:,} and {metadata.num_rows:,} in {where}"
        )


def first_line(error: BaseException) -> str:
    """Of its message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
