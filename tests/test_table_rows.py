"""Rows of a table as Python objects: the same in any order, however many are held."""

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from pipeline.records import table_rows
from pipeline.records.table_rows import RowsTable, RowViews, TableRows
from tests.generators import ALPHABET

SCHEMA = pa.schema([("name", pa.string()), ("scores", pa.list_(pa.float64()))])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.none() | st.text(ALPHABET, max_size=3),
            "scores": st.none() | st.lists(st.none() | st.floats(0, 1), max_size=3),
        }
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, held=st.sampled_from([1, 3, 1_000]), data=st.data())
def test_rows_are_those_of_the_whole_table(rows, held, data):
    """A table made row by row, its dictionaries and its views hold what went in, read in any
    order; views can be kept and have every column."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table_rows, "_ROWS_AT_ONCE", held)
        patched.setattr(table_rows, "_ROWS_OF_VIEWS", held)
        made = RowsTable(SCHEMA)
        for row in rows:
            made.add(row)
        table = made.table()
        views, dictionaries = RowViews(table), TableRows(table)
        kept = list(views)
        order = data.draw(st.permutations(range(len(rows))))

        assert table.equals(pa.Table.from_pylist(rows, schema=SCHEMA).combine_chunks())
        assert list(dictionaries) == rows
        assert [dictionaries[at] for at in order] == [rows[at] for at in order]
        assert [{**kept[at]} for at in order] == [rows[at] for at in order]
        assert [view["name"] for view in views[1:]] == [row["name"] for row in rows[1:]]
        assert list(dictionaries[::-2]) == rows[::-2]
        for outside in (len(rows), -len(rows) - 1):
            with pytest.raises(IndexError):
                views[outside]
