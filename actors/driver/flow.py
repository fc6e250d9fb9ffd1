"""*PhaseFlow*: runs one phase as a Ray Data pipeline, from questions to outcome rows.

read_parquet -> small blocks -> controllers (async actor pool) -> `OutcomeSink`. There is no barrier
inside it: a question is admitted as soon as a chain ends. The write runs in a thread of the driver
so that the driver can watch it, log, and drain it. `OutcomeSink` writes whole files with a checksum
and tries again where storage fails.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterable
from math import ceil
from typing import Any

import pyarrow as pa
import ray
from ray.data import Datasink

from actors.cluster.background import with_retries
from actors.cluster.ray_data import data_context
from actors.cluster.run_monitor import NAMESPACE, monitor_name
from actors.controllers.controller import Controller
from actors.routing.transport import EnginesAddress
from pipeline.config.runtime import ControllerConfig
from pipeline.config.strategies import rules_of
from pipeline.planning.phase_work import SCHEMA as WORK_SCHEMA
from pipeline.records.outcome import schema_of, write_outcomes
from pipeline.records.question_blocks import work_folder
from pipeline.records.run_dir import AttemptEntry, RunDir
from pipeline.records.trajectory import Row
from pipeline.store.storage import fresh_token, resolve


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


_TRIED_AGAIN = (r"\[Errno \d+\]", "AWS Error", "google::cloud")
"""Errors of storage after which Ray Data reads again, ten times in about two minutes."""


_FILES = 50
"""Files of outcomes that a phase writes at most, or nearly: with one a block, a million questions
would be 125,000, and a resume would take half an hour to read them from an object store. Outcomes
that wait for their file are made again from the journal, should the driver die."""

_BLOCKS_A_TURN = 64
"""Blocks that Ray Data lets lie ready before it takes them, ten times a second while all its tasks
are busy. With its own 2 no more than some 80 questions a second reach the controllers, however many
engines wait for them. It has no public setting for this."""


class PhaseFlow:
    """The running pipeline of one phase.

    Args:
        run: the run directory.
        attempt: the attempt.
        phase: number of the phase.
        rows: work rows, in the order in which they should start.
        engines: where the engine pools are.
        controllers: size of the controller pool.
    """

    def __init__(
        self,
        run: RunDir,
        attempt: AttemptEntry,
        phase: int,
        rows: list[Row],
        engines: EnginesAddress,
        controllers: ControllerConfig,
    ) -> None:
        self._error: BaseException | None = None
        folder = work_folder(run, attempt.number, phase)
        table = pa.Table.from_pylist(rows, schema=WORK_SCHEMA)
        with_retries(lambda: folder.write_table("questions.parquet", table), "write the work list")
        source = folder.child("questions.parquet").address
        outcomes = run.folder.child("outcomes", f"attempt-{attempt.number}-phase-{phase}")
        with_retries(outcomes.make, "make the folder of outcomes")
        plan = (run.address, attempt.number, phase, attempt.token, engines)
        schema = schema_of(rules_of(attempt.config.science))
        self._thread = threading.Thread(
            target=self._write,
            args=(source, plan, controllers, len(rows), schema),
            daemon=True,
        )
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether outcomes may still come."""
        return self._thread.is_alive()

    def ending(self) -> None:
        """It is to end: what Ray Data says of that, with tracebacks, is no news from now on."""
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # until `data_context` is asked

    def result(self) -> None:
        """Wait for the end; raises what Ray Data raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def wait(self, seconds: float) -> None:
        """Wait for the end, but not longer than `seconds`."""
        self._thread.join(seconds)

    def _write(
        self,
        source: str,
        plan: tuple[str, int, int, str, EnginesAddress],
        controllers: ControllerConfig,
        rows: int,
        schema: pa.Schema,
    ) -> None:
        try:
            _write_outcomes(source, plan, controllers, rows, schema)
        except BaseException as error:  # handed to the driver's thread by `result`
            self._error = error


def _write_outcomes(
    source: str,
    plan: tuple[str, int, int, str, EnginesAddress],
    controllers: ControllerConfig,
    rows: int,
    schema: pa.Schema,
) -> None:
    import ray

    context = data_context()
    from actors.driver.flow import OutcomeSink

    context.execution_no_progress_timeout_s = -1  # a long chain is no stall; the watchdog is ours
    context._max_num_blocks_in_streaming_gen_buffer = _BLOCKS_A_TURN
    context.memory_usage_poll_interval_s = None  # else one polling thread a task
    context.max_consecutive_actor_init_deaths = 3
    _keep_off_gpu_nodes(context.execution_options, controllers)
    context.retried_io_errors = [*context.retried_io_errors, *_TRIED_AGAIN]
    # else Ray Data starts 32 actors to read the footer of one file, each a process and a CPU: half
    # a minute on a small machine, and GPU nodes on an elastic cluster. It reads this when it plans
    os.environ.setdefault("RAY_DATA_PARQUET_FOOTER_NUM_ACTORS", "1")
    read_fs, read_path = resolve(source)
    blocks = max(1, ceil(rows / controllers.rows_per_block))
    wanted = controllers.calls(plan[-1].most)
    calls = min(wanted, max(1, ceil(blocks / controllers.actors)))
    pool = ray.data.ActorPoolStrategy(
        size=controllers.actors,
        max_concurrent_calls_per_actor=calls,
        max_tasks_in_flight_per_actor=calls,
    )
    questions = ray.data.read_parquet(read_path, filesystem=read_fs)
    outcomes = questions.repartition(target_num_rows_per_block=controllers.rows_per_block).flat_map(
        Controller,
        fn_constructor_args=plan,
        compute=pool,
        num_cpus=controllers.num_cpus,
    )
    address, attempt, phase, *_ = plan
    outcomes.write_datasink(
        OutcomeSink(address, f"attempt-{attempt}-phase-{phase}", ceil(rows / _FILES), schema)
    )


def _keep_off_gpu_nodes(options: Any, controllers: ControllerConfig) -> None:
    """Where Ray Data may run, and how much it may ask the cluster's autoscaler for.

    Without limits it asks for ever more CPUs while it is busy, and on an elastic cluster those come
    with GPUs.
    """
    options.label_selector = dict(controllers.label_selector) or None
    reading_and_writing = 3
    options.resource_limits = options.resource_limits.copy(
        cpu=controllers.actors * controllers.num_cpus + reading_and_writing
    )
