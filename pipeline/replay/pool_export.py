"""Exports: a pool as one Parquet file of graded rows, apart from the run that drew it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from pipeline.core.errors import ConfigError
from pipeline.records.run_dir import RunDir
from pipeline.records.segments import read_segment
from pipeline.records.trajectory import SCHEMA, table_of
from pipeline.replay.pool_rows import POOL_TABLE
from pipeline.replay.pools import POOL_VERSION, Place, read_with_places
from pipeline.store.storage import Folder


def export_pool(run: RunDir, address: str) -> int:
    """Write the pool of a run to a new folder, graded, without redone work; returns its rows.

    The folder holds ``questions.parquet``, ``pool.parquet`` in the trajectory schema with texts,
    and ``pool.json``. It is read by `pipeline.replay.pools.read_pool`.

    Raises:
        ConfigError: where the folder holds a pool already, or the run none.
        DataError: as `read_pool`.
    """
    folder = Folder(address.rstrip("/"))
    if folder.has("pool.json"):
        raise ConfigError(f"a pool must be exported to a new folder, {address} holds one")
    pool, places = read_with_places(run.address)
    folder.write_table("questions.parquet", run.folder.read_table("questions.parquet"))
    written = folder.write_tables(POOL_TABLE, SCHEMA, _taken(run, places))
    folder.write_json(  # last: a folder without it is no pool
        "pool.json",
        {
            "version": POOL_VERSION,
            "run": run.run_id,
            "synthetic": pool.synthetic,
            "science": pool.science.model_dump(mode="json"),
        },
    )
    return written


def _taken(run: RunDir, places: Mapping[Place, str | None]) -> Iterator[pa.Table]:
    """The rows that the pool rests on, segment by segment, with their verdicts."""
    journal = run.journal
    for name in journal.names():
        where = f"{journal.address}/{name}"
        numbered = enumerate(read_segment(journal, name).to_pylist(), 1)
        yield table_of(
            {**row, "verdict": places[(where, number)]}
            for number, row in numbered
            if (where, number) in places
        )
