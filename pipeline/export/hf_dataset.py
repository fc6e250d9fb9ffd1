"""A run as a data set: Parquet files and a card, as ``datasets.load_dataset(FOLDER)`` reads them.

Configurations: ``outcomes`` (a row a question and strategy), ``completions`` (a row a completion),
``questions``. Verdicts in ``outcomes`` are as summary.json counts them.
"""

from __future__ import annotations

from pipeline.export.hf_card import card_of
from pipeline.export.samples import samples
from pipeline.export.source import Source
from pipeline.export.tables import (
    COMPLETION_ROWS,
    RowGroups,
    completion_rows,
    outcome_row,
    outcome_rows_schema,
)
from pipeline.store.storage import Folder
from pipeline.store.streams import tables


def write_hf_dataset(source: Source, folder: Folder) -> None:
    """Write the files and the card; a row group is in memory at a time."""
    data, schema = folder.child("data"), outcome_rows_schema(source.rules)
    with (
        tables(data, "outcomes.parquet", schema) as outcomes,
        tables(data, "completions.parquet", COMPLETION_ROWS) as completions,
    ):
        stopped = RowGroups(outcomes.add, schema)
        drawn = RowGroups(completions.add, COMPLETION_ROWS)
        for cell, found in samples(source):
            for sample in found:
                stopped.add(outcome_row(cell, sample))
                for row in completion_rows(sample):
                    drawn.add(row)
        stopped.flush()
        drawn.flush()
    data.write_table("questions.parquet", source.questions)
    folder.write("README.md", card_of(source, outcomes.rows, completions.rows).encode())
