"""Faults of the run directory: what is torn, foreign, gone, moved, or written by two at once."""

import asyncio
import json
import os
import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from actors.cluster.run_monitor import RunMonitor
from actors.cluster.storage_retry import with_retries
from actors.controllers.journal_writer import JournalError, JournalWriter
from actors.driver.driver import Attempt
from actors.driver.metric_rows import MetricRows
from actors.driver.signals import RunInterruptedError
from actors.engines.engine_stats import Meter
from jobs import evaluate, status
from jobs.results import write_summary
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.protocol import Statistics
from pipeline.records.epochs import Epoch
from pipeline.records.journal import read_journal
from pipeline.records.outcome import SCHEMA as OUTCOMES
from pipeline.records.outcome_files import read_outcomes, write_outcomes
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.segments import in_order, segment_of, write_segment
from pipeline.store.storage import Folder
from tests.attempts import Engines, attempt, config_of, new_run
from tests.test_chains import HalfVerifier, ScriptedGenerator, by_question_row, grade, make_work


def outcomes_of(run):
    """Outcomes by question, without what tells who wrote them when."""
    gone = ("seconds", "epoch", "sequence", "attempt")
    return {
        row["question_id"]: {name: value for name, value in row.items() if name not in gone}
        for row in rows_of(run.outcomes())
    }


# -- attempts ------------------------------------------------------------------------------------


def test_an_attempt_is_made_by_one_process_alone(tmp_path, monkeypatch):
    """Of several resumes at one moment each has a number and a token of its own, and none is lost,
    however slow their writes are."""
    config = config_of(tmp_path)
    run = new_run(config)
    link = Path.hardlink_to

    def slow(target, unfinished):
        time.sleep(random.random() / 10)
        link(target, unfinished)

    monkeypatch.setattr(Path, "hardlink_to", slow)
    with ThreadPoolExecutor(8) as threads:
        numbers = list(threads.map(lambda _: RunDir.open(run.address).resume(config), range(8)))

    assert sorted(numbers) == list(range(2, 10))
    assert len({entry["token"] for entry in run.attempts()}) == 9


def test_an_attempt_remembers_its_own_token(tmp_path):
    """Where a store lets another write over its file, it does not become that other one."""
    config = config_of(tmp_path)
    new_run(config)
    run = RunDir.open(str(tmp_path / "r"))
    number = run.resume(config)
    token = run.attempt(number).token
    entry = json.loads((tmp_path / "r" / "attempts" / "0002.json").read_text())
    run.folder.write_json("attempts/0002.json", {**entry, "token": "ffffff"})

    assert run.attempt(number).token == token
    assert run.newest().token == "ffffff"


@pytest.mark.parametrize("exclusive", [True, False])
def test_only_one_object_is_created(tmp_path, exclusive):
    """A second one of that name is refused and the first stays, on disks and object stores."""
    folder = Folder(str(tmp_path) if exclusive else "fsspec+memory://bucket/created")

    assert folder.create("x", b"1")
    assert not folder.create("x", b"2")
    assert (folder.read("x"), folder.names()) == (b"1", ["x"])


async def test_an_attempt_comes_after_all_that_left_rounds(tmp_path):
    """Its number is one more than the highest of the attempts and of the journal."""
    config = config_of(tmp_path)
    run = new_run(config)
    await attempt(run, Engines(stop_after=3), run.resume(config))
    (tmp_path / "r" / "attempts" / "0002.json").unlink()

    assert run.resume(config) == 3


async def test_attempts_of_earlier_versions_are_read(tmp_path):
    """One list in attempts.json: the run goes on behind it, and draws nothing again."""
    config = config_of(tmp_path)
    run = new_run(config)
    await attempt(run, Engines(stop_after=9))
    folder = tmp_path / "r" / "attempts"
    (tmp_path / "r" / "attempts.json").write_text(
        f"[{(folder / '0001.json').read_text()}]", encoding="utf-8"
    )
    (folder / "0001.json").unlink()
    folder.rmdir()
    again = Engines()
    number = RunDir.open(run.address).resume(config)
    await attempt(run, again, number)

    assert number == 2
    assert len(again.served) == 6 * 4 - 9


