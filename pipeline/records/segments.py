"""Segments of a journal: how one is named, written and read.

A segment is a Parquet file named ``<epoch>-<sequence>-<checksum>.parquet``
(`pipeline.records.journal`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import pyarrow as pa

from pipeline.core.errors import DataError
from pipeline.records.epochs import Base, Epoch, base_of
from pipeline.records.trajectory import Row, as_current, table_of
from pipeline.store.parquet import parquet_bytes, parquet_schema, parquet_table
from pipeline.store.storage import Folder, checksum

_SEGMENT = re.compile(
    r"(?P<epoch>\d{4,}-[0-9a-f]{6}-\d{2}-[0-9a-z]+-\d{4,})"
    r"-(?P<sequence>\d{6,})-(?P<sum>[0-9a-f]{16})\.parquet"
)
_BASE = b"markovscale_base"
RUN = b"markovscale_run"
"""Where the metadata of a segment says whose it is; earlier versions have it in the rows alone."""


def write_segment(
    journal: Folder,
    epoch: Epoch,
    sequence: int,
    rows: Iterable[Row],
    base: Base | None = None,
    run: str | None = None,
) -> str:
    """Make rows durable as one new segment; returns its name.

    Args:
        journal: the folder of segments.
        epoch: of the writer.
        sequence: 0 for its first segment, then one more each time.
        rows: in the trajectory schema.
        base: what the writer had read when it began; None where it takes over from nobody.
        run: whose attempts are all written down, each with its own token: a segment of another
            attempt is not its.
    """
    table = table_of(rows)
    marks = {_BASE: None if base is None else json.dumps(base), RUN: run}
    told = {name: text.encode() for name, text in marks.items() if text is not None}
    table = table.replace_schema_metadata({**table.schema.metadata, **told})
    data = parquet_bytes(table)
    name = f"{epoch.name}-{sequence:06d}-{checksum(data)}.parquet"
    journal.write(name, data)
    return name


def segment_of(name: str) -> tuple[str, int] | None:
    """(epoch, sequence) of a segment's name; None for other files."""
    match = _SEGMENT.fullmatch(name)
    return None if match is None else (match["epoch"], int(match["sequence"]))


def in_order(names: Iterable[str]) -> list[str]:
    """Names of segments, older epochs first, each in the order of its sequence; others last."""

    def order(name: str) -> tuple[bool, Epoch | None, int, str]:
        place = segment_of(name)
        if place is None:
            return (True, None, 0, name)
        return (False, Epoch.parse(place[0]), place[1], name)

    return sorted(names, key=order)


def listed(names: Iterable[str]) -> Base:
    """The segments among names of files, as a base."""
    return base_of(filter(None, map(segment_of, names)))


def place_of(name: str) -> tuple[str, int]:
    """As `segment_of`, of a name that a segment was read under."""
    place = segment_of(name)
    assert place is not None  # it was read under this name
    return place


def base_in(schema: pa.Schema) -> Base | None:
    """What the writer of a segment had read when it began, as the segment says."""
    text = (schema.metadata or {}).get(_BASE)
    return None if text is None else json.loads(text)


def check_segment(journal: Folder, name: str) -> None:
    """Check what `read_segment` checks, without unpacking the rows.

    Raises:
        DataError: as `read_segment`.
    """
    data, where = _whole(journal, name)
    as_current(parquet_schema(data, where).empty_table(), where)


def read_segment(journal: Folder, name: str) -> pa.Table:
    """The rows of one segment.

    Raises:
        DataError: naming the segment, where its name, checksum or schema is not what it must be.
    """
    data, where = _whole(journal, name)
    return as_current(parquet_table(data, where), where)


def _whole(journal: Folder, name: str) -> tuple[bytes, str]:
    """The bytes of a segment, as they were written, and its address."""
    match = _SEGMENT.fullmatch(name)
    where = f"{journal.address}/{name}"
    if match is None:
        raise DataError(f"a segment must be named epoch-sequence-checksum.parquet, got {where}")
    data = journal.read(name)
    if checksum(data) != match["sum"]:
        raise DataError(f"checksum must be {match['sum']}, got {checksum(data)} in {where}")
    return data, where
