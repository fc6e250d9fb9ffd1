"""The journal: immutable segments of completions, and the recordings that are read from it.

A segment is a Parquet file named ``<epoch>-<sequence>-<checksum>.parquet``. The epoch is one life
of one writer (`pipeline.records.epochs`), which numbers its segments from 0, one after the other;
the checksum covers the whole file, so a torn or changed segment is known before it is read. A
segment that fails is moved to ``corrupt/``, named, and only its rounds are redone. The first
segment of an epoch is its claim: it comes before every outcome of the writer, even if it has no
rows.

Rows of segments that do not count, and failures that were tried again, are discarded work, which is
counted and never used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.errors import DataError
from pipeline.core.protocol import Observation, Request
from pipeline.records.answering import answering, as_asked, facts_of
from pipeline.records.epochs import Base, Fences, base_of
from pipeline.records.segments import (
    base_in,
    in_order,
    listed,
    place_of,
    read_segment,
    segment_of,
)
from pipeline.records.trajectory import SCHEMA, Row, address_of, observation_of
from pipeline.store.storage import Folder

QuestionKey = tuple[str, str, str]
"""(strategy, benchmark, question_id)."""

QUESTION_KEY = ("strategy", "benchmark", "question_id")


@dataclass(frozen=True, slots=True)
class Corrupt:
    """A segment that could not be used."""

    name: str
    why: str


@dataclass(slots=True)
class JournalRead:
    """What a journal holds."""

    table: pa.Table
    """Rows that count, older epochs first."""
    names: list[str] = field(default_factory=list)
    """The segments that count."""
    discarded: pa.Table = field(default_factory=SCHEMA.empty_table)
    """Rows of segments that do not count, and failures that were tried again."""
    corrupt: list[Corrupt] = field(default_factory=list)


def set_aside_corrupt(journal: Folder) -> list[Corrupt]:
    """Move corrupt segments to ``corrupt/``; one segment is in memory at a time."""
    corrupt: list[Corrupt] = []
    for _ in _sound(journal, journal.names(), corrupt):
        pass
    for segment in corrupt:
        journal.move(segment.name, f"corrupt/{segment.name}")
    return corrupt


@dataclass(frozen=True, slots=True)
class Survey:
    """What counts in a journal, without all that it holds."""

    names: list[str]
    """The segments that count, older epochs first."""
    table: pa.Table
    """Of their rows the columns that were asked for."""


def survey(journal: Folder, columns: Sequence[str]) -> Survey:
    """Look through a journal with one whole segment in memory at a time.

    Corrupt segments are left out. Failures that were tried again are among the rows.
    """
    read = _read(journal, journal.names(), lambda table: table.select(columns))
    empty = SCHEMA.empty_table().select(columns)
    return Survey(list(read.counting), pa.concat_tables([empty, *read.counting.values()]))


def read_journal(
    journal: Folder,
    *,
    skip: frozenset[str] = frozenset(),
    strategies: Collection[str] | None = None,
) -> JournalRead:
    """All durable rows, those that count apart from the others; corrupt segments are not read.

    Args:
        journal: the folder of segments.
        skip: names of segments to leave out.
        strategies: labels whose rows to keep, others are let go with their segment; None keeps all.
    """
    names = [name for name in journal.names() if name not in skip]
    if strategies is None:
        return read_segments(journal, names)
    labels = pa.array(strategies, pa.string())
    return _joined(
        _read(journal, names, lambda table: table.filter(pc.is_in(table["strategy"], labels)))
    )


def read_segments(journal: Folder, names: Iterable[str]) -> JournalRead:
    """As `read_journal`, of some segments alone: only what they know of each other decides."""
    return _joined(_read(journal, names, lambda table: table))


def without_retried(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """A table, and apart from it its failures for which a later row answers the same request."""
    failed = pc.is_valid(table["error"])
    if not pc.any(failed).as_py():
        return table, SCHEMA.empty_table()
    # rows of questions that failed, which are few: only they become Python objects
    ids = table["question_id"]
    near = pc.is_in(ids, pc.unique(ids.filter(failed)))
    indices = pc.indices_nonzero(near).to_pylist()
    columns = [table[name].filter(near).to_pylist() for name in _REQUEST]
    requests = list(zip(*columns, strict=True))
    last = dict(zip(requests, indices, strict=True))
    again = np.zeros(table.num_rows, dtype=bool)
    again[[i for i, r in zip(indices, requests, strict=True) if last[r] != i]] = True
    retried = pc.and_(failed, pa.array(again))
    return table.filter(pc.invert(retried)), table.filter(retried)


_REQUEST = (*QUESTION_KEY, "pool", "chain", "round", "sample", "request_digest")


class _Segments(NamedTuple):
    """Segments by name, in their order, those that count apart from the others."""

    counting: dict[str, pa.Table]
    late: dict[str, pa.Table]
    corrupt: list[Corrupt]


def _read(journal: Folder, names: Iterable[str], kept: Callable[[pa.Table], pa.Table]) -> _Segments:
    corrupt: list[Corrupt] = []
    tables: dict[str, pa.Table] = {}
    bases: dict[str, Base] = {}
    for name, table in _sound(journal, in_order(names), corrupt):
        epoch, _ = place_of(name)
        if epoch not in bases and (base := base_in(table.schema)) is not None:
            bases[epoch] = base
        tables[name] = kept(table.replace_schema_metadata(SCHEMA.metadata))
    fences = Fences(listed(tables), bases)
    counting = {name: t for name, t in tables.items() if fences.counts(*place_of(name))}
    late = {name: table for name, table in tables.items() if name not in counting}
    return _Segments(counting, late, corrupt)


def _joined(read: _Segments) -> JournalRead:
    empty = SCHEMA.empty_table()
    table, retried = without_retried(pa.concat_tables([empty, *read.counting.values()]))
    discarded = pa.concat_tables([empty, *read.late.values(), retried])
    return JournalRead(table, list(read.counting), discarded, read.corrupt)


def _sound(
    journal: Folder, names: Iterable[str], corrupt: list[Corrupt]
) -> Iterator[tuple[str, pa.Table]]:
    """The segments that can be read, by name; those that cannot are added to `corrupt`."""
    for name in names:
        try:
            yield name, read_segment(journal, name)
        except DataError as error:
            corrupt.append(Corrupt(name, str(error)))


def fences_of(journal: Folder) -> Fences:
    """What counts in a journal, from one segment of each epoch; segments are not checked."""
    segments = [(name, *place) for name in journal.names() if (place := segment_of(name))]
    bases: dict[str, Base] = {}
    for name, epoch, _ in segments:
        if epoch not in bases:
            try:
                bases[epoch] = base_in(journal.read_schema(name)) or {}
            except DataError:
                continue  # the next segment of that epoch has the same base
    return Fences(base_of((epoch, sequence) for _, epoch, sequence in segments), bases)


class Recording:
    """The recorded completions of one question under one strategy or pool.

    Several rows of one address may exist (redone work); `pipeline.records.answering` says which of
    them answers a request.

    Args:
        rows: of one question, older first.
        retry_before: an attempt; failures of earlier ones are no record but cost, since they are to
            be tried again.
    """

    def __init__(
        self, rows: Iterable[Mapping[str, Any]], *, retry_before: int | None = None
    ) -> None:
        self._rows: dict[tuple[str, int, int, int], list[Mapping[str, Any]]] = {}
        self.retried_tokens = 0
        """Completion tokens of the failures that are tried again, as far as known."""
        self.retried_unknown = 0
        """Failures that are tried again and whose tokens nobody knows."""
        for row in rows:
            if retry_before is not None and row["error"] and row["attempt"] < retry_before:
                self.retried_tokens += (row["completion_tokens"] or 0) + (row["wasted_tokens"] or 0)
                self.retried_unknown += row["completion_tokens"] is None
                continue
            self._rows.setdefault(address_of(row), []).append(row)
        self._used: set[int] = set()

    def take(self, request: Request) -> Observation | None:
        """What a strategy is told that asks for a request; None where nothing was recorded."""
        row = self.find(request)
        return None if row is None else as_asked(observation_of(row), request)

    def find(self, request: Request) -> Mapping[str, Any] | None:
        """The row recorded for a request, or None."""
        rows = self._rows.get(request.address)
        row = rows and answering(rows, facts_of, request, request.digest())
        if not row:
            return None
        self._used.add(id(row))
        return row

    def discarded(self) -> Iterator[Mapping[str, Any]]:
        """Rows that no request has taken: losers of a race, or of another configuration."""
        for rows in self._rows.values():
            for row in rows:
                if id(row) not in self._used:
                    yield row


class ByQuestion(Mapping[QuestionKey, list[Row]]):
    """Rows of a table by (strategy, benchmark, question_id), in their order.

    They stay in Arrow's memory, which is smaller, until a question is asked for; each time it is,
    its rows are new objects.
    """

    def __init__(self, table: pa.Table) -> None:
        # few large batches: texts of more than 2 GiB fit a table, but not an array taken from it
        self._batches = table.combine_chunks().to_batches()
        self._places: dict[QuestionKey, list[tuple[int, int]]] = {}
        for number, batch in enumerate(self._batches):
            keys = zip(*(batch[name].to_pylist() for name in QUESTION_KEY), strict=True)
            for index, key in enumerate(keys):
                self._places.setdefault(key, []).append((number, index))

    def __getitem__(self, key: QuestionKey) -> list[Row]:
        """The rows of one question."""
        rows: list[Row] = []
        for number, places in groupby(self._places[key], itemgetter(0)):
            indices = pa.array([index for _, index in places], type=pa.int64())
            rows += self._batches[number].take(indices).to_pylist()
        return rows

    def __iter__(self) -> Iterator[QuestionKey]:
        """The questions, in the order of their first rows."""
        return iter(self._places)

    def __len__(self) -> int:
        """How many questions there are."""
        return len(self._places)
