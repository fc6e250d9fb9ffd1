"""The run directory: what a run was asked, what it drew, what came out.

=====================  ==============================================================
``config.json``        the resolved configuration of the first attempt
``attempts.json``      each attempt: number, runtime part, digest
``questions.parquet``  questions with priors and gold
``journal/``           segments of completions (`pipeline.journal`)
``statistics/``        what was learnt between phases, one JSON a phase
``work/``              the rows of each phase and attempt, and what was recorded for them before
``outcomes/``          one row a question and strategy (`pipeline.outcome`)
``metrics.jsonl``      counters over time, with units
``summary.json``       the result
=====================  ==============================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from pipeline.config.run import RunConfig
from pipeline.errors import ConfigError, DataError
from pipeline.outcome import SCHEMA as OUTCOME_SCHEMA
from pipeline.protocol import Statistics
from pipeline.storage import Folder, check_name
from pipeline.trajectory import Row


@dataclass(frozen=True, slots=True)
class RunDir:
    """A run directory that exists."""

    folder: Folder

    @property
    def address(self) -> str:
        """Path or address of the directory."""
        return self.folder.address

    @property
    def run_id(self) -> str:
        """The directory's own name; unique among the runs beside it."""
        return self.address.rstrip("/").rpartition("/")[2]

    @classmethod
    def create(cls, config: RunConfig, run_id: str) -> RunDir:
        """Make a new run directory; one that exists is never written over.

        Raises:
            ConfigError: where the directory already holds a run.
        """
        run = cls(Folder(config.runtime.runs).child(check_name(run_id, "a run's name")))
        if run.folder.has("config.json"):
            raise ConfigError(
                f"a new run needs a new directory, {run.address} holds a run: "
                f"continue it with --resume {run.address}"
            )
        run.folder.write_json("config.json", config.model_dump(mode="json"))
        run._log_attempt(1, config)
        return run

    @classmethod
    def open(cls, address: str) -> RunDir:
        """A run directory made before."""
        run = cls(Folder(address.rstrip("/")))
        if not run.folder.has("config.json"):
            raise ConfigError(f"a run directory must hold config.json, {address} does not")
        return run

    def resume(self, config: RunConfig) -> int:
        """Begin another attempt; returns its number.

        Raises:
            ConfigError: where the science part differs, naming each field.
        """
        before = self.config()
        if config.science_digest() != before.science_digest():
            fields = "\n  ".join(before.differing_science(config))
            raise ConfigError(
                f"a resume must keep the science part of the configuration, which differs in\n"
                f"  {fields}\nstart a new run, or leave these fields as they were"
            )
        have = {source.name: source for source in before.science.benchmarks}
        for source in config.science.benchmarks:
            if source.name in have and not _extends(have[source.name], source):
                raise ConfigError(
                    f"a resume may add benchmarks but not change {source.name}: "
                    f"{have[source.name]!r} -> {source!r}"
                )
        gone = have.keys() - {source.name for source in config.science.benchmarks}
        if gone:
            raise ConfigError(
                f"a resume must keep the benchmarks, without {', '.join(sorted(gone))}"
            )
        attempt = len(self.attempts()) + 1
        self._log_attempt(attempt, config)
        return attempt

    def config(self) -> RunConfig:
        """The configuration of the newest attempt."""
        return RunConfig.parse(self.attempts()[-1]["config"], self.address)

    def attempts(self) -> list[dict[str, Any]]:
        """One entry an attempt, oldest first."""
        attempts = self.folder.read_json("attempts.json")
        if not isinstance(attempts, list) or not attempts:
            raise DataError(f"{self.address}/attempts.json must list at least one attempt")
        return attempts

    @property
    def journal(self) -> Folder:
        """The folder of segments."""
        return self.folder.child("journal")

    def write_statistics(
        self, strategy: str, phase: str, by_benchmark: dict[str, Statistics]
    ) -> None:
        """Journal what a phase learnt; written once."""
        values = {name: asdict(statistics) for name, statistics in by_benchmark.items()}
        self.folder.write_json(f"statistics/{strategy}.{phase}.json", values)

    def statistics(self, strategy: str, phase: str) -> dict[str, Statistics] | None:
        """What a phase learnt, by benchmark; None where it has not been folded."""
        name = f"statistics/{strategy}.{phase}.json"
        if not self.folder.has(name):
            return None
        values = self.folder.read_json(name)
        return {benchmark: Statistics(**fields) for benchmark, fields in values.items()}

    def outcomes(self, phase: str | None = None) -> pa.Table:
        """All outcome rows, each (strategy, phase, benchmark, question_id) once: the first written.

        Args:
            phase: only those of one phase folder.
        """
        root = self.folder.child("outcomes")
        tables = [
            root.child(name).read_table(file)
            for name in root.folders()
            if phase is None or name == phase
            for file in root.child(name).names()
            if file.endswith(".parquet")
        ]
        return _first_of_each(
            pa.concat_tables(tables, promote_options="default") if tables else None
        )

    def write_metrics(self, rows: Iterable[Row]) -> None:
        """Write the counters over time, a JSON object a line."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        self.folder.write("metrics.jsonl", text.encode())

    def metrics(self) -> list[Row]:
        """The counters over time; [] where none were written yet."""
        if not self.folder.has("metrics.jsonl"):
            return []
        return [json.loads(line) for line in self.folder.read("metrics.jsonl").splitlines()]

    def _log_attempt(self, number: int, config: RunConfig) -> None:
        earlier = self.attempts() if number > 1 else []
        entry = {
            "attempt": number,
            "science_digest": config.science_digest(),
            "config": config.model_dump(mode="json"),
        }
        self.folder.write_json("attempts.json", [*earlier, entry])


def _extends(before: Any, after: Any) -> bool:
    """Whether `after` is `before`, or the same with a larger limit."""
    if before == after:
        return True
    same = before.model_copy(update={"limit": after.limit}) == after
    if not same or before.limit is None:
        return False
    return after.limit is None or after.limit >= before.limit


def _first_of_each(table: pa.Table | None) -> pa.Table:
    if table is None:
        return OUTCOME_SCHEMA.empty_table()
    seen: set[tuple[str, str, str, str]] = set()
    keep: list[int] = []
    columns = [table[n].to_pylist() for n in ("strategy", "phase", "benchmark", "question_id")]
    for index, key in enumerate(zip(*columns, strict=True)):
        if key not in seen:
            seen.add(key)
            keep.append(index)
    return table.take(keep)


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of a table as dictionaries."""
    rows: list[Row] = table.to_pylist()
    return rows
