"""*RunDir*: creates, opens and resumes the directory of a run.

=====================  ==============================================================
``config.json``        the resolved configuration of the first attempt
``attempts/``          a file an attempt: number, token, configuration, digest
``questions.parquet``  questions with priors and gold
``journal/``           segments of completions (`pipeline.records.journal`)
``statistics/``        what was learnt between phases, one JSON a phase
``work/``              the rows of each phase and attempt, and what was recorded for them before
``outcomes/``          one row a question and strategy (`pipeline.records.outcome`)
``metrics/``           counters over time: JSON lines, compressed, in parts that stay as they are
``summary.json``       the result
=====================  ==============================================================

Runs of earlier versions have attempts.json and metrics.jsonl instead of the folders.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from pipeline.config.run import RunConfig
from pipeline.config.strategies import POOL_OF, rules_of, strategies_of
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.protocol import PhaseStats
from pipeline.records.journal import Corrupt, fences_of, set_aside_corrupt
from pipeline.records.outcome import schema_of, set_aside_torn, standing
from pipeline.records.segments import RUN, Epoch, segment_of
from pipeline.records.trajectory import Row
from pipeline.store.storage import Folder, check_name, fresh_token, is_local, json_bytes, resolve
from pipeline.store.streams import lines_of, packed_lines, unpacked_lines


@dataclass(frozen=True, slots=True)
class RunJournal(Folder):
    """A folder of segments that lists those of its run alone.

    A segment is the run's if its attempt is written down, by number and token. Of earlier versions
    one is also the run's if its rows name it, since two attempts could write over each other's
    entry. Any other is foreign: it could end everything before it (`pipeline.records.segments`).
    """

    run: Folder = field(default_factory=lambda: Folder(""))
    """The run directory."""
    run_id: str = ""

    def names(self) -> list[str]:
        """Names of the run's own segments and of what is no segment, sorted."""
        every = Folder.names(self)
        gone = self._foreign(every)
        return [name for name in every if name not in gone]

    def foreign(self) -> list[str]:
        """Names of segments of other runs."""
        return sorted(self._foreign(Folder.names(self)))

    def attempts(self) -> set[int]:
        """The attempts that wrote segments."""
        places = filter(None, map(segment_of, self.names()))
        return {Epoch.parse(epoch).attempt for epoch, _ in places}

    def _foreign(self, names: Collection[str]) -> set[str]:
        epochs: dict[tuple[int, str], list[str]] = {}
        for name in names:
            place = segment_of(name)
            if place is not None:
                epoch = Epoch.parse(place[0])
                epochs.setdefault((epoch.attempt, epoch.token), []).append(name)
        if not epochs:
            return set()
        known = {(entry["attempt"], entry["token"]) for entry in read_attempts(self.run)}
        unknown = [epochs[epoch] for epoch in epochs.keys() - known]
        return {name for held in unknown if not self._names_run(held) for name in held}

    def _names_run(self, names: Collection[str]) -> bool:
        """Whether segments of one attempt say that they are the run's: the first that says it."""
        whole = 0
        for name in names:
            try:
                table = self.read_columns(name, ["run"])
            except DataError:
                continue  # torn: it is set aside for that
            whole += 1
            if RUN in (table.schema.metadata or {}):
                return False
            if table.num_rows:
                return bool(table["run"].unique().to_pylist() == [self.run_id])
        return not whole


_FILE = re.compile(r"\d{4,}\.json")
_FIELDS = frozenset({"attempt", "token", "retry_failed", "config"})
_MOST_TRIES = 1_000

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AttemptEntry:
    """What is written down of an attempt before it begins."""

    number: int
    token: str
    """Tells apart two attempts that took the same number at once."""
    retry_before: int | None
    """Questions that failed in attempts before this one are taken up again."""
    config: RunConfig


