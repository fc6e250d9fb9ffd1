"""*Blocks*: stores recorded rows by question and reads few of them at a time.

In a journal the rows of a question lie in many segments, among those of thousands of others. Here
the rows of questions that follow each other in the work list are written together, as a block. A
part is a file of blocks, written from as many rows as fit into memory; a block can be in several
parts, in the order of the rows.

At the start of every phase of every attempt the driver writes the journal's rows as blocks into
``work/``. A controller reads a block when a question of it begins. A later life of a controller
writes, once, what its earlier lives have recorded since. Its base is what it has read so
(`pipeline.records.segments`).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.errors import DataError
from pipeline.records.journal import (
    QUESTION_KEY,
    ByQuestion,
    QuestionKey,
    Resumed,
    checked,
    counting,
    keys_of,
    read_columns,
    sound,
    without_retried,
)
from pipeline.records.run_dir import RunDir
from pipeline.records.segments import Base, Epoch, listed, segment_of
from pipeline.records.trajectory import SCHEMA, Row
from pipeline.store.storage import Folder, checksum
from pipeline.store.streams import scratch

_QUESTIONS = 16  # of a block, as many as a controller gets at once
_PART_BYTES = 2**26  # of rows that the writer holds
_HELD_BYTES = 2**26  # of blocks that a reader holds

_INDEX = pa.schema(
    [
        pa.field("block", pa.int32(), nullable=False),
        pa.field("part", pa.int32(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("unpacked", pa.int64(), nullable=False),
        pa.field("checksum", pa.string(), nullable=False),
    ]
)


def write_blocks(folder: Folder, tables: Iterable[pa.Table], wanted: Sequence[QuestionKey]) -> None:
    """Write rows as blocks.

    Args:
        folder: of the blocks.
        tables: rows of the trajectory schema, older first.
        wanted: the questions, in the order in which they will be read; rows of others are left out.
    """
    blocks = {key: number // _QUESTIONS for number, key in enumerate(wanted)}
    index: list[Row] = []
    for part, held in enumerate(_parts(tables, blocks)):
        written = bytearray()
        for block in sorted(held):
            for batch in pa.concat_tables(held.pop(block)).combine_chunks().to_batches():
                rows = batch.serialize()
                packed = pa.compress(rows, codec="zstd", asbytes=True)
                values = (block, part, len(written), len(packed), rows.size, checksum(packed))
                index.append(dict(zip(_INDEX.names, values, strict=True)))
                written += packed
        folder.write(_name(part), written)
    digests = np.fromiter(map(_digest, blocks), dtype=np.uint64, count=len(blocks))
    order = np.argsort(digests)
    numbers = np.fromiter(blocks.values(), dtype=np.int32, count=len(blocks))
    questions = pa.table({"digest": digests[order], "block": numbers[order]})
    folder.write_table("questions.parquet", questions)
    folder.write_table("index.parquet", pa.Table.from_pylist(index, schema=_INDEX))


class Blocks:
    """Rows by question, read a block at a time; a few blocks are held.

    Args:
        folder: that `write_blocks` wrote.
        keys: the questions that have rows, where that is known.
    """

    def __init__(self, folder: Folder, keys: Collection[QuestionKey] = ()) -> None:
        self.keys = keys
        self._folder = folder
        self._index = folder.read_table("index.parquet").sort_by("block").combine_chunks()
        self._numbers = self._index["block"].to_numpy()
        questions = folder.read_table("questions.parquet")
        self._digests, self._blocks = (questions[name].to_numpy() for name in ("digest", "block"))
        self._held: OrderedDict[int, tuple[ByQuestion, int]] = OrderedDict()

    def rows(self, key: QuestionKey) -> list[Row]:
        """The rows of one question, older first, without failures that were tried again.

        Raises:
            DataError: where a block is not as it was written.
        """
        digest = np.uint64(_digest(key))
        first, end = (np.searchsorted(self._digests, digest, side) for side in ("left", "right"))
        found = [self._block(number).get(key, []) for number in self._blocks[first:end].tolist()]
        return [row for rows in found for row in rows]

    def delete(self) -> None:
        """Delete the folder's files: nothing more will be read."""
        self._folder.delete()

    def _block(self, number: int) -> ByQuestion:
        if number not in self._held:
            first, end = (np.searchsorted(self._numbers, number, s) for s in ("left", "right"))
            entries = self._index.slice(first, end - first).to_pylist()
            tables = [SCHEMA.empty_table(), *map(self._read, entries)]
            table, _ = without_retried(pa.concat_tables(tables))
            self._held[number] = ByQuestion(table), table.nbytes
        self._held.move_to_end(number)
        while len(self._held) > 1 and sum(size for _, size in self._held.values()) > _HELD_BYTES:
            self._held.popitem(last=False)
        return self._held[number][0]

    def _read(self, entry: Row) -> pa.Table:
        name = _name(entry["part"])
        packed = self._folder.read(name, entry["start"], entry["length"])
        if checksum(packed) != entry["checksum"]:
            where = (
                f"{entry['length']:,} bytes at {entry['start']:,} of {self._folder.address}/{name}"
            )
            raise DataError(
                f"checksum must be {entry['checksum']}, got {checksum(packed)} in {where}"
            )
        rows = pa.decompress(packed, decompressed_size=entry["unpacked"], codec="zstd")
        return pa.Table.from_batches([pa.ipc.read_record_batch(rows, SCHEMA)])


