"""The journal: immutable segments of completions, and the recordings that are read from it.

A segment is a Parquet file named ``<epoch>-<sequence>-<checksum>.parquet``. The epoch is unique to
one life of one writer and grows with time, so names sort in the order of writing; the checksum
covers the whole file, so a torn or changed segment is known before it is read. A segment that
fails is moved to ``corrupt/``, named, and only its rounds are redone.

Of several records of one key the first durable one counts (the order of names, then of rows); the
others are discarded work, which is counted and never used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from pipeline.errors import DataError
from pipeline.protocol import Completion, Observation, Request
from pipeline.storage import Folder, checksum, parquet_bytes, parquet_table
from pipeline.trajectory import SCHEMA, Row, address_of, check_schema, observation_of, table_of

_SEGMENT = re.compile(
    r"(?P<epoch>\d{16}-[0-9a-z]+)-(?P<sequence>\d{6})-(?P<sum>[0-9a-f]{16})\.parquet"
)

QuestionKey = tuple[str, str, str]
"""(strategy, benchmark, question_id)."""


def epoch_name(microseconds: int, writer: str) -> str:
    """The epoch of a writer started at `microseconds` since 1970; `writer` tells twins apart."""
    return f"{microseconds:016d}-{writer}"


def write_segment(journal: Folder, epoch: str, sequence: int, rows: Iterable[Row]) -> str:
    """Make rows durable as one new segment; returns its name."""
    data = parquet_bytes(table_of(rows))
    name = f"{epoch}-{sequence:06d}-{checksum(data)}.parquet"
    if not _SEGMENT.fullmatch(name):
        raise ValueError(
            f"epoch must be 16 digits, '-' and lower-case letters or digits, got {epoch!r}"
        )
    journal.write(name, data)
    return name


@dataclass(frozen=True, slots=True)
class Corrupt:
    """A segment that could not be used."""

    name: str
    why: str


@dataclass(slots=True)
class JournalRead:
    """What a journal holds."""

    table: pa.Table
    corrupt: list[Corrupt] = field(default_factory=list)


def read_journal(
    journal: Folder, *, set_aside: bool = False, skip: frozenset[str] = frozenset()
) -> JournalRead:
    """All durable rows, oldest first.

    Args:
        journal: the folder of segments.
        set_aside: whether to move corrupt segments to ``corrupt/``; they are never read either way.
        skip: names of segments to leave out.
    """
    tables: list[pa.Table] = []
    corrupt: list[Corrupt] = []
    for name in journal.names():
        if name in skip:
            continue
        try:
            tables.append(read_segment(journal, name))
        except DataError as error:
            corrupt.append(Corrupt(name, str(error)))
            if set_aside:
                journal.move(name, f"corrupt/{name}")
    table = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    return JournalRead(table, corrupt)


def read_segment(journal: Folder, name: str) -> pa.Table:
    """The rows of one segment.

    Raises:
        DataError: naming the segment, where its name, checksum or schema is not what it must be.
    """
    match = _SEGMENT.fullmatch(name)
    where = f"{journal.address}/{name}"
    if match is None:
        raise DataError(f"a segment must be named epoch-sequence-checksum.parquet, got {where}")
    data = journal.read(name)
    if checksum(data) != match["sum"]:
        raise DataError(f"checksum must be {match['sum']}, got {checksum(data)} in {where}")
    table = parquet_table(data, where)
    check_schema(table.schema, where)
    return table


class Recording:
    """The recorded completions of one question under one strategy or pool.

    Several rows of one address may exist (redone work); each request takes the first whose digest
    is its own.
    """

    def __init__(self, rows: Iterable[Mapping[str, object]], *, failures: bool = True) -> None:
        self._rows: dict[tuple[str, int, int, int], list[Mapping[str, object]]] = {}
        for row in rows:
            if row["error"] is not None and not failures:
                continue
            self._rows.setdefault(address_of(row), []).append(row)
        self._used: set[int] = set()

    def take(self, request: Request) -> Observation | None:
        """The observation recorded for a request, or None."""
        for row in self._rows.get(request.address, ()):
            if row["request_digest"] != request.digest():
                continue
            observation = observation_of(row)
            unscored = isinstance(observation, Completion) and observation.score is None
            if request.score and unscored:
                continue
            self._used.add(id(row))
            return observation
        return None

    def discarded(self) -> Iterator[Mapping[str, object]]:
        """Rows that no request has taken: losers of a race, or of another configuration."""
        for rows in self._rows.values():
            for row in rows:
                if id(row) not in self._used:
                    yield row


def by_question(table: pa.Table) -> dict[QuestionKey, list[Row]]:
    """Rows of a table by (strategy, benchmark, question_id), in their order."""
    grouped: dict[QuestionKey, list[Row]] = {}
    for row in table.to_pylist():
        key = (row["strategy"], row["benchmark"], row["question_id"])
        grouped.setdefault(key, []).append(row)
    return grouped
