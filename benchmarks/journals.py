"""A whole journal as one table, for counts and checks: what counts, and what does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from pipeline.records.journal import Corrupt, sound, without_retried
from pipeline.records.segments import Base, Fences, base_in, in_order, listed, place_of
from pipeline.records.trajectory import SCHEMA
from pipeline.store.storage import Folder


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


def read_journal(journal: Folder, *, skip: frozenset[str] = frozenset()) -> JournalRead:
    """All durable rows, those that count apart from the others; corrupt segments are not read.

    Args:
        journal: the folder of segments.
        skip: names of segments to leave out.
    """
    return read_segments(journal, [name for name in journal.names() if name not in skip])


def read_segments(journal: Folder, names: Iterable[str]) -> JournalRead:
    """As `read_journal`, of some segments alone: only what they know of each other decides."""
    corrupt: list[Corrupt] = []
    tables: dict[str, pa.Table] = {}
    bases: dict[str, Base] = {}
    for name, table in sound(journal, in_order(names), corrupt):
        epoch, _ = place_of(name)
        if epoch not in bases and (base := base_in(table.schema)) is not None:
            bases[epoch] = base
        tables[name] = table.replace_schema_metadata(SCHEMA.metadata)
    fences = Fences(listed(tables), bases)
    counted = {name: t for name, t in tables.items() if fences.counts(*place_of(name))}
    late = [table for name, table in tables.items() if name not in counted]
    empty = SCHEMA.empty_table()
    table, retried = without_retried(pa.concat_tables([empty, *counted.values()]))
    discarded = pa.concat_tables([empty, *late, retried])
    return JournalRead(table, list(counted), discarded, corrupt)