def _parts(
    tables: Iterable[pa.Table], blocks: Mapping[QuestionKey, int]
) -> Iterator[dict[int, list[pa.Table]]]:
    """Rows of questions that have a block, by block, as many as are held at once."""
    held: dict[int, list[pa.Table]] = {}
    held_bytes = 0
    # of a table with more than 2 GiB of text, rows can only be taken batch by batch
    for batch in (batch for table in tables for batch in table.to_batches()):
        keys = zip(*(batch[column].to_pylist() for column in QUESTION_KEY), strict=True)
        numbers = np.fromiter((blocks.get(key, -1) for key in keys), np.int32, batch.num_rows)
        order = np.argsort(numbers, kind="stable")
        order = order[np.searchsorted(numbers[order], 0) :]
        rows = pa.Table.from_batches([batch.take(pa.array(order))])
        rows = rows.replace_schema_metadata(SCHEMA.metadata)
        found = np.unique(numbers[order], return_index=True, return_counts=True)
        for block, start, count in zip(*found, strict=True):
            held.setdefault(int(block), []).append(rows.slice(start, count))
        held_bytes += rows.nbytes
        if held_bytes >= _PART_BYTES:
            yield held
            held, held_bytes = {}, 0
    if held:
        yield held


def _name(part: int) -> str:
    return f"part-{part:05d}"


def _digest(key: QuestionKey) -> int:
    """The same in every process; of two questions with one digest both blocks are looked at."""
    return int.from_bytes(hashlib.sha256("\x1f".join(key).encode()).digest()[:8], "big")


@contextmanager
def journal_by_question(journal: Folder, order: Iterable[QuestionKey]) -> Iterator[Blocks]:
    """The rows that count of a journal, by question, for as long as this lasts.

    They are written anew to a scratch folder, which needs as much room as the journal. Segments
    that are torn or changed are left out.

    Args:
        journal: the folder of segments.
        order: in which most questions will be read. Others of the journal come after them.
    """
    names = counting(journal, checked(journal)[0])
    columns = read_columns(journal, names, QUESTION_KEY)
    keys = dict.fromkeys(key for table in columns for key in keys_of(table))
    wanted = dict.fromkeys(key for key in order if key in keys) | keys
    with scratch() as folder:
        tables = (table for _, table in sound(journal, names, corrupt=[]))
        write_blocks(folder, tables, list(wanted))
        yield Blocks(folder, keys.keys())


