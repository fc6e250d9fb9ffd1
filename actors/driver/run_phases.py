"""*RunPhases*, *PhaseFlow*: the work left in each phase of a run, and the pipeline that runs one.

read_parquet -> small blocks -> controllers (async actor pool) -> `OutcomeSink`. There is no barrier
inside it: a question is admitted as soon as a chain ends. The write runs in a thread of the driver
so that the driver can watch it, log, and drain it. `OutcomeSink` writes whole files with a checksum
and tries again where storage fails, as all calls of storage are (`actors.cluster.background`).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import ray
from ray.data import Datasink

from actors.cluster.background import with_retries
from actors.cluster.ray_data import data_context
from actors.controllers.controller import Controller
from actors.routing.transport import EnginesAddress
from pipeline.config.run import RunConfig
from pipeline.config.runtime import ControllerConfig
from pipeline.config.strategies import rules_of, strategies_of
from pipeline.core.protocol import PhaseStats
from pipeline.planning.phase_work import (
    MEANS_OF,
    PREPARED,
    ByBenchmark,
    folded_statistics,
    phase_count,
    phase_work,
    prepared_statistics,
    running_means,
    taking_part,
)
from pipeline.planning.phase_work import SCHEMA as WORK_SCHEMA
from pipeline.records.journal import QuestionKey, counting, read_columns
from pipeline.records.outcome import schema_of, write_outcomes
from pipeline.records.question_blocks import drawn_blocks, work_folder, write_recorded
from pipeline.records.questions import read_questions
from pipeline.records.run_dir import AttemptEntry, RunDir
from pipeline.records.table_rows import TableRows
from pipeline.records.trajectory import Row
from pipeline.store.storage import fresh_token, resolve

logger = logging.getLogger(__name__)


class RunPhases:
    """The phases of a run, for one attempt.

    Args:
        run: its directory, with questions.parquet written.
        config: configuration of the attempt.
        entry: the attempt.
    """

    def __init__(self, run: RunDir, config: RunConfig, entry: AttemptEntry) -> None:
        self._run, self._entry = run, entry
        self._strategies = strategies_of(config.science)
        self._table = with_retries(lambda: read_questions(run.folder), "read the questions")
        self._questions = TableRows(self._table)

    @property
    def count(self) -> int:
        """How many phases there are."""
        return phase_count(self._strategies)

    def prepare(self) -> None:
        """Set torn segments aside, and learn what no phase has to be run for."""
        for gone in with_retries(self._run.set_aside, "read journal and outcomes"):
            logger.warning("%s set aside: %s", gone.name, gone.why)
        known = self._statistics()
        for label, strategy in self._strategies.items():
            had = known.get((label, PREPARED), {})
            learnt = prepared_statistics(strategy, self._questions_without(had))
            if learnt:
                self._write_statistics(label, PREPARED, {**had, **learnt})

    def pending(self) -> bool:
        """Whether anything is left. Phase by phase: who takes part in one is known once those
        before it are done and folded."""
        done = self._done()
        for phase in range(self.count):
            known = self._statistics()
            if phase_work(self._strategies, phase, self._questions, known, done):
                return True
            if self._unfolded(phase, known):
                return True
        return False

    def work(self, phase: int) -> list[Row]:
        """The chains of a phase that are left, in the order in which they should start; what is
        recorded of them is written for the controllers."""
        names, means = with_retries(self._recorded, "read the journal")
        work = phase_work(
            self._strategies,
            phase,
            self._questions,
            self._statistics(),
            self._done(),
            means,
        )
        if work:
            wanted = [(r["strategy"], r["benchmark"], r["question_id"]) for r in work]
            with_retries(
                lambda: write_recorded(self._run, self._entry.number, phase, names, wanted),
                "write what is recorded",
            )
        return work

    def fold(self, phase: int) -> None:
        """Learn from a finished phase, once."""
        known = self._statistics()
        for label in self._unfolded(phase, known):
            phases = self._strategies[label].phases()
            before = known.get((label, phases[phase - 1].name if phase else PREPARED), {})
            had = known.get((label, phases[phase].name), {})  # a benchmark may be new
            learnt = self._learnt(label, phase, before, self._questions_without(had))
            self._write_statistics(label, phases[phase].name, {**had, **learnt})

    def _learnt(
        self, label: str, phase: int, before: ByBenchmark, questions: Sequence[Row]
    ) -> dict[str, PhaseStats | None]:
        strategy = self._strategies[label]
        selected = taking_part(label, strategy.phases()[phase], questions, before)
        place = (self._run, self._entry.number, phase, label)
        drawn = with_retries(lambda: drawn_blocks(*place, selected), "read the journal")

        def rows(key: QuestionKey) -> Sequence[Row]:
            return with_retries(lambda: drawn.rows(key), "read what was drawn")

        learnt = folded_statistics(label, strategy, phase, questions, rows, before)
        with_retries(drawn.delete, "delete what was read")
        return learnt

    def _recorded(self) -> tuple[list[str], Mapping[str, float]]:
        """The segments that count, and the mean tokens of a completion by benchmark."""
        names = counting(self._run.journal)
        return names, running_means(read_columns(self._run.journal, names, MEANS_OF))

    def _unfolded(self, phase: int, known: Mapping[tuple[str, str], ByBenchmark]) -> list[str]:
        """Labels of strategies whose finished phase has not been folded yet, for any benchmark."""
        labels = []
        for label, strategy in self._strategies.items():
            phases = strategy.phases()
            if phase + 1 < len(phases):
                had = known.get((label, phases[phase].name), {})
                if len(self._questions_without(had)):
                    labels.append(label)
        return labels

    def _questions_without(self, known: ByBenchmark) -> TableRows:
        """The questions of all benchmarks but some."""
        names = pa.array(list(known), pa.string())
        return TableRows(self._table.filter(pc.invert(pc.is_in(self._table["benchmark"], names))))

    def _write_statistics(self, label: str, phase: str, learnt: ByBenchmark) -> None:
        with_retries(
            lambda: self._run.write_statistics(label, phase, learnt, attempt=self._entry.number),
            "write statistics",
        )

    def _statistics(self) -> dict[tuple[str, str], dict[str, PhaseStats | None]]:
        names = [
            (label, name)
            for label, strategy in self._strategies.items()
            for name in (PREPARED, *(phase.name for phase in strategy.phases()))
        ]
        read = with_retries(
            lambda: {key: self._run.statistics(*key) for key in names}, "read statistics"
        )
        return {key: value for key, value in read.items() if value is not None}

    def _done(self) -> set[tuple[str, str, str, str]]:
        key = ("strategy", "phase", "benchmark", "question_id")
        table = with_retries(
            lambda: self._run.outcomes(columns=(*key, "error", "attempt")), "read outcomes"
        )
        before = pc.less(table["attempt"], self._entry.retry_before or 0)
        table = table.filter(pc.invert(pc.and_(pc.is_valid(table["error"]), before)))
        return set(zip(*(_values(table[name]) for name in key), strict=True))


def _values(column: pa.ChunkedArray) -> list[str]:
    """The values of a column; equal ones are one object."""
    coded = column.combine_chunks().dictionary_encode()
    values = coded.dictionary.to_pylist()
    return [values[code] for code in coded.indices.to_pylist()]


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
        folder = RunDir.known(self._address).folder.child("outcomes", self._name)
        with_retries(lambda: write_outcomes(folder, writer, table), "write outcomes")


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
        write = partial(_write_outcomes, source, plan, controllers, len(rows), schema)
        self._thread = threading.Thread(target=self._write, args=(write,), daemon=True)
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

    def _write(self, write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException as error:  # `result` raises it in the driver's thread
            self._error = error


def _write_outcomes(
    source: str,
    plan: tuple[str, int, int, str, EnginesAddress],
    controllers: ControllerConfig,
    rows: int,
    schema: pa.Schema,
) -> None:
    context = data_context()
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