# -- segments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", [False, True])
async def test_a_segment_of_another_run_ends_nothing(tmp_path, empty):
    """One with a later epoch, copied into the folder, is set aside by name; no durable round is
    drawn again, and neither outcomes nor the fold are touched before."""
    config = config_of(tmp_path / "a")
    run = new_run(config)
    await attempt(run, Engines(stop_after=9))
    other = new_run(config_of(tmp_path / "b"))  # of the same name, even
    number = max(other.resume(config_of(tmp_path / "b")) for _ in range(7))
    epoch = Epoch(number, other.attempt(number).token, 0, "w", 1)
    rows = [] if empty else rows_of(read_journal(run.journal).table)[:1]
    name = write_segment(other.journal, epoch, 0, rows, {}, run=other.run_id)
    run.journal.write(name, other.journal.read(name))
    kept = read_journal(run.journal).table.num_rows
    gone = run.set_aside()
    again = Engines()
    await attempt(run, again, run.resume(config))

    assert kept == 9
    assert [(each.name, each.why) for each in gone] == [
        (f"journal segment {name}", "it is of another run")
    ]
    assert run.journal.child("foreign").names() == [name]
    assert len(again.served) == 6 * 4 - 9


async def test_a_segment_of_an_earlier_version_counts_if_its_rows_name_the_run(tmp_path):
    """Two attempts could write over each other's entry then: their rounds are kept, those of
    another run are not."""
    config = config_of(tmp_path)
    run = new_run(config)
    await attempt(run, Engines(stop_after=9))
    row = rows_of(read_journal(run.journal).table)[0]
    kept = write_segment(run.journal, Epoch(1, "aaaaaa", 0, "w", 1), 0, [row])
    gone = write_segment(run.journal, Epoch(1, "bbbbbb", 0, "w", 1), 0, [row | {"run": "other"}])

    assert kept in run.journal.names()
    assert run.journal.foreign() == [gone]


def test_a_writer_may_write_more_than_a_million_segments(tmp_path):
    """Segment 1,000,000 is read, and after segment 999,999."""
    journal, epoch = Folder(str(tmp_path)), Epoch(1, "abcdef", 0, "w", 1)
    last, next_one = (write_segment(journal, epoch, n, []) for n in (999_999, 1_000_000))

    assert segment_of(next_one) == (epoch.name, 1_000_000)
    assert in_order(journal.names()) == [last, next_one]
    assert not read_journal(journal).corrupt


async def test_a_row_that_no_segment_can_hold_costs_no_other(tmp_path):
    """The writer gives up aloud instead of hanging; rows beside the bad one are durable."""
    folder = Folder(str(tmp_path / "journal"))
    journal = JournalWriter(folder, flush_s=0.01)
    told = []
    journal.on_failure = told.append
    (row,) = by_question_row(tmp_path)
    for tokens in (5, "many", 7):
        journal.append({**row, "completion_tokens": tokens})

    with pytest.raises(JournalError, match="a row has what no segment can hold"):
        await asyncio.wait_for(journal.durable(), 10)
    with pytest.raises(JournalError):
        await asyncio.wait_for(journal.close(), 10)
    assert len(told) == 1
    assert read_journal(folder).table["completion_tokens"].to_pylist() == [5, 7]


async def test_whatever_breaks_a_writer_is_told(tmp_path, monkeypatch):
    """Placeholder waits for a writer that is gone."""
    monkeypatch.setattr(
        "actors.controllers.journal_writer.write_segment",
        lambda *_: (_ for _ in ()).throw(RuntimeError("broken")),
    )
    journal = JournalWriter(Folder(str(tmp_path)), flush_s=0.01)
    (row,) = by_question_row(tmp_path)
    journal.append(row)

    with pytest.raises(JournalError, match="RuntimeError: broken"):
        await asyncio.wait_for(journal.durable(), 10)


