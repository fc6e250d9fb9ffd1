"""Recorded completions by question, from which a resume goes on.

At the start of every phase of every attempt the driver writes the journal's rows, grouped into
buckets by a hash of the question, into ``work/``; it holds a part of them at a time. A controller
reads a bucket when it meets its first question, and, once, the segments of its own earlier lives
that were written since. What it read is its base (`pipeline.records.epochs`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.records.epochs import Base, Epoch
from pipeline.records.journal import (
    QUESTION_KEY,
    ByQuestion,
    QuestionKey,
    Recording,
    read_segments,
    without_retried,
)
from pipeline.records.run_dir import RunDir
from pipeline.records.segments import listed, read_segment, segment_of
from pipeline.records.trajectory import SCHEMA
from pipeline.store.storage import Folder

BUCKETS = 64

_PART_BYTES = 2**28  # of rows that the driver holds while it lays them out


def bucket_of(benchmark: str, question_id: str) -> int:
    """Which bucket a question is in, the same in every process."""
    digest = hashlib.sha256(f"{benchmark}\x1f{question_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % BUCKETS


def work_folder(run: RunDir, attempt: int, phase: int) -> Folder:
    """Where the rows of a phase of an attempt lie."""
    return run.folder.child("work", f"attempt-{attempt}-phase-{phase}")


def write_recorded(
    run: RunDir, attempt: int, phase: int, names: Sequence[str], wanted: Iterable[QuestionKey]
) -> None:
    """Lay out recorded rows for the questions of a phase, and note which segments they are from.

    Args:
        run: the run directory.
        attempt: that goes on from them.
        phase: of it.
        names: of the segments that count, in their order.
        wanted: the questions.
    """
    folder = work_folder(run, attempt, phase).child("recorded")
    bucket = {key: bucket_of(key[1], key[2]) for key in wanted}
    for part, table in enumerate(parts(run.journal, names, bucket)):
        for number in pc.unique(table["bucket"]).to_pylist():
            rows = table.filter(pc.equal(table["bucket"], number)).drop_columns("bucket")
            folder.write_table(f"bucket-{number:03d}-{part:05d}.parquet", rows)
    folder.write_json("segments.json", listed(names))


def parts(
    journal: Folder, names: Iterable[str], bucket: Mapping[QuestionKey, int]
) -> Iterator[pa.Table]:
    """The rows of the questions that have a bucket, with it, from several segments at a time.

    Args:
        journal: the folder of segments.
        names: of the segments that count, in their order.
        bucket: the number of each question's bucket; it stands in the column ``bucket``.
    """
    held: list[pa.Table] = []
    held_bytes = 0
    for name in names:
        table = read_segment(journal, name)
        keys = zip(*(table[column].to_pylist() for column in QUESTION_KEY), strict=True)
        buckets = pa.array(map(bucket.get, keys), type=pa.int32())
        rows = table.replace_schema_metadata(SCHEMA.metadata).append_column("bucket", buckets)
        rows = rows.filter(pc.is_valid(buckets))
        if rows.num_rows:
            held.append(rows)
            held_bytes += rows.nbytes
        if held_bytes >= _PART_BYTES:
            yield pa.concat_tables(held)
            held, held_bytes = [], 0
    if held:
        yield pa.concat_tables(held)


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
        self._later = ByQuestion(own.table)
        self._buckets: dict[int, ByQuestion] = {}
        self.base: Base = {**self._folder.read_json("segments.json"), **listed(own.names)}
        """What the recordings are from."""

    def of(self, key: QuestionKey) -> Recording | None:
        """The recording of (strategy, benchmark, question_id); None where there is none."""
        return self._recording(key, self._later)

    def again(self, key: QuestionKey) -> Recording | None:
        """As `of`, with what this very life of the writer made durable meanwhile."""
        return self._recording(
            key, ByQuestion(read_segments(self._run.journal, self._own_segments()).table)
        )

    def _recording(self, key: QuestionKey, later: ByQuestion) -> Recording | None:
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

    def _bucket(self, number: int) -> ByQuestion:
        if number not in self._buckets:
            parts = [name for name in self._names if name.startswith(f"bucket-{number:03d}-")]
            tables = [self._folder.read_table(name) for name in sorted(parts)]
            table, _ = without_retried(pa.concat_tables([SCHEMA.empty_table(), *tables]))
            self._buckets[number] = ByQuestion(table)
        return self._buckets[number]
