"""The run directory: configuration, attempts, questions, journal, outcomes, statistics.

=====================  ==============================================================
``config.json``        the resolved configuration of the first attempt
``attempts.json``      each attempt: number, token, configuration, digest
``questions.parquet``  questions with priors and gold
``journal/``           segments of completions (`pipeline.records.journal`)
``statistics/``        what was learnt between phases, one JSON a phase
``work/``              the rows of each phase and attempt, and what was recorded for them before
``outcomes/``          one row a question and strategy (`pipeline.records.outcome`)
``metrics.jsonl``      counters over time, with units
``summary.json``       the result
=====================  ==============================================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.run import RunConfig
from pipeline.config.strategies import POOL_OF, strategies_of
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.protocol import Statistics, StopReason
from pipeline.records.journal import fences_of
from pipeline.records.outcome import SCHEMA as OUTCOME_SCHEMA
from pipeline.records.trajectory import Row
from pipeline.store.storage import Folder, check_name, fresh_token


@dataclass(frozen=True, slots=True)
class AttemptEntry:
    """What is written down of an attempt before it begins."""

    number: int
    token: str
    """Tells apart two attempts that took the same number at once."""
    retry_before: int | None
    """Questions that failed in attempts before this one are taken up again."""
    config: RunConfig


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
        run._log_attempt(1, config, retry_failed=False)
        run.folder.write_json("config.json", config.model_dump(mode="json"))  # the last: it opens
        return run

    @classmethod
    def open(cls, address: str) -> RunDir:
        """A run directory made before."""
        run = cls(Folder(address.rstrip("/")))
        if not run.folder.has("config.json"):
            if run.folder.has("pool.json"):
                raise ConfigError(
                    f"a run directory is asked for, {address} is an exported pool: jobs.paper, "
                    f"jobs.sweep, jobs.train and jobs.features read those"
                )
            raise ConfigError(f"a run directory must hold config.json, {address} does not")
        return run

    def resume(self, config: RunConfig, *, retry_failed: bool = False) -> int:
        """Begin another attempt; returns its number.

        Args:
            config: its science part must be that of the run.
            retry_failed: whether questions that failed are taken up again.

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
        _check_depth(before, config)
        gone = have.keys() - {source.name for source in config.science.benchmarks}
        if gone:
            raise ConfigError(
                f"a resume must keep the benchmarks, without {', '.join(sorted(gone))}"
            )
        attempt = len(self.attempts()) + 1
        self._log_attempt(attempt, config, retry_failed=retry_failed)
        return attempt

    def config(self) -> RunConfig:
        """The configuration of the newest attempt."""
        return RunConfig.parse(self.attempts()[-1]["config"], self.address)

    def attempt(self, number: int) -> AttemptEntry:
        """What was written down of one attempt."""
        entries = self.attempts()[:number]
        entry = entries[-1]
        retries = [e["attempt"] for e in entries if e["retry_failed"]]
        return AttemptEntry(
            number=number,
            token=entry["token"],
            retry_before=retries[-1] if retries else None,
            config=RunConfig.parse(entry["config"], self.address),
        )

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
        self, strategy: str, phase: str, by_benchmark: dict[str, Statistics], *, attempt: int = 1
    ) -> None:
        """Journal what a phase learnt; written once an attempt at most."""
        values = {name: asdict(statistics) for name, statistics in by_benchmark.items()}
        self.folder.write_json(f"statistics/{strategy}.{phase}.{attempt:04d}.json", values)

    def statistics(self, strategy: str, phase: str) -> dict[str, Statistics] | None:
        """What a phase learnt, by benchmark; None where it has not been folded.

        That of the newest attempt counts: the driver of an older one may still be writing.
        """
        form = re.compile(re.escape(f"{strategy}.{phase}.") + r"\d{4}\.json")
        names = [n for n in self.folder.child("statistics").names() if form.fullmatch(n)]
        if not names:
            return None
        values = self.folder.read_json(f"statistics/{names[-1]}")
        return {benchmark: Statistics(**fields) for benchmark, fields in values.items()}

    def outcomes(self, phase: str | None = None) -> pa.Table:
        """All outcome rows that stand, each (strategy, phase, benchmark, question_id) once.

        Of several that of the newest attempt counts, then the one that draws most. An outcome of a
        pool that was made deeper since does not stand: its question has more to draw. Nor does one
        whose rounds the journal does not hold any more, or never accepted
        (`pipeline.records.epochs`).

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
        if not tables:
            return OUTCOME_SCHEMA.empty_table()
        table = _counting(pa.concat_tables(tables, promote_options="default"), self.journal)
        return _standing(table, _depths(self.config()))

    def write_metrics(self, rows: Iterable[Row]) -> None:
        """Write the counters over time, a JSON object a line."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        self.folder.write("metrics.jsonl", text.encode())

    def metrics(self) -> list[Row]:
        """The counters over time; [] where none were written yet."""
        if not self.folder.has("metrics.jsonl"):
            return []
        return [json.loads(line) for line in self.folder.read("metrics.jsonl").splitlines()]

    def _log_attempt(self, number: int, config: RunConfig, *, retry_failed: bool) -> None:
        earlier = self.attempts() if number > 1 else []
        entry = {
            "attempt": number,
            "token": fresh_token(),
            "retry_failed": retry_failed,
            "science_digest": config.science_digest(),
            "config": config.model_dump(mode="json"),
        }
        self.folder.write_json("attempts.json", [*earlier, entry])