def read_attempts(run: Folder) -> list[Entry]:
    """One entry an attempt, oldest first; [] where there is none.

    Runs of earlier versions list them in attempts.json.

    Raises:
        DataError: naming what is no entry.
    """
    old = run.read_json("attempts.json") if run.has("attempts.json") else []
    if not isinstance(old, list):
        raise DataError(f"{run.address}/attempts.json must be a list of attempts")
    folder = run.child("attempts")
    names = sorted((n for n in folder.names() if _FILE.fullmatch(n)), key=lambda n: (len(n), n))
    entries = [*old, *(folder.read_json(name) for name in names)]
    for entry in entries:
        if not isinstance(entry, dict) or not entry.keys() >= _FIELDS:
            raise DataError(
                f"attempts must have {', '.join(sorted(_FIELDS))}, one of {run.address} has not"
            )
    return [entry for entry in entries if not entry.get("refused")]


def begin_attempt(
    run: Folder, config: RunConfig, *, retry_failed: bool, taken: Iterable[int]
) -> AttemptEntry:
    """Write a new attempt down, numbered after all others; no other process gets its number.

    Args:
        taken: numbers that attempts of this run had, besides those that are written down.
    """
    entries = read_attempts(run)
    number = max([0, *taken, *(int(entry["attempt"]) for entry in entries)]) + 1
    for _ in range(_MOST_TRIES):
        entry = {
            "attempt": number,
            "token": fresh_token(),
            "retry_failed": retry_failed,
            "science_digest": config.science_digest(),
            "config": config.model_dump(mode="json"),
        }
        if run.child("attempts").create(f"{number:04d}.json", json_bytes(entry)):
            return attempt_entry([*entries, entry], number, run.address)
        number += 1
    raise DataError(f"{run.address}/attempts must take a new file, {_MOST_TRIES} names are taken")


def refuse_attempt(run: Folder, number: int) -> None:
    """Take back an attempt that this very process wrote down and did not begin."""
    folder, name = run.child("attempts"), f"{number:04d}.json"
    folder.write_json(name, {**folder.read_json(name), "refused": True})


def attempt_entry(entries: Iterable[Entry], number: int, where: str) -> AttemptEntry:
    """What was written down of one attempt.

    Raises:
        DataError: where it was not.
    """
    until = [entry for entry in entries if entry["attempt"] <= number]
    own = [entry for entry in until if entry["attempt"] == number]
    if not own:
        raise DataError(f"{where} must hold attempt {number}, it does not")
    retries = [entry["attempt"] for entry in until if entry["retry_failed"]]
    return AttemptEntry(
        number=number,
        token=own[-1]["token"],
        retry_before=max(retries, default=None),
        config=RunConfig.parse(own[-1]["config"], where, recorded=True),
    )


