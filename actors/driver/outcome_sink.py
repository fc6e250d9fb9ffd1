"""*OutcomeSink*: writes outcomes for Ray Data, in whole files with a checksum, with retries."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import ray
from ray.data import Datasink

from actors.cluster.run_monitor import NAMESPACE, monitor_name
from actors.cluster.storage_retry import with_retries
from pipeline.records.outcome import write_outcomes
from pipeline.records.run_dir import RunDir
from pipeline.store.storage import fresh_token


class OutcomeSink(Datasink[None]):  # type: ignore[misc]  # Ray Data is untyped
    """Writes the outcomes of one phase.

    Args:
        address: the run directory.
        name: of the folder of the phase.
        rows_a_file: rows that a file should have at least.
        schema: of the rows (`pipeline.records.outcome.schema_of`).
    """

    def __init__(self, address: str, name: str, rows_a_file: int, schema: pa.Schema) -> None:
        self._address, self._name, self._rows_a_file = address, name, rows_a_file
        self._schema = schema

    @property
    def min_rows_per_write(self) -> int:
        """Rows that a file should have at least."""
        return self._rows_a_file

    def write(self, blocks: Iterable[Any], ctx: Any) -> None:
        """Write blocks as one file, in a task of Ray's."""
        # whatever types the nulls of a block left open
        rows = [row for block in blocks for row in pa.table(block).to_pylist()]
        if not rows:
            return
        table = pa.Table.from_pylist(rows, schema=self._schema)
        writer = f"{ctx.task_idx:06d}-{fresh_token()}"
        run = RunDir.known(self._address)
        folder = run.folder.child("outcomes", self._name)

        def tell(trouble: str | None) -> None:
            if not ray.is_initialized():
                return
            with contextlib.suppress(ValueError, ray.exceptions.RayError):  # it is for show
                watch = ray.get_actor(monitor_name(run.run_id), namespace=NAMESPACE)
                ray.get(watch.trouble.remote(writer, trouble), timeout=5.0)

        with_retries(lambda: write_outcomes(folder, writer, table), "write outcomes", tell=tell)