def work_folder(run: RunDir, attempt: int, phase: int) -> Folder:
    """Where the rows of a phase of an attempt lie."""
    return run.folder.child("work", f"attempt-{attempt}-phase-{phase}")


def write_recorded(
    run: RunDir, attempt: int, phase: int, names: Sequence[str], wanted: Sequence[QuestionKey]
) -> None:
    """Write recorded rows of a phase's questions as blocks, and note which segments they are from.

    Args:
        run: the run directory.
        attempt: that goes on from them.
        phase: of it.
        names: of the segments that count, in their order; those that are corrupt are left out.
        wanted: the questions, in the order in which they will begin.
    """
    _write_blocks_of(run.journal, work_folder(run, attempt, phase).child("recorded"), names, wanted)


def drawn_blocks(
    run: RunDir, attempt: int, phase: int, label: str, wanted: Sequence[QuestionKey]
) -> Blocks:
    """What counts of the questions of a finished phase, written by `attempt`, in their order."""
    folder = work_folder(run, attempt, phase).child(f"drawn-{label}")
    _write_blocks_of(run.journal, folder, counting(run.journal), wanted)
    return Blocks(folder)


def _write_blocks_of(
    journal: Folder, folder: Folder, names: Iterable[str], wanted: Sequence[QuestionKey]
) -> Base:
    """Write blocks and the segments that they are from, which are returned."""
    read: list[str] = []

    def tables() -> Iterator[pa.Table]:
        for name, table in sound(journal, names, corrupt=[]):
            read.append(name)
            yield table

    write_blocks(folder, tables(), wanted)
    folder.write_json("segments.json", listed(read))
    return listed(read)


class RecordedWork:
    """Recordings by question, read on access.

    Args:
        run: the run directory.
        epoch: of the writer that will go on from them.
        retry_before: an attempt; failures of earlier ones are to be tried again.
    """

    def __init__(self, run: RunDir, epoch: Epoch, *, retry_before: int | None = None) -> None:
        self._run, self._epoch = run, epoch
        self._retry_before = retry_before
        work = work_folder(run, epoch.attempt, epoch.phase)
        recorded = work.child("recorded")
        self._blocks = [Blocks(recorded)]
        self.base: Base = recorded.read_json("segments.json")
        """What the recordings are from."""
        if own := counting(run.journal, self._segments(of_this_life=False)):
            later = work.child(f"recorded-{epoch.slot}-{epoch.life:04d}")
            drawn = read_columns(run.journal, own, QUESTION_KEY)
            keys = dict.fromkeys(key for table in drawn for key in keys_of(table))
            self.base |= _write_blocks_of(run.journal, later, own, list(keys))
            self._blocks.append(Blocks(later))

    def of(self, key: QuestionKey) -> Resumed | None:
        """The recording of (strategy, benchmark, question_id); None where there is none."""
        return self._recording([row for blocks in self._blocks for row in blocks.rows(key)])

    def again(self, key: QuestionKey) -> Resumed | None:
        """As `of`, with what this very life of the writer made durable meanwhile."""
        rows = [row for blocks in self._blocks for row in blocks.rows(key)]
        for _, table in sound(self._run.journal, self._segments(of_this_life=True), corrupt=[]):
            own = table.filter(pc.equal(table["question_id"], key[2]))
            rows += ByQuestion(own).get(key, ())
        return self._recording(rows)

    def _recording(self, rows: Sequence[Row]) -> Resumed | None:
        return Resumed(rows, retry_before=self._retry_before) if rows else None

    def _segments(self, *, of_this_life: bool) -> list[str]:
        """Of this writer in this phase of this attempt: of this life, or of those before."""
        mine, names = self._epoch, []
        for name in self._run.journal.names():
            place = segment_of(name)
            if place is None:
                continue
            epoch = Epoch.parse(place[0])
            if epoch.is_life_of(mine) and (epoch == mine) == of_this_life:
                names.append(name)
        return names
