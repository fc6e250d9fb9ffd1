"""Recorded rows in blocks: what a question is given, and how much a reader holds."""

import pyarrow as pa
import pytest

from pipeline.core.errors import DataError
from pipeline.records.journal import QUESTION_KEY
from pipeline.records.question_blocks import Blocks, write_blocks
from pipeline.records.trajectory import SCHEMA, table_of
from pipeline.store.storage import Folder


def row(name, number, error=None):
    key = dict(zip(QUESTION_KEY, ("s", "b", name), strict=True))
    at = {"pool": "main", "chain": 0, "round": number % 3, "sample": 0, "request_digest": "d"}
    made = {"text": name * 1_000, "seconds": float(number), "error": error}
    return {**dict.fromkeys(SCHEMA.names), "run": "r", "attempt": 1, "seed": 0, **key, **at, **made}


NAMES = [f"q{number}" for number in range(40)]


def test_a_segment_may_hold_more_text_than_one_array(tmp_path):
    """2 GiB is the most that one array of Arrow's holds; here many parts of a segment are one."""
    long = table_of([row("q0", 0), {**row("q1", 1), "text": "x" * 2**25}])
    write_blocks(Folder(str(tmp_path)), [pa.concat_tables([long] * 72)], [("s", "b", "q0")])

    assert len(Blocks(Folder(str(tmp_path))).rows(("s", "b", "q0"))) == 72


def test_a_changed_block_is_refused_by_its_place(tmp_path):
    """It is never taken for what was recorded; other blocks are read."""
    keys = [("s", "b", name) for name in NAMES]
    write_blocks(Folder(str(tmp_path)), [table_of(row(name, 0) for name in NAMES)], keys)
    path = tmp_path / "part-00000"
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    blocks = Blocks(Folder(str(tmp_path)))

    with pytest.raises(DataError, match=r"checksum must be .* bytes at 0 of .*part-00000"):
        blocks.rows(keys[0])
    assert [r["question_id"] for r in blocks.rows(keys[-1])] == [NAMES[-1]]
