"""Journal, attempts and outcomes with faults in them: torn, foreign, raced for, not to be read."""

import asyncio
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from actors.controllers.journal_writer import JournalError, JournalWriter
from benchmarks.journals import read_journal
from pipeline.core.errors import DataError
from pipeline.records.outcome import SCHEMA as OUTCOMES
from pipeline.records.outcome import read_outcomes, write_outcomes
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.segments import Epoch, in_order, segment_of, write_segment
from pipeline.store.storage import Folder
from tests.attempts import attempt, config_of, new_run, outcomes_of
from tests.live import Engines
from tests.test_chains import HalfVerifier, ScriptedGenerator, by_question_row, grade, make_work

# -- attempts -------------------------------------------------------------------------------------


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


# -- segments -------------------------------------------------------------------------------------


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


async def test_a_recording_that_cannot_be_read_fails_no_question(tmp_path):
    """It is read in a thread of its own, and what goes wrong there ends the run, not a chain."""
    from actors.controllers.chain_types import RunIdentity
    from actors.controllers.chains import Chains
    from actors.controllers.completion_source import Recordings

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


# -- outcomes -------------------------------------------------------------------------------------


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
    data, dice = folder.read("part-0.parquet"), random.Random(1)
    refused = 0
    for _ in range(300):
        flipped = bytearray(data)
        flipped[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        folder.write("part-0.parquet", bytes(flipped))
        try:
            read_outcomes(folder, "part-0.parquet", OUTCOMES.names)
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
    folder.write("part-0.parquet", torn)
    shown = run.outcomes().num_rows
    gone = run.set_aside()
    again = Engines()
    await attempt(run, again, run.resume(config))

    assert shown == 0
    assert [each.name for each in gone] == ["outcomes part-0.parquet"]
    assert folder.child("corrupt").names() == ["part-0.parquet"]
    assert again.served == []
    assert outcomes_of(run) == before
