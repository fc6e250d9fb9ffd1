"""*Journal*: reads immutable segments of completions, and the recordings in them.

A segment is a Parquet file named ``<epoch>-<sequence>-<checksum>.parquet``. The epoch is one life
of one writer (`pipeline.records.segments`), which numbers its segments from 0, one after the other;
the checksum covers the whole file, so a torn or changed segment is known before it is read. A
segment that fails is moved to ``corrupt/``, named, and only its rounds are redone. The first
segment of an epoch is its claim: it comes before every outcome of the writer, even if it has no
rows.

Rows of segments that do not count, and failures that were tried again, are discarded work, which is
counted and never used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.errors import DataError
from pipeline.core.protocol import Failure, Observation, Request
from pipeline.records.segments import (
    Base,
    Fences,
    base_in,
    base_of,
    check_segment,
    in_order,
    read_segment,
    segment_of,
)
from pipeline.records.trajectory import (
    SCHEMA,
    NewerFormatError,
    Row,
    address_of,
    observation_of,
)
from pipeline.store.storage import Folder

T = TypeVar("T")


class Facts(NamedTuple):
    """What of an entry decides."""

    digest: str
    """`Request.digest` of the request that it was recorded for."""
    failed: bool
    scored: bool


def facts_of(row: Mapping[str, Any]) -> Facts:
    """The facts of a row (`pipeline.records.trajectory`)."""
    return Facts(row["request_digest"], row["error"] is not None, row["score"] is not None)


def answering(
    entries: Iterable[T], facts: Callable[[T], Facts], request: Request, digest: str
) -> T | None:
    """The entry that answers `request`: the first completion, else the last failure.

    Args:
        entries: recorded at the request's address, older first.
        facts: of an entry.
        request: a completion without a score does not answer one that asks for a score.
        digest: `Request.digest` of `request`; entries of another digest answer something else.
    """
    failure = None
    for entry in entries:
        fact = facts(entry)
        if fact.digest != digest:
            continue
        if fact.failed:
            failure = entry
        elif fact.scored or not request.score:
            return entry
    return failure


def as_requested(observation: Observation, request: Request) -> Observation:
    """What engines would have returned to a request that `observation` answers: no score where it
    does not ask for one."""
    if isinstance(observation, Failure) or request.score or observation.score is None:
        return observation
    return replace(
        observation, score=None, step_scores=None, verifier_tokens=0, prm_truncated=False
    )


QuestionKey = tuple[str, str, str]
"""(strategy, benchmark, question_id)."""

QUESTION_KEY = ("strategy", "benchmark", "question_id")


@dataclass(frozen=True, slots=True)
class Corrupt:
    """A segment that could not be used."""

    name: str
    why: str


def set_aside_corrupt(journal: Folder) -> list[Corrupt]:
    """Move corrupt segments to ``corrupt/``; the bytes of one are in memory at a time."""
    _, corrupt = checked(journal)
    for segment in corrupt:
        journal.move(segment.name, f"corrupt/{segment.name}")
    return corrupt


def checked(journal: Folder) -> tuple[list[str], list[Corrupt]]:
    """Names of the segments that are whole, and those that are not; none is kept in memory.

    Raises:
        NewerFormatError: where a newer version wrote one of them.
    """
    whole: list[str] = []
    corrupt: list[Corrupt] = []
    for name in journal.names():
        try:
            check_segment(journal, name)
            whole.append(name)
        except NewerFormatError:
            raise  # it is whole
        except DataError as error:
            corrupt.append(Corrupt(name, str(error)))
    return whole, corrupt


def counting(journal: Folder, names: Collection[str] | None = None) -> list[str]:
    """Names of the segments that count, older epochs first; they are not checked.

    Args:
        journal: the folder of segments.
        names: of those that are there; None looks.
    """
    there = journal.names() if names is None else names
    fences = fences_of(journal, there)
    return [n for n in in_order(there) if (at := segment_of(n)) and fences.counts(*at)]


def read_columns(
    journal: Folder, names: Iterable[str], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Some columns of segments, one after the other; those that cannot be read are left out."""
    for name in names:
        try:
            yield journal.read_columns(name, list(columns))
        except DataError:
            continue


def keys_of(table: pa.Table) -> Iterator[QuestionKey]:
    """The question of each row."""
    return zip(*(table[name].to_pylist() for name in QUESTION_KEY), strict=True)


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


def sound(
    journal: Folder, names: Iterable[str], corrupt: list[Corrupt]
) -> Iterator[tuple[str, pa.Table]]:
    """The segments that can be read, by name; those that cannot are added to `corrupt`."""
    for name in names:
        try:
            table = read_segment(journal, name)
        except NewerFormatError:
            raise
        except DataError as error:
            corrupt.append(Corrupt(name, str(error)))
        else:
            yield name, table


def fences_of(journal: Folder, names: Iterable[str] | None = None) -> Fences:
    """What counts in a journal, or among some of its segments, from one of each epoch; segments are
    not checked."""
    there = journal.names() if names is None else names
    segments = [(name, *place) for name in there if (place := segment_of(name))]
    bases: dict[str, Base] = {}
    for name, epoch, _ in segments:
        if epoch not in bases:
            try:
                bases[epoch] = base_in(journal.read_schema(name)) or {}
            except DataError:
                continue  # the next segment of that epoch has the same base
    return Fences(base_of((epoch, sequence) for _, epoch, sequence in segments), bases)


CAPPED = ("completion_tokens", "wasted_tokens", "judge_tokens")
"""Kinds of tokens that the caps of a run count."""


def journaled_tokens(journal: Folder) -> int:
    """Tokens (`CAPPED`) of all rows of a journal, those that do not count included.

    Failed requests and failed tries are in it as far as engines knew their tokens. Segments that
    cannot be read are left out.
    """
    journaled = 0
    for name in journal.names():
        if segment_of(name) is None:
            continue
        try:
            there = journal.read_schema(name).names  # earlier versions have fewer kinds
            table = journal.read_columns(name, [kind for kind in CAPPED if kind in there])
        except DataError:
            continue
        journaled += sum(int(pc.sum(column).as_py() or 0) for column in table.columns)
    return journaled


class Resumed:
    """The completions of one question under one strategy or pool that a run goes on from.

    Several rows of one address may exist (redone work); `pipeline.records.journal` says which of
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
        """The observation that a request gets; None where nothing was recorded."""
        row = self.find(request)
        return None if row is None else as_requested(observation_of(row), request)

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