async def test_a_recording_that_cannot_be_read_fails_no_question(tmp_path):
    """It is read in a thread of its own, and what goes wrong there ends the run, not a chain."""
    from actors.controllers.chain_types import RunIdentity
    from actors.controllers.chains import Chains
    from actors.controllers.recordings import Recordings

    threads = []

    def recording_of(work):
        threads.append(threading.current_thread())
        raise OSError(5, "Input/output error")

    chains = Chains(
        identity=RunIdentity(run="r", attempt=1),
        pools={"generator": ScriptedGenerator(), "verifier": HalfVerifier()},
        journal=JournalWriter(Folder(str(tmp_path / "journal")), flush_s=0.02),
        grade=grade,
        recording_of=Recordings(recording_of).of,
        in_flight=8,
    )

    with pytest.raises(JournalError, match=r"must be readable, got .*Input/output error"):
        await chains.run(make_work())
    assert threads != [threading.main_thread()]
    assert chains.counters.stops == {}


# -- outcomes ------------------------------------------------------------------------------------


async def test_a_bit_that_flips_in_a_file_of_outcomes_is_found(tmp_path):
    """Each of 300 flips is refused by name: none changes a value, none is another exception."""
    run = new_run(config_of(tmp_path))
    await attempt(run, Engines())
    table = run.outcomes()
    folder = Folder(str(tmp_path / "o"))
    name = write_outcomes(folder, "w", table)
    data, dice = folder.read(name), random.Random(0)
    for _ in range(300):
        flipped = bytearray(data)
        flipped[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        folder.write(name, bytes(flipped))
        with pytest.raises(DataError, match="checksum must be"):
            read_outcomes(folder, name, table.column_names)


async def test_a_changed_file_of_earlier_versions_is_refused_or_read(tmp_path):
    """It has no checksum; what pyarrow cannot read is one kind of error, whatever it raises."""
    run = new_run(config_of(tmp_path))
    await attempt(run, Engines())
    folder = run.folder.child("outcomes", "attempt-1-phase-0")
    data, dice = folder.read("o.parquet"), random.Random(1)
    refused = 0
    for _ in range(300):
        flipped = bytearray(data)
        flipped[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        folder.write("o.parquet", bytes(flipped))
        try:
            read_outcomes(folder, "o.parquet", OUTCOMES.names)
        except DataError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("torn", [b"", b"PAR1", b"x" * 5_000])
async def test_a_torn_file_of_outcomes_blocks_no_resume(tmp_path, torn):
    """It is set aside, its outcomes are folded again from the journal, and nothing is drawn."""
    config = config_of(tmp_path)
    run = new_run(config)
    await attempt(run, Engines())
    before = outcomes_of(run)
    folder = run.folder.child("outcomes", "attempt-1-phase-0")
    folder.write("o.parquet", torn)
    shown = run.outcomes().num_rows
    gone = run.set_aside()
    again = Engines()
    await attempt(run, again, run.resume(config))

    assert shown == 0
    assert [each.name for each in gone] == ["outcomes o.parquet"]
    assert folder.child("corrupt").names() == ["o.parquet"]
    assert again.served == []
    assert outcomes_of(run) == before


# -- the folder itself ---------------------------------------------------------------------------


ADDRESSES = [
    "C:\\runs", "S3://b/x", "az://c/x", "hdfs://h/x", "~nosuchuser/runs", "a\0b", "/proc",
    "s3://", "gs:///x", "s3://b/x?endpoint_override=127.0.0.1:9&scheme=http&region=us-east-1",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_place_that_cannot_hold_runs_is_said_in_one_line(address, tmp_path, capsys):
    """Status 2 before anything is started, for a new run and for a look at one."""
    config = config_of(tmp_path)
    path = tmp_path / "c.json"
    values = config.model_dump(mode="json")
    values["runtime"]["runs"] = address
    path.write_text(json.dumps(values))

    assert evaluate.main(["--config", str(path), "--name", "x"]) == 2
    assert status.main([f"{address}/x"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.startswith("error: ") for line in lines] == [True, True]


def test_a_file_in_the_place_of_a_run_is_said_in_one_line(tmp_path, capsys):
    """As for a folder that cannot be."""
    config = config_of(tmp_path / "runs")
    (tmp_path / "runs").write_text("a file")
    path = tmp_path / "c.json"
    path.write_text(json.dumps(config.model_dump(mode="json")))

    assert evaluate.main(["--config", str(path), "--name", "x"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: a run directory must be written, ")


@pytest.mark.parametrize("text", [None, "[]", "{", "[1]", '[{"attempt": 1}]', "\xff"])
def test_a_run_without_readable_attempts_is_said_in_one_line(tmp_path, text, capsys):
    """A resume ends with status 2."""
    run = new_run(config_of(tmp_path))
    (tmp_path / "r" / "attempts" / "0001.json").unlink()
    if text is not None:
        (tmp_path / "r" / "attempts.json").write_bytes(text.encode("latin-1"))

    assert evaluate.main(["--resume", run.address]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "attempts" in line


def test_a_run_that_cannot_be_written_is_said_in_one_line(tmp_path, monkeypatch, capsys):
    """A read-only file system under a resume: status 2."""
    run = new_run(config_of(tmp_path))

    def refuse(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "write_bytes", refuse)

    assert evaluate.main(["--resume", run.address]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: a run directory must be written, {run.address} cannot: ")


async def test_a_run_that_is_moved_is_not_made_again(tmp_path):
    """Its writers fail where it was, and a resume where it is now draws no durable round again."""
    config = config_of(tmp_path)
    run = RunDir.open(new_run(config).address)
    await attempt(run, Engines(stop_after=9))
    (tmp_path / "r").rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError, match="was it moved"):
        run.journal.write("x", b"")
    with pytest.raises(FileNotFoundError, match="was it moved"):
        run.folder.child("outcomes", "p").write("x", b"")

    assert [path.name for path in tmp_path.iterdir()] == ["moved"]
    assert not run.folder.exists()
    moved, again = RunDir.open(str(tmp_path / "moved")), Engines()
    await attempt(moved, again, moved.resume(config))
    assert len(again.served) == 6 * 4 - 9


def test_a_name_is_as_durable_as_its_file(tmp_path, monkeypatch):
    """The folder is synchronised after each rename, and so is the one that a new folder lies in."""
    synchronised, fsync = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: (synchronised.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd))
    )
    folder = Folder(str(tmp_path))
    folder.write("a/x", b"1")
    folder.child("a").move("x", "b/y")

    folders = [path for path in synchronised if Path(path).is_dir()]
    a = str(tmp_path / "a")
    assert folders[:2] == [str(tmp_path), a]  # a is made; x appears in it
    assert folders[2] == a  # b is made
    assert {a, f"{a}/b"} == set(folders[3:])


def test_of_two_that_make_one_run_the_second_is_refused(tmp_path):
    """And the first owns it."""
    config = config_of(tmp_path)

    def make(_):
        try:
            return RunDir.create(config, "r")
        except ConfigError:
            return None

    with ThreadPoolExecutor(4) as threads:
        made = [run for run in threads.map(make, range(4)) if run is not None]

    assert len(made) == 1
    assert made[0].newest().number in made[0]._begun


# -- metrics -------------------------------------------------------------------------------------


class Account:
    """What engines say: as many replicas as the test wants, whose figures go on."""

    def __init__(self, replicas):
        self._meters = [
            Meter(256).stats(f"generator-{n}", "generator", 423_872) for n in range(replicas)
        ]
        self._dice, self.deaths = random.Random(0), 0

    @property
    def latest(self):
        dice = self._dice
        self._meters = [
            replace(
                m,
                running=dice.randrange(200, 256),
                kv_usage=dice.random(),
                requests=m.requests + dice.randrange(80),
                prompt_tokens=m.prompt_tokens + dice.randrange(50_000),
                completion_tokens=m.completion_tokens + dice.randrange(60_000),
                up_s=m.up_s + 10 * dice.random(),
                busy_s=m.busy_s + 10 * dice.random(),
                slot_s=m.slot_s + 10 * dice.random(),
                request_s=m.request_s + 2_560 * dice.random(),
                steps=m.steps + dice.randrange(400),
            )
            for m in self._meters
        ]
        return {"generator": self._meters, "verifier": []}

    def totals(self):
        return {"completion_tokens": sum(m.completion_tokens for m in self._meters), "lives": 1}


class Nothing:
    """Admission without figures, and an exporter that exports nothing."""

    def figures(self):
        return {}

    def update(self, row):
        """Do nothing."""


@pytest.mark.parametrize("replicas", [1, 64, 256])
def test_what_is_kept_of_metrics_grows_slowly(tmp_path, monkeypatch, replicas):
    """Less than 20 KB a minute, in parts that are never written again; the last row is complete,
    and rows of an earlier version come before."""
    monkeypatch.setattr("actors.driver.metric_rows.RunMetrics", lambda _: Nothing())
    run = new_run(config_of(tmp_path))
    (tmp_path / "r" / "metrics.jsonl").write_text('{"attempt": 0}\n')
    account = Account(replicas)
    rows = MetricRows(run, run.attempt(1), account, Nothing(), None)
    seen, minutes = {}, 20
    for tick in range(6 * minutes):
        totals = {"stops": {"budget": tick}, "rounds": tick, "idle_s": tick / 7}
        rows.tell(totals, 0, (0, 1_000), 10.0 * tick)
        for path in (tmp_path / "r" / "metrics").glob("*"):
            assert seen.setdefault(path.name, path.read_bytes()) == path.read_bytes()
        if tick in (1, 2, 3):
            assert len(run.metrics()) == tick + 1  # of this attempt all but the newest
    rows.close()
    kept = list((tmp_path / "r" / "metrics").glob("*"))
    told = run.metrics()

    assert sum(path.stat().st_size for path in kept) < 20_000 * minutes
    assert len(kept) < 2 * minutes
    assert [row["attempt"] for row in told] == [0] + [1] * 6 * minutes
    assert [row["rounds"] for row in told[1:]] == list(range(6 * minutes))
    assert told[-1]["engines_say"]["completion_tokens"] == sum(
        stats["completion_tokens"] for stats in told[-1]["engines"]["generator"]
    )


def test_metrics_wait_for_storage(tmp_path, monkeypatch):
    """What could not be written is in the next part."""
    monkeypatch.setattr("actors.driver.metric_rows.RunMetrics", lambda _: Nothing())
    run = new_run(config_of(tmp_path))
    (tmp_path / "r" / "metrics").write_text("a file where the folder must be")
    rows = MetricRows(run, run.attempt(1), Account(1), Nothing(), None)
    for tick in range(5):
        rows.tell({"stops": {}, "rounds": tick}, 0, (0, 1), 1.0)
    (tmp_path / "r" / "metrics").unlink()
    rows.close()

    assert [row["rounds"] for row in run.metrics()] == [0, 1, 2, 3, 4]


def test_outcomes_of_no_file_are_none(tmp_path):
    """A run that has just begun has no outcome of any column."""
    run = new_run(config_of(tmp_path))

    assert run.outcomes(columns=("question_id", "error")).schema.names == ["question_id", "error"]
    assert run.outcomes().num_rows == 0
    assert isinstance(run.outcomes(), pa.Table)


# -- files that a user names ---------------------------------------------------------------------

NO_FILES = [b"", b"PAR1", b"PAR1" + b"\0" * 99, b"\xff\xfe\x00garbage" * 99]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        *((kind, data) for kind in ("parquet", "json", "predictor") for data in NO_FILES),
        *((kind, NO_FILES[-1]) for kind in ("jsonl", "csv")),  # the others are tables without rows
    ],
)
def test_a_file_that_is_something_else_is_said_in_one_line(tmp_path, kind, data, capsys):
    """Priors or a predictor that are no such file: status 2, and nothing of Python's."""
    file = tmp_path / ("predictor.json" if kind == "predictor" else f"priors.{kind}")
    file.write_bytes(data)
    config = config_of(tmp_path / "runs")
    values = config.model_dump(mode="json")
    named = {"predictor": str(tmp_path)} if kind == "predictor" else {"file": str(file)}
    values["science"]["priors"] = named
    if kind == "predictor":
        values["runtime"]["scripted"] = None
    path = tmp_path / "c.json"
    path.write_text(json.dumps(values))

    assert evaluate.main(["--config", str(path), "--name", "x"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")


@pytest.mark.parametrize("field", ["id", "question", "answer"])
def test_half_a_character_in_a_row_is_refused_by_its_line(tmp_path, field, capsys):
    """A lone surrogate, which no file can hold: named as other bad rows are, and skipped if those
    may be; looking at the rows shows them."""
    rows = [
        {"id": "1", "question": "1+1?", "answer": "2"},
        {"id": "2", "question": "2+2?", "answer": "4"} | {field: "\ud800"},
    ]
    path = tmp_path / "set.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = config_of(tmp_path / "runs").model_dump(mode="json")
    values["science"]["benchmarks"] = [{"name": "mine", "path": str(path)}]
    file = tmp_path / "c.json"
    file.write_text(json.dumps(values))
    arguments = ["--config", str(file), "--name", "x"]

    assert evaluate.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "must be text, got half a character" in line
    assert "set.jsonl, line 2" in line
    with pytest.raises(SystemExit) as done:
        evaluate.main(
            [*arguments, "--show-rows", "9", "--set", "science.benchmarks.0.skip_bad_rows=true"]
        )
    assert done.value.code == 0
    assert "1+1?" in capsys.readouterr().out


# -- the driver ----------------------------------------------------------------------------------


def driver_of(run, pending):
    """A driver at the end of its phases."""
    driver = object.__new__(Attempt)
    driver._run, driver._entry, driver._taken_over = run, run.attempt(1), None
    driver._resume, driver._phases = "resume", SimpleNamespace(pending=lambda: pending)
    return driver


def test_no_driver_ends_well_while_chains_are_missing(tmp_path):
    """Nor where another attempt has begun since, or where the run directory is gone."""
    config = config_of(tmp_path)
    run = RunDir.open(new_run(config).address)
    driver_of(run, False)._check_whole()
    with pytest.raises(RunInterruptedError, match="some chains have no outcome that counts"):
        driver_of(run, True)._check_whole()
    late = driver_of(run, False)
    run.resume(config)
    with pytest.raises(RunInterruptedError, match="another attempt has taken"):
        late._check_whole()
    (tmp_path / "r").rename(tmp_path / "moved")
    late._taken_over = None
    with pytest.raises(RunInterruptedError, match="is gone: was it moved"):
        late._check_whole()


async def test_trouble_with_storage_is_told_while_it_lasts(tmp_path):
    """By the controllers' reports, and by whoever writes outcomes; and no longer."""
    watch, said = RunMonitor(), []
    await watch.trouble("outcomes", "could not write outcomes: disk full")
    before = await watch.totals()
    await watch.trouble("outcomes", None)
    blocker = tmp_path / "journal"
    blocker.write_text("a file where the folder must be")
    journal = JournalWriter(Folder(str(blocker)), flush_s=0.01)
    (row,) = by_question_row(tmp_path)
    journal.append(row)
    while journal.trouble is None:
        await asyncio.sleep(0.01)
    told = journal.trouble
    blocker.unlink()
    await asyncio.wait_for(journal.durable(), 10)

    calls = iter([OSError(5, "Input/output error"), None])

    def once():
        if (error := next(calls)) is not None:
            raise error

    await asyncio.to_thread(with_retries, once, "write outcomes", tell=said.append)
    assert before["trouble"] == "could not write outcomes: disk full"
    assert (await watch.totals())["trouble"] is None
    assert told.startswith("journal segment of 1 rows not written: ")
    assert journal.trouble is None
    assert said == ["could not write outcomes: [Errno 5] Input/output error", None]


async def test_a_resume_with_nothing_to_do_blames_no_engine(tmp_path):
    """It starts none: the ledger of the attempts that did stays exact."""
    config = config_of(tmp_path)
    run = new_run(config)
    await attempt(run, Engines())
    tokens = sum(row["completion_tokens"] for row in rows_of(run.outcomes()))
    says = {"completion_tokens": tokens, "aborted_tokens": 0, "preemptions": 0, "lives": 1}
    says |= {"deaths": 0, "seen_to_the_end": True}
    run.write_metrics([{"attempt": 1, "engines_say": says}])
    run.folder.child("environment").write_json("attempt-1.json", {})
    run.resume(config)
    ledger = write_summary(run)["ledger"]

    assert (ledger["exact"], ledger["unjournaled_completion_tokens"]) == (True, 0)


def test_a_store_that_is_away_for_a_moment_is_waited_for(tmp_path, monkeypatch):
    """Those at work try again what a command line is told at once."""
    run = new_run(config_of(tmp_path))
    has, calls = Folder.has, []

    def away_once(folder, name):
        calls.append(name)
        if len(calls) == 1:
            raise OSError(5, "Input/output error")
        return has(folder, name)

    monkeypatch.setattr(Folder, "has", away_once)
    opened = with_retries(lambda: RunDir.open(run.address), "open the run directory")

    assert opened.address == run.address
    calls.clear()
    with pytest.raises(ConfigError, match=r"a run directory must be read, .*Input/output error"):
        RunDir.open(run.address)


async def test_outcomes_wait_for_storage(tmp_path, monkeypatch):
    """A disk that is full for a moment: the file is written once there is room, whole and with its
    checksum, whatever kind of blocks Ray Data hands over."""
    from actors.cluster import storage_retry
    from actors.driver.outcome_sink import OutcomeSink

    monkeypatch.setattr(storage_retry, "_FIRST_PAUSE_S", 0.01)
    config = config_of(tmp_path)
    run = new_run(config)
    await attempt(run, Engines())
    table, expected = run.outcomes(), outcomes_of(run)
    (tmp_path / "r" / "outcomes" / "attempt-1-phase-0" / "o.parquet").unlink()
    full, write = [True, True], Path.write_bytes

    def write_bytes(path, data):
        if "outcomes-" in path.name and full:
            full.pop()
            write(path, data[:100])
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    sink = OutcomeSink(run.address, "attempt-1-phase-0", 5, table.schema)
    blocks = [table.slice(0, 2), table.slice(2).to_pandas()]
    await asyncio.to_thread(sink.write, blocks, SimpleNamespace(task_idx=3))

    (file,) = (tmp_path / "r" / "outcomes" / "attempt-1-phase-0").iterdir()
    assert re.fullmatch(r"outcomes-000003-[0-9a-f]{6}-[0-9a-f]{16}\.parquet", file.name)
    assert full == []
    assert outcomes_of(run) == expected


def test_figures_and_statistics_that_are_torn_block_nothing(tmp_path):
    """Counters are left out, what a phase learnt is folded again."""
    run = new_run(config_of(tmp_path))
    for number in range(3):
        run.write_metrics([{"attempt": 1, "rounds": number}], f"0001-{number:06d}")
    run.write_statistics("s", "p", {"arithmetic": Statistics()})
    for path in [*(tmp_path / "r" / "metrics").glob("*-000001*"), *tmp_path.rglob("s.p.*.json")]:
        path.write_bytes(path.read_bytes()[:-7])
    (tmp_path / "r" / "metrics.jsonl").write_text('{"attempt": 0}\n{"att')

    assert [row["rounds"] for row in run.metrics()] == [0, 2]
    assert run.statistics("s", "p") is None
