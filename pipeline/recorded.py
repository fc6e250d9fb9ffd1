"""What was recorded of the questions of a phase before it began, by question.

At the start of every phase of every attempt the driver writes the journal's rows, grouped into
buckets by a hash of the question, into ``work/``. A controller reads a bucket when it meets its
first question, and, once, the segments of its own earlier lives that were written since. What it
read is its base (`pipeline.epochs`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.epochs import Base, Epoch
from pipeline.journal import (
    JournalRead,
    QuestionKey,
    Recording,
    by_question,
    listed,
    read_segments,
    segment_of,
)
from pipeline.run_dir import RunDir
from pipeline.storage import Folder
from pipeline.trajectory import SCHEMA, Row

BUCKETS = 64


def bucket_of(benchmark: str, question_id: str) -> int:
    """Which bucket a question is in, the same in every process."""
    digest = hashlib.sha256(f"{benchmark}\x1f{question_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % BUCKETS


def work_folder(run: RunDir, attempt: int, phase: int) -> Folder:
    """Where the rows of a phase of an attempt lie."""
    return run.folder.child("work", f"attempt-{attempt}-phase-{phase}")


def write_recorded(
    run: RunDir, attempt: int, phase: int, journal: JournalRead, wanted: Iterable[QuestionKey]
) -> None:
    """Lay out recorded rows for the questions of a phase, and note which segments they are from."""
    folder = work_folder(run, attempt, phase).child("recorded")
    buckets = _buckets_of_rows(journal.table, wanted)
    for bucket in pc.drop_null(pc.unique(buckets)).to_pylist():
        rows = journal.table.filter(pc.equal(buckets, bucket))
        folder.write_table(f"bucket-{bucket:03d}.parquet", rows)
    folder.write_json("segments.json", listed(journal.names))


def _buckets_of_rows(table: pa.Table, wanted: Iterable[QuestionKey]) -> pa.ChunkedArray:
    """The bucket of each row, null for rows of other questions."""
    bucket = {key: bucket_of(key[1], key[2]) for key in wanted}
    chunks = []
    for batch in table.select(["strategy", "benchmark", "question_id"]).to_batches():
        keys = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        chunks.append(pa.array(map(bucket.get, keys), type=pa.int8()))
    return pa.chunked_array(chunks, type=pa.int8())


class RecordedWork:
    """Recordings by question, read bucket by bucket as they are asked for.

    Args:
        run: the run directory.
        epoch: of the writer that will go on from them.
        retry_before: an attempt; failures of earlier ones are to be tried again.
    """

    def __init__(self, run: RunDir, epoch: Epoch, *, retry_before: int | None = None) -> None:
        self._run, self._epoch = run, epoch
        self._retry_before = retry_before
        self._folder = work_folder(run, epoch.attempt, epoch.phase).child("recorded")
        self._names = frozenset(self._folder.names())
        own = read_segments(run.journal, self._own_segments())
        self._later = by_question(own.table)
        self._buckets: dict[int, dict[QuestionKey, list[Row]]] = {}
        self.base: Base = {**self._folder.read_json("segments.json"), **listed(own.names)}
        """What the recordings are from."""

    def of(self, key: QuestionKey) -> Recording | None:
        """The recording of (strategy, benchmark, question_id); None where there is none."""
        return self._recording(key, self._later)

    def again(self, key: QuestionKey) -> Recording | None:
        """As `of`, with what this very life of the writer made durable meanwhile."""
        return self._recording(
            key, by_question(read_segments(self._run.journal, self._own_segments()).table)
        )

    def _recording(
        self, key: QuestionKey, later: Mapping[QuestionKey, list[Row]]
    ) -> Recording | None:
        rows = [*self._bucket(bucket_of(key[1], key[2])).get(key, ()), *later.get(key, ())]
        return Recording(rows, retry_before=self._retry_before) if rows else None

    def _own_segments(self) -> list[str]:
        """Of all lives of this writer, in this phase of this attempt."""
        mine = self._epoch
        names = []
        for name in self._run.journal.names():
            place = segment_of(name)
            if place is not None and Epoch.parse(place[0]).is_life_of(mine):
                names.append(name)
        return names

    def _bucket(self, number: int) -> dict[QuestionKey, list[Row]]:
        if number not in self._buckets:
            name = f"bucket-{number:03d}.parquet"
            table = self._folder.read_table(name) if name in self._names else SCHEMA.empty_table()
            self._buckets[number] = by_question(table)
        return self._buckets[number]
