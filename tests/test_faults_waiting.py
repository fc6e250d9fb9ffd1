"""What a driver writes and reads besides: it waits for storage, and never ends well too early."""

import asyncio
import random
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.cluster.background import with_retries
from actors.controllers.journal_writer import JournalWriter
from actors.driver.driver import Attempt
from actors.driver.metric_rows import MetricRows
from actors.driver.signals import RunInterruptedError
from actors.engines.engine_stats import Meter
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import PhaseStats
from pipeline.records.run_dir import RunDir
from pipeline.store.storage import Folder
from tests.attempts import attempt, config_of, new_run, outcomes_of
from tests.live import Engines
from tests.test_chains import by_question_row

# -- metrics --------------------------------------------------------------------------------------


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
                steps=m.steps + dice.randrange(400),
            )
            for m in self._meters
        ]
        return {"generator": self._meters, "verifier": []}


class Nothing:
    """Admission without figures, and an exporter that exports nothing."""

    def figures(self):
        return {}

    def update(self, row):
        """Do nothing."""


@pytest.mark.parametrize("replicas", [1, 256])
def test_what_is_kept_of_metrics_grows_slowly(tmp_path, monkeypatch, replicas):
    """Less than 30 KB a minute, in parts that are never written again; the last row is complete,
    and rows of an earlier version come before."""
    monkeypatch.setattr("actors.driver.metric_rows.RunMetrics", lambda _: Nothing())
    run = new_run(config_of(tmp_path))
    (tmp_path / "r" / "metrics.jsonl").write_text('{"attempt": 0}\n')
    account = Account(replicas)
    rows = MetricRows(run, run.attempt(1), account, Nothing(), None)
    seen, minutes = {}, 10
    for tick in range(6 * minutes):
        totals = {"stops": {"budget": tick}, "rounds": tick, "idle_s": tick / 7}
        rows.log(totals, 0, (0, 1_000), 10.0 * tick)
        for path in (tmp_path / "r" / "metrics").glob("*"):
            assert seen.setdefault(path.name, path.read_bytes()) == path.read_bytes()
        if tick in (1, 2, 3):
            assert len(run.metrics()) == tick + 1  # of this attempt all but the newest
    rows.close()
    kept = list((tmp_path / "r" / "metrics").glob("*"))
    told = run.metrics()

    assert sum(path.stat().st_size for path in kept) < 30_000 * minutes
    assert len(kept) < 2 * minutes
    assert [row["attempt"] for row in told] == [0] + [1] * 6 * minutes
    assert [row["rounds"] for row in told[1:]] == list(range(6 * minutes))


# -- the driver -----------------------------------------------------------------------------------


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
    """By the controllers' reports, and no longer."""
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

    assert told.startswith("journal segment of 1 rows not written: ")
    assert journal.trouble is None


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
    from actors.cluster import background
    from actors.driver.run_phases import OutcomeSink

    monkeypatch.setattr(background, "_FIRST_PAUSE_S", 0.01)
    config = config_of(tmp_path)
    run = new_run(config)
    await attempt(run, Engines())
    table, expected = run.outcomes(), outcomes_of(run)
    (tmp_path / "r" / "outcomes" / "attempt-1-phase-0" / "part-0.parquet").unlink()
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
    run.write_statistics("s", "p", {"arithmetic": PhaseStats()})
    for path in [*(tmp_path / "r" / "metrics").glob("*-000001*"), *tmp_path.rglob("s.p.*.json")]:
        path.write_bytes(path.read_bytes()[:-7])
    (tmp_path / "r" / "metrics.jsonl").write_text('{"attempt": 0}\n{"att')

    assert [row["rounds"] for row in run.metrics()] == [0, 2]
    assert run.statistics("s", "p") is None