@dataclass(frozen=True, slots=True)
class RunDir:
    """A run directory that exists."""

    folder: Folder
    _begun: dict[int, AttemptEntry] = field(default_factory=dict, compare=False, repr=False)
    """Attempts that this very process began: what it remembers nobody can write over."""

    @property
    def address(self) -> str:
        """Path or address of the directory."""
        return self.folder.address

    @property
    def run_id(self) -> str:
        """The directory's own name; unique in its folder."""
        name = self.address.rstrip("/").rpartition("/")[2]
        return resolve(self.address)[1].rpartition("/")[2] if name in (".", "..") else name

    @classmethod
    def create(cls, config: RunConfig, run_id: str) -> RunDir:
        """Make a new run directory; one that exists is never written over.

        Raises:
            ConfigError: where the directory already holds a run, or cannot be written.
        """
        address = Folder(config.runtime.runs).child(check_name(run_id, "a run's name")).address
        values = json_bytes(config.model_dump(mode="json"))
        run = cls(Folder(address))
        with _usable(address, "written"):
            number = 0 if run.folder.has("config.json") else run._begin(config)
            # config.json comes last: it opens the directory, and of several one process makes it
            if not number or not run.folder.create("config.json", values):
                if number:
                    refuse_attempt(run.folder, number)
                raise ConfigError(
                    f"a new run needs a new directory, {address} holds a run: "
                    f"continue it with --resume {address}"
                )
        return cls(_lasting(address), run._begun)

    @classmethod
    def open(cls, address: str) -> RunDir:
        """A run directory made before.

        Raises:
            ConfigError: where it is none, or cannot be read.
        """
        run = cls.known(address)
        with _usable(address, "read"):
            if not run.folder.has("config.json"):
                if run.folder.has("pool.json"):
                    raise ConfigError(
                        f"a run directory is needed, {address} is an exported pool: "
                        "jobs.paper, jobs.sweep, jobs.forecast and jobs.train read those"
                    )
                raise ConfigError(_no_run(run.folder, address))
        return run

    @classmethod
    def known(cls, address: str) -> RunDir:
        """A run directory that was opened before; it is not looked at again."""
        return cls(_lasting(address.rstrip("/")))

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
            if source != have.get(source.name):
                self._check_not_arranged(source.name)
        _check_depth(before, config)
        gone = have.keys() - {source.name for source in config.science.benchmarks}
        if gone:
            raise ConfigError(
                f"a resume must keep the benchmarks, without {', '.join(sorted(gone))}"
            )
        with _usable(self.address, "written"):
            return self._begin(config, retry_failed=retry_failed)

    def _check_not_arranged(self, benchmark: str) -> None:
        """That no phase has given each question of a benchmark its place: there is none for more.

        Raises:
            ConfigError: where one has.
        """
        for label, strategy in strategies_of(self.config().science).items():
            for phase in ("prepared", *(phase.name for phase in strategy.phases())):
                learnt = (self.statistics(label, phase) or {}).get(benchmark)
                if learnt is not None and learnt.per_question:
                    raise ConfigError(
                        f"a resume must keep the limit of {benchmark}, since {label} has put all "
                        f"its questions in an order: start a new run"
                    )

    def config(self) -> RunConfig:
        """The configuration of the newest attempt."""
        return self.newest().config

    def newest(self) -> AttemptEntry:
        """The attempt that owns the run."""
        entries = self.attempts()
        return attempt_entry(entries, max(entry["attempt"] for entry in entries), self.address)

    def attempt(self, number: int) -> AttemptEntry:
        """What was written down of one attempt."""
        return self._begun.get(number) or attempt_entry(self.attempts(), number, self.address)

    def attempts(self) -> list[dict[str, Any]]:
        """One entry an attempt, oldest first.

        Raises:
            DataError: where there is none.
        """
        attempts = read_attempts(self.folder)
        if not attempts:
            raise DataError(f"{self.address}/attempts must hold at least one attempt")
        return attempts

    @property
    def journal(self) -> RunJournal:
        """The folder of segments."""
        folder = self.folder.child("journal")
        return RunJournal(folder.address, folder.root, run=self.folder, run_id=self.run_id)

    def set_aside(self) -> list[Corrupt]:
        """Move out of the way what is torn, changed, or another run's, and say so of each."""
        gone = []
        for name in self.journal.foreign():
            self.journal.move(name, f"foreign/{name}")
            gone.append(Corrupt(f"journal segment {name}", "it is of another run"))
        torn = [
            (f"journal segment {each.name}", each.why) for each in set_aside_corrupt(self.journal)
        ]
        torn += [
            (f"outcomes {each.name}", each.why)
            for each in set_aside_torn(self.folder.child("outcomes"))
        ]
        return gone + [Corrupt(name, why) for name, why in torn]

    def write_statistics(
        self,
        strategy: str,
        phase: str,
        by_benchmark: Mapping[str, PhaseStats | None],
        *,
        attempt: int = 1,
    ) -> None:
        """Journal what a phase learnt; written once an attempt at most."""
        values = {name: learnt and asdict(learnt) for name, learnt in by_benchmark.items()}
        self.folder.write_json(f"statistics/{strategy}.{phase}.{attempt:04d}.json", values)

    def statistics(self, strategy: str, phase: str) -> dict[str, PhaseStats | None] | None:
        """What a phase learnt, by benchmark; None where it has not been folded.

        That of the newest attempt counts: the driver of an older one may still be writing. One that
        cannot be read is folded again.
        """
        form = re.compile(re.escape(f"{strategy}.{phase}.") + r"\d{4}\.json")
        names = [n for n in self.folder.child("statistics").names() if form.fullmatch(n)]
        for name in reversed(names):
            with suppress(DataError, TypeError, AttributeError):
                values = self.folder.read_json(f"statistics/{name}")
                return {name: fields and PhaseStats(**fields) for name, fields in values.items()}
        return None

    def outcomes(self, phase: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """All outcome rows that stand, each (strategy, phase, benchmark, question_id) once.

        Of several that of the newest attempt counts, then the one that draws most. An outcome of a
        pool that was made deeper since does not stand: its question has more to draw. Nor does one
        whose rounds the journal does not hold any more, or never accepted
        (`pipeline.records.segments`).

        Args:
            phase: only those of one phase folder.
            columns: of `pipeline.records.outcome.schema_of`, all where None; no others are held.
        """
        root, config = self.folder.child("outcomes"), self.config()
        wanted = schema_of(rules_of(config.science)).names if columns is None else columns
        return standing(root, wanted, fences_of(self.journal), _depths(config), phase)

    def write_metrics(self, rows: Sequence[Row], part: str = "0001-000000") -> None:
        """Write a part of the counters over time; parts are read in the order of their names."""
        self.folder.write(f"metrics/{part}.jsonl.xz", packed_lines(rows))

    def metrics(self) -> list[Row]:
        """The counters over time, oldest first; [] where none were written yet.

        A part that is torn or changed is left out: these are figures for people.
        """
        parts = self.folder.child("metrics")
        packed = parts.read_many(name for name in parts.names() if name.endswith(".jsonl.xz"))
        rows: list[Row] = []
        with suppress(DataError):
            if self.folder.has("metrics.jsonl"):  # of an earlier version
                rows += lines_of(self.folder.read("metrics.jsonl"), "metrics.jsonl")
        for name, data in packed.items():
            with suppress(DataError):
                rows += unpacked_lines(data, name)
        return rows

    def _begin(self, config: RunConfig, *, retry_failed: bool = False) -> int:
        numbers = self.journal.attempts()
        entry = begin_attempt(self.folder, config, retry_failed=retry_failed, taken=numbers)
        self._begun[entry.number] = entry
        return entry.number


def _lasting(address: str) -> Folder:
    """The folder of a run that exists: where a local one is moved away, nothing makes it again."""
    return Folder(address, resolve(address)[1] if is_local(address) else None)


def _no_run(folder: Folder, address: str) -> str:
    """Why a folder is no run directory, and which ones are in it."""
    if not folder.exists():
        return f"a run directory must hold config.json, there is no folder {address}"
    within = [name for name in folder.folders() if folder.child(name).has("config.json")]
    runs = f": name one of the runs in it, {', '.join(within[:10])}" if within else ""
    return f"a run directory must hold config.json, {address} does not{runs}"


class UnusableError(ConfigError, OSError):
    """A run directory that its storage does not let us use, now or for ever."""


@contextmanager
def _usable(address: str, how: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnusableError(f"a run directory must be {how}, {address} cannot: {error}") from error


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
    wanted = _depths(after)
    for label, depth in _depths(before).items():
        if wanted[label] < depth:
            raise ConfigError(
                f"a resume may deepen a pool but not cut it, n of {label}: "
                f"{depth} -> {wanted[label]}"
            )


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of a table as dictionaries."""
    rows: list[Row] = table.to_pylist()
    return rows
