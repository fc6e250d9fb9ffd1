"""*Segments*: names, writes and reads the files of a journal, and decides which of them count.

A segment is a Parquet file named ``<epoch>-<sequence>-<checksum>.parquet``
(`pipeline.records.journal`).

Every life of every writer has an epoch, and each of its segments says its *base*: the segments of
others that counted for it when it began. A writer that is taken for dead may wake up and write
beside its successor. Nothing can stop that write on an object store, so readers judge it:

* Epoch f **succeeds** epoch e where f belongs to a later attempt, to a later phase, or is a later
  life of the same writer. f has taken e's work over, as far as f's base holds it.
* A segment of e **counts** if the newest epoch that succeeds e has it in its base, or none does.
* An outcome says its epoch and the last segment that was durable then. It counts if all segments of
  its epoch up to that one count, and the base of its epoch is still there.

So the rounds that count for a question are those that its last owner saw or wrote itself: driving
the strategy over them gives that owner's decisions again, whatever its predecessors still write.
Epochs are numbered by the run directory (attempt) and by the run's driver (life), never by a clock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from pipeline.core.errors import DataError
from pipeline.records.trajectory import Row, as_current, table_of
from pipeline.store.parquet import parquet_bytes, parquet_schema, parquet_table
from pipeline.store.storage import Folder, checksum

_EPOCH = re.compile(
    r"(?P<attempt>\d{4,})-(?P<token>[0-9a-f]{6})-(?P<phase>\d{2})-(?P<slot>[0-9a-z]+)"
    r"-(?P<life>\d{4,})"
)


@dataclass(frozen=True, slots=True, order=True)
class Epoch:
    """One life of one writer."""

    attempt: int
    token: str
    """Six hexadecimal digits that tell apart two attempts that took the same number at once."""
    phase: int
    slot: str
    """The writer: lower-case letters and digits, the same for each of its lives."""
    life: int

    @property
    def name(self) -> str:
        """How segments and outcomes name it."""
        return f"{self.attempt:04d}-{self.token}-{self.phase:02d}-{self.slot}-{self.life:04d}"

    @classmethod
    def parse(cls, name: str) -> Epoch:
        """The epoch of a name.

        Raises:
            ValueError: if it is none.
        """
        match = _EPOCH.fullmatch(name)
        if match is None:
            raise ValueError(
                "an epoch must be attempt (4 digits), token (6 hexadecimal digits), phase (2 "
                f"digits), slot and life (4 digits), joined by '-', got {name!r}"
            )
        return cls(
            int(match["attempt"]),
            match["token"],
            int(match["phase"]),
            match["slot"],
            int(match["life"]),
        )

    @property
    def stage(self) -> tuple[int, str, int]:
        """Attempt, its token, and phase: each takes over from all before it."""
        return (self.attempt, self.token, self.phase)

    def is_life_of(self, other: Epoch) -> bool:
        """Whether both are lives of one writer in one phase of one attempt."""
        return self.stage == other.stage and self.slot == other.slot

    def succeeds(self, other: Epoch) -> bool:
        """Whether this epoch has taken over what `other` was doing."""
        if self.stage != other.stage:
            return self.stage > other.stage
        return self.slot == other.slot and self.life > other.life


Base = dict[str, list[int]]
"""By epoch: the last sequence number that was there, then those before it that were not."""


def base_of(segments: Iterable[tuple[str, int]]) -> Base:
    """What a set of segments, (epoch, sequence) each, comes to as a base."""
    there: dict[str, set[int]] = {}
    for epoch, sequence in segments:
        there.setdefault(epoch, set()).add(sequence)
    base: Base = {}
    for epoch, numbers in sorted(there.items()):
        last = max(numbers)
        base[epoch] = [last, *(number for number in range(last) if number not in numbers)]
    return base


def holds(base: Base, epoch: str, sequence: int) -> bool:
    """Whether a segment is in a base."""
    if epoch not in base:
        return False
    last, *missing = base[epoch]
    return sequence <= last and sequence not in missing


class Fences:
    """What counts in a journal.

    Args:
        segments: all that are there, as a base.
        bases: of each epoch whose base is known.
    """

    def __init__(self, segments: Base, bases: Mapping[str, Base]) -> None:
        self._segments, self._bases = segments, bases
        self._parsed = [(Epoch.parse(name), base) for name, base in bases.items()]
        self._successors: dict[str, Base | None] = {}
        self._whole: dict[str, int] = {}

    def counts(self, epoch: str, sequence: int) -> bool:
        """Whether a segment is there, and was taken over if its writer has a successor."""
        base = self._successor(epoch)
        return holds(self._segments, epoch, sequence) and (
            base is None or holds(base, epoch, sequence)
        )

    def _successor(self, epoch: str) -> Base | None:
        """The base of the newest epoch that succeeds this one.

        Writers side by side in a later phase have one base for all that was before the phase.
        """
        if epoch not in self._successors:
            mine = Epoch.parse(epoch)
            later = {each: base for each, base in self._parsed if each.succeeds(mine)}
            newest = max(later, key=lambda each: (each.stage, each.life), default=None)
            self._successors[epoch] = None if newest is None else later[newest]
        return self._successors[epoch]

    def whole_until(self, epoch: str) -> int:
        """The last segment up to which an epoch's base and all its segments count; -1 for none."""
        if epoch not in self._whole:
            last = -1
            if all(self._has(name, entry) for name, entry in self._bases.get(epoch, {}).items()):
                while self.counts(epoch, last + 1):
                    last += 1
            self._whole[epoch] = last
        return self._whole[epoch]

    def _has(self, epoch: str, entry: list[int]) -> bool:
        """Whether what a base holds of one epoch is still there."""
        if epoch not in self._segments:
            return False
        (last, *missing), (there, *gone) = entry, self._segments[epoch]
        return last <= there and set(missing) >= {n for n in gone if n <= last}


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
    metadata = {name: text.encode() for name, text in marks.items() if text is not None}
    table = table.replace_schema_metadata({**table.schema.metadata, **metadata})
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
