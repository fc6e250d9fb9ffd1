"""*Record*: records what an endpoint drew and decided, in a run directory for each model.

They are run directories as ``jobs.evaluate`` writes them, so ``jobs.replay`` takes every decision
again. Each has its own strategy alone, since a request is asked of one model and not of all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa

from actors.cluster.background import with_retries
from actors.controllers.journal_writer import JournalError, JournalWriter
from actors.serving.served_models import BENCHMARK, ServedModel
from pipeline.benchmarks import BenchmarkSource
from pipeline.config.run import RunConfig
from pipeline.config.strategies import rules_of
from pipeline.core.errors import ConfigError
from pipeline.records.journal import counting
from pipeline.records.outcome import schema_of, write_outcomes
from pipeline.records.questions import (
    QUESTIONS_FILE,
    QUESTIONS_FOLDER,
    REQUESTS,
    read_questions,
)
from pipeline.records.run_dir import RunDir
from pipeline.records.segments import Epoch, listed
from pipeline.records.trajectory import Row

logger = logging.getLogger(__name__)


def begin_record(folder: str, config: RunConfig, models: Mapping[str, ServedModel]) -> None:
    """Make a run directory for each model below `folder`, or another attempt in one that is there.

    Raises:
        ConfigError, DataError: where one cannot be read or written, or is of another configuration.
    """
    for model in models.values():
        own = _config_of(config, model, folder)
        place = RunDir.known(f"{folder.rstrip('/')}/{model.label}")
        if place.folder.has("config.json"):
            read_questions(place.folder)  # requests cannot be asked for again
            RunDir.open(place.address).resume(own)
        else:
            run = RunDir.create(own, model.label)
            run.folder.write_table(QUESTIONS_FILE, REQUESTS.empty_table())


class Record:
    """The records of all models, on one event loop.

    Args:
        folder: where `begin_record` has made their run directories.
        labels: of the models.
        life: of the endpoint's process, 1 for its first.
        flush_s: how often what has gathered is written.
    """

    def __init__(self, folder: str, labels: list[str], life: int, flush_s: float) -> None:
        place = folder.rstrip("/")
        self._runs = {label: _RecordedRun(f"{place}/{label}", life, flush_s) for label in labels}

    @property
    def failure(self) -> str | None:
        """Why something cannot be written any more; None while all is well."""
        failures = (kept.failure for kept in self._runs.values() if kept.failure)
        return next(failures, None)

    def append(self, row: Row) -> None:
        """Take a round."""
        self._runs[row["strategy"]].append(row)

    async def ended(self, question: Row, outcome: Row) -> None:
        """Take a question that stopped, with its outcome; returns once its rounds are durable."""
        await self._runs[outcome["strategy"]].ended(question, outcome)

    async def close(self) -> None:
        """Write all that is left."""
        await asyncio.gather(*(kept.close() for kept in self._runs.values()))


class _RecordedRun:
    """One run directory."""

    def __init__(self, address: str, life: int, flush_s: float) -> None:
        self._run = RunDir.open(address)
        newest = self._run.newest()
        self._attempt, self._token, self._flush_s = newest.number, newest.token, flush_s
        self._schema = schema_of(rules_of(newest.config.science))
        base = listed(counting(self._run.journal))
        self._journal = JournalWriter(
            self._run.journal,
            flush_s=flush_s,
            epoch=Epoch(newest.number, newest.token, 0, "endpoint", life),
            base=base,
            run=self._run.run_id,
        )
        self._writer = f"endpoint-{life:04d}"
        self._questions: list[Row] = []
        self._outcomes: list[Row] = []
        self._flushing: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._files = 0
        self._lost: str | None = None

    @property
    def failure(self) -> str | None:
        broken = self._journal.failure
        return self._lost or (None if broken is None else str(broken))

    def append(self, row: Row) -> None:
        self._journal.append({**row, "run": self._run.run_id, "attempt": self._attempt})

    async def ended(self, question: Row, outcome: Row) -> None:
        try:
            await self._journal.durable()
        except JournalError:
            return  # `failure` tells
        epoch, sequence = self._journal.reached
        own = {"run": self._run.run_id, "attempt": self._attempt}
        self._outcomes.append({**outcome, **own, "epoch": epoch, "sequence": sequence})
        self._questions.append(question)
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush_later())

    async def close(self) -> None:
        with suppress(JournalError):
            await self._journal.close()
        self._closing.set()
        if self._flushing is not None:
            await self._flushing

    async def _flush_later(self) -> None:
        while self._outcomes and self._lost is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), self._flush_s)
            await self._flush()

    async def _flush(self) -> None:
        """Outcomes first: a question that stands in a file has its outcome."""
        outcomes, self._outcomes = self._outcomes, []
        questions, self._questions = self._questions, []
        self._files += 1
        try:
            await asyncio.to_thread(self._write, outcomes, questions, self._files)
        except Exception as error:  # whatever it is, nobody awaits this task: `failure` tells
            self._lost = f"{len(outcomes)} outcomes of {self._run.address}: {error}"
            logger.error("not recorded: %s", self._lost)

    def _write(self, outcomes: list[Row], questions: list[Row], number: int) -> None:
        newest = with_retries(self._run.newest, "read the attempts")
        if newest.token != self._token:  # it would write over our questions, and we over its
            raise ConfigError("another endpoint has taken the record over")
        folder = self._run.folder.child("outcomes", f"attempt-{self._attempt}-phase-0")
        table = pa.Table.from_pylist(outcomes, schema=self._schema)
        asked = pa.Table.from_pylist(questions, schema=REQUESTS)
        later = self._run.folder.child(QUESTIONS_FOLDER)
        writer = f"{self._writer}-{number:06d}"
        with_retries(lambda: write_outcomes(folder, writer, table), "write outcomes")
        with_retries(lambda: later.write_table(f"{writer}.parquet", asked), "write questions")


def _config_of(config: RunConfig, model: ServedModel, folder: str) -> RunConfig:
    """The configuration of one model's record: its strategy alone, requests as its questions."""
    entries = [e for e in config.science.strategies if e.label == model.label]
    source = BenchmarkSource(name=BENCHMARK, path="requests")
    science = config.science.model_copy(
        update={"strategies": tuple(entries), "benchmarks": (source,)}
    )
    runtime = config.runtime.model_copy(update={"runs": folder})
    return config.model_copy(update={"science": science, "runtime": runtime})
