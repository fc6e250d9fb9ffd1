"""Recorded rows laid out in the order in which their questions are needed.

In a journal the rows of a question lie in many segments, among those of thousands of others. Here
those of some questions that follow each other in the work list lie together, as a block, so that a
reader holds few blocks at a time however much is recorded. A part is a file of blocks, written from
as many rows as fit into memory; a block can be in several parts, in the order of the rows.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from pipeline.core.errors import DataError
from pipeline.records.journal import QUESTION_KEY, ByQuestion, QuestionKey, without_retried
from pipeline.records.trajectory import SCHEMA, Row
from pipeline.store.storage import Folder, checksum

_QUESTIONS = 16  # of a block, as many as controllers are handed at once
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
    """Lay rows out.

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
    """

    def __init__(self, folder: Folder) -> None:
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