def _extends(before: Any, after: Any) -> bool:
    """Whether `after` is `before`, or the same with a larger limit."""
    if before == after:
        return True
    same = replace(before, limit=after.limit) == after
    if not same or before.limit is None:
        return False
    return after.limit is None or after.limit >= before.limit


def _depths(config: RunConfig) -> dict[str, int]:
    """Completions a question that the pools of a run hold, by label."""
    strategies = strategies_of(config.science).items()
    return {label: int(getattr(s, "n", 1)) for label, s in strategies if s.kind in POOL_OF}


def _check_depth(before: RunConfig, after: RunConfig) -> None:
    had, wanted = _depths(before), _depths(after)
    for label, depth in had.items():
        if wanted[label] < depth:
            raise ConfigError(
                f"a resume may deepen a pool but not cut it, n of {label}: "
                f"{depth} -> {wanted[label]}"
            )


def _counting(table: pa.Table, journal: Folder) -> pa.Table:
    """The outcomes whose rounds the journal has and accepts; those of no journal all count."""
    if "epoch" not in table.column_names:
        return table
    fences = fences_of(journal)
    writers = zip(table["epoch"].to_pylist(), table["sequence"].to_pylist(), strict=True)
    return table.filter(
        pa.array(
            [epoch is None or fences.outcome_counts(epoch, last) for epoch, last in writers],
            type=pa.bool_(),
        )
    )


def _standing(table: pa.Table, depths: dict[str, int]) -> pa.Table:
    """The newest outcome of each key, without those of pools that are to become deeper."""
    names = ("strategy", "phase", "benchmark", "question_id")
    keys = zip(*(table[name].to_pylist() for name in names), strict=True)
    drawn = pc.list_value_length(table["round_answers"]).to_pylist()
    ended = table["stop_reason"].to_pylist()
    attempts = table["attempt"].to_pylist()
    best: dict[tuple[str, str, str, str], int] = {}
    for index, key in enumerate(keys):
        if ended[index] == StopReason.BUDGET.value and drawn[index] < depths.get(key[0], 0):
            continue
        rank = (attempts[index], drawn[index])
        if key not in best or rank > (attempts[best[key]], drawn[best[key]]):
            best[key] = index
    return table.take(pa.array(sorted(best.values()), type=pa.int64()))


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of a table as dictionaries."""
    rows: list[Row] = table.to_pylist()
    return rows
