"""Recorded rows in blocks: what a question is given, and how much a reader holds."""

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from pipeline.core.errors import DataError
from pipeline.records import question_blocks
from pipeline.records.journal import QUESTION_KEY, ByQuestion, without_retried
from pipeline.records.question_blocks import Blocks, write_blocks
from pipeline.records.trajectory import SCHEMA, table_of
from pipeline.store.storage import Folder


def row(name, number, error=None):
    key = dict(zip(QUESTION_KEY, ("s", "b", name), strict=True))
    at = {"pool": "main", "chain": 0, "round": number % 3, "sample": 0, "request_digest": "d"}
    made = {"text": name * 1_000, "seconds": float(number), "error": error}
    return {**dict.fromkeys(SCHEMA.names), "run": "r", "attempt": 1, "seed": 0, **key, **at, **made}


NAMES = [f"q{number}" for number in range(40)]
ROWS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from([None, None, "e: x"])), max_size=60
)


@settings(max_examples=20, deadline=None)
@given(
    segments=st.lists(ROWS, max_size=6),
    wanted=st.permutations(NAMES).flatmap(
        lambda names: st.integers(0, 40).map(lambda n: names[:n])
    ),
    part=st.sampled_from([1, 20_000, 2**26]),
    held=st.sampled_from([1, 100_000, 2**26]),
)
def test_a_question_has_the_rows_that_the_whole_journal_has_of_it(
    tmp_path_factory, segments, wanted, part, held
):
    """In the same order, less the failures that were tried again; nothing of questions that are not
    wanted. A reader holds no more than it may, or one block."""
    numbers = iter(range(10_000))
    tables = [table_of(row(n, next(numbers), e) for n, e in rows) for rows in segments]
    whole, _ = without_retried(pa.concat_tables([SCHEMA.empty_table(), *tables]))
    expected = ByQuestion(whole)
    folder = Folder(str(tmp_path_factory.mktemp("blocks")))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(question_blocks, "_PART_BYTES", part)
        patched.setattr(question_blocks, "_HELD_BYTES", held)
        write_blocks(folder, tables, [("s", "b", name) for name in wanted])
        blocks = Blocks(folder)
        for name in [*wanted, *NAMES]:
            key = ("s", "b", name)
            assert blocks.rows(key) == (expected.get(key, []) if name in wanted else [])
            kept = [size for _, size in blocks._held.values()]
            assert len(kept) <= 1 or sum(kept) <= held


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
