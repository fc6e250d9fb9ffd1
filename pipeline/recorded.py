"""What was recorded of the questions of a phase before it began, by question.

At the start of every phase of every attempt the driver writes the journal's rows, grouped into
buckets by a hash of the question, into ``work/``. A controller reads a bucket when it meets its
first question, and, once, the segments that were written since: those of its own earlier life.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import pyarrow as pa

from pipeline.journal import QuestionKey, Recording, by_question, read_journal
from pipeline.run_dir import RunDir
from pipeline.storage import Folder
from pipeline.trajectory import SCHEMA, Row, table_of

BUCKETS = 64


def bucket_of(benchmark: str, question_id: str) -> int:
    """Which bucket a question is in, the same in every process."""
    digest = hashlib.sha256(f"{benchmark}\x1f{question_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % BUCKETS


def work_folder(run: RunDir, attempt: int, phase: int) -> Folder:
    """Where the rows of a phase of an attempt lie."""
    return run.folder.child("work", f"attempt-{attempt}-phase-{phase}")


def write_recorded(
    run: RunDir, attempt: int, phase: int, table: pa.Table, wanted: Iterable[QuestionKey]
) -> None:
    """Lay out recorded rows for the questions of a phase, and note which segments they are from."""
    folder = work_folder(run, attempt, phase).child("recorded")
    buckets: dict[int, list[Row]] = {}
    needed = set(wanted)
    for key, rows in by_question(table).items():
        if key in needed:
            buckets.setdefault(bucket_of(key[1], key[2]), []).extend(rows)
    for bucket, rows in buckets.items():
        folder.write_table(f"bucket-{bucket:03d}.parquet", table_of(rows))
    folder.write_json("segments.json", run.journal.names())


class RecordedWork:
    """Recordings by question, read bucket by bucket as they are asked for."""

    def __init__(self, run: RunDir, attempt: int, phase: int) -> None:
        self._folder = work_folder(run, attempt, phase).child("recorded")
        self._names = frozenset(self._folder.names())
        known = frozenset(self._folder.read_json("segments.json"))
        later = read_journal(run.journal, skip=known).table
        self._later = by_question(later)
        self._buckets: dict[int, dict[QuestionKey, list[Row]]] = {}

    def of(self, key: QuestionKey) -> Recording | None:
        """The recording of (strategy, benchmark, question_id); None where there is none."""
        rows = [*self._bucket(bucket_of(key[1], key[2])).get(key, ()), *self._later.get(key, ())]
        return Recording(rows) if rows else None

    def _bucket(self, number: int) -> dict[QuestionKey, list[Row]]:
        if number not in self._buckets:
            name = f"bucket-{number:03d}.parquet"
            table = self._folder.read_table(name) if name in self._names else SCHEMA.empty_table()
            self._buckets[number] = by_question(table)
        return self._buckets[number]
