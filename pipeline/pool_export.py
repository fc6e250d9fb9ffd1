"""Exports: a pool as one Parquet file of graded rows, apart from the run that drew it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import ConfigError
from pipeline.journal import read_segment
from pipeline.pool_rows import POOL_TABLE
from pipeline.pools import POOL_VERSION, pool_strategies, read_pool
from pipeline.protocol import Completion, Pool
from pipeline.run_dir import RunDir
from pipeline.storage import Folder, resolve
from pipeline.trajectory import SCHEMA, Row, address_of, table_of

Key = tuple[str, str, str, tuple[str, int, int, int]]
"""(strategy, benchmark, question_id, address)."""


def export_pool(run: RunDir, address: str) -> int:
    """Write the pool of a run to a new folder, graded, without redone work; returns its rows.

    The folder holds ``questions.parquet``, ``pool.parquet`` in the trajectory schema with texts,
    and ``pool.json``. It is read by `pipeline.pools.read_pool`.

    Raises:
        ConfigError: where the folder holds a pool already, or the run none.
        DataError: as `read_pool`.
    """
    folder = Folder(address.rstrip("/"))
    if folder.has("pool.json"):
        raise ConfigError(f"a pool must be exported to a new folder, {address} holds one")
    pool = read_pool(run.address)
    labels = {kind: label for kind, (label, _) in pool_strategies(pool.science).items()}
    wanted: dict[Key, tuple[str, bool, str | None]] = {}
    for question in pool.questions:
        for kind, entries, verdicts in (
            (Pool.SEQUENTIAL, question.rounds, question.round_verdicts),
            (Pool.PARALLEL, question.samples, question.sample_verdicts),
        ):
            for entry, verdict in zip(entries, verdicts, strict=True):
                seen = entry.observation
                scored = isinstance(seen, Completion) and seen.score is not None
                wanted[(labels[kind], *question.key, entry.address)] = (
                    entry.digest,
                    scored,
                    verdict,
                )
    folder.write_table("questions.parquet", run.folder.read_table("questions.parquet"))
    written = _write(folder, _taken(run, wanted))
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


def _taken(run: RunDir, wanted: dict[Key, tuple[str, bool, str | None]]) -> Iterator[pa.Table]:
    """The rows that the pool rests on, segment by segment, with their verdicts."""
    for name in run.journal.names():
        kept: list[Row] = []
        for row in read_segment(run.journal, name).to_pylist():
            key = (row["strategy"], row["benchmark"], row["question_id"], address_of(row))
            digest, scored, verdict = wanted.get(key, ("", False, None))
            if row["request_digest"] != digest or (scored and row["score"] is None):
                continue
            del wanted[key]
            kept.append({**row, "verdict": verdict})
        yield table_of(kept)


def _write(folder: Folder, tables: Iterator[pa.Table]) -> int:
    """One Parquet file, a row group a segment, so that no more than one is in memory."""
    fs, base = resolve(folder.address)
    fs.create_dir(base, recursive=True)
    written = 0
    with (
        fs.open_output_stream(posixpath.join(base, POOL_TABLE)) as stream,
        pq.ParquetWriter(stream, SCHEMA, compression="zstd") as writer,
    ):
        for table in tables:
            writer.write_table(table)
            written += table.num_rows
    return written
