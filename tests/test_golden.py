"""Run folders that earlier versions wrote are read, replayed, reported and gone on with alike.

They lie in tests/data/golden, a folder a version; tests/data/README.md says how they were made.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.journals import read_journal
from jobs import evaluate, report
from jobs.cli import add_run_options
from jobs.results import write_summary
from jobs.run_options import opened_run
from pipeline.core.errors import DataError
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.replay.pool_export import export_pool
from pipeline.replay.pools import read_pool
from pipeline.replay.run import replay_run
from tests.attempts import attempt
from tests.live import Engines, live

GOLDEN = Path(__file__).parent / "data" / "golden"
VERSIONS = sorted(path for path in GOLDEN.iterdir() if path.is_dir())
FINISHED = ("plain", "phased", "resumed", "failed", "retried", "pool")
RUNS = (*FINISHED, "stopped")
DECIDED = (
    *("completions", "stop_reason", "stop_rounds", "posterior_path", "error"),
    *("round_answers", "round_scores", "round_verdicts", "round_tokens"),
)

pytestmark = pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)


def copied(version: Path, name: str, tmp_path: Path) -> RunDir:
    """A run folder that may be written to, under the name that it had when it was written."""
    folder = tmp_path / told(version, name)["run"]
    shutil.copytree(version / name, folder)
    return RunDir.open(str(folder))


def told(version: Path, name: str) -> dict[str, Any]:
    """What the earlier version summed up."""
    summary: dict[str, Any] = json.loads((version / name / "summary.json").read_text())
    return summary


def resumed(run: RunDir, *arguments: str) -> int:
    """Begin another attempt as the command line does; returns its number."""
    parser = argparse.ArgumentParser()
    add_run_options(parser)
    runs = str(Path(run.address).parent)
    options = ["--resume", run.address, "--set", f"runtime.runs={runs}", *arguments]
    return opened_run(parser.parse_args(options))[2]


def decided(run: RunDir) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """What came of each question under each strategy and phase."""
    keys = ("strategy", "phase", "benchmark", "question_id")
    return {
        tuple(row[name] for name in keys): tuple(row[name] for name in DECIDED)
        for row in rows_of(run.outcomes())
    }


DROPPED = ("better_split", "slot_time", "bound_by", "ledger", "sticky_rate")
"""Fields of earlier summaries that nothing reads any more."""


def kept(before: Any, now: Any, where: str = "summary") -> list[str]:
    """Where `now` lacks or changes what `before` says; it may say more."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            line
            for name, value in before.items()
            if name not in DROPPED
            for line in kept(value, now.get(name, "missing"), f"{where}.{name}")
        ]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [line for i, (a, b) in pairs for line in kept(a, b, f"{where}.{i}")]
    same = now == pytest.approx(before, rel=1e-9) if isinstance(before, float) else now == before
    return [] if same else [f"{where}: {before!r} -> {now!r}"]


@pytest.mark.parametrize("name", RUNS)
def test_the_summary_says_what_it_said(version: Path, name: str, tmp_path: Path) -> None:
    """summary.json has every field that it had, with its value, but for the values that mended.json
    names as wrong, and why. Further fields may be there."""
    summary = write_summary(copied(version, name, tmp_path))
    mended = json.loads((version / "mended.json").read_text()).get(name, {"differences": []})

    assert kept(told(version, name), summary) == mended["differences"]


@pytest.mark.parametrize("name", ["phased", "retried", "stopped"])
def test_a_report_is_made_of_it(version: Path, name: str, tmp_path: Path) -> None:
    """`jobs.report` reads the folder, finished or not, and names the run."""
    run = copied(version, name, tmp_path)

    assert report.main([run.address, "--out", str(tmp_path / "report.html")]) == 0
    assert run.run_id in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("name", FINISHED)
def test_its_journal_replays_record_for_record(version: Path, name: str) -> None:
    """Every outcome follows from the journal, and every row of the journal was asked for."""
    run = RunDir.open(str(version / name))
    found = replay_run(run)

    assert found.differences == ()
    assert found.outcomes == told(version, name)["chains"]
    assert found.records == read_journal(run.journal).table.num_rows > 0
    assert found.unused == 0


def test_a_run_that_is_not_finished_cannot_be_replayed(version: Path) -> None:
    """The error names a question that has no outcome yet, and how to go on."""
    with pytest.raises(DataError, match=r"must be finished.* has no outcome under .*: resume"):
        replay_run(RunDir.open(str(version / "stopped")))


@pytest.mark.parametrize("name", RUNS)
def test_the_science_keeps_its_digest(version: Path, name: str) -> None:
    """What an attempt wrote down as its science part's digest is what it is now."""
    run = RunDir.open(str(version / name))

    assert {entry["science_digest"] for entry in run.attempts()} == {run.config().science_digest()}


@pytest.mark.parametrize("name", FINISHED)
async def test_a_finished_run_has_nothing_left_to_draw(
    version: Path, name: str, tmp_path: Path
) -> None:
    """A resume asks the engines for nothing and changes no outcome; phases that a strategy has been
    given since may have theirs besides, from what was recorded."""
    run = copied(version, name, tmp_path)
    before = decided(run)
    generator = await live(run, attempt=resumed(run))

    assert generator.served == []
    assert before.items() <= decided(run).items()


@pytest.mark.parametrize(
    ("name", "end", "how"), [("stopped", "resumed", ()), ("failed", "retried", ("--retry-failed",))]
)
async def test_an_unfinished_run_goes_on_to_the_same_end(
    version: Path, name: str, end: str, how: tuple[str, ...], tmp_path: Path
) -> None:
    """Only what is not durable is drawn, as many completions as the earlier version drew, and
    every question comes to the end that it came to there."""
    run = copied(version, name, tmp_path)
    durable = read_journal(run.journal).table
    usable = {row["seed"] for row in rows_of(durable) if row["error"] is None}
    engines = Engines()
    await attempt(run, engines, resumed(run, *how))
    ended = RunDir.open(str(version / end))
    then = rows_of(read_journal(ended.journal).table)

    assert decided(run) == decided(ended)
    assert not usable & {request.seed for request in engines.served}
    assert len(engines.served) == len([row for row in then if row["attempt"] == 2]) > 0


def test_a_pool_and_its_export_hold_the_same(version: Path, tmp_path: Path) -> None:
    """Both are read as the same questions with the same completions; the export is made again."""
    pool, export = read_pool(str(version / "pool")), read_pool(str(version / "export"))
    written = export_pool(RunDir.open(str(version / "pool")), str(tmp_path / "export"))
    again = read_pool(str(tmp_path / "export"))

    assert (pool.rounds, pool.samples, len(pool.questions)) == (6, 5, 8)
    assert pool.questions == export.questions == again.questions
    assert pool.science == export.science == again.science
    assert written == 8 * (6 + 5)


@pytest.mark.ray
@pytest.mark.usefixtures("local_ray")
def test_the_job_goes_on_with_a_stopped_run(version: Path, tmp_path: Path) -> None:
    """`jobs.evaluate --resume` with Ray ends it, as the earlier version did, and it replays."""
    run = copied(version, "stopped", tmp_path)
    where = ("--set", f"runtime.runs={tmp_path}", "--set", "runtime.scripted={}")

    assert evaluate.main(["--resume", run.address, *where]) == 0
    assert decided(run) == decided(RunDir.open(str(version / "resumed")))
    assert replay_run(run).differences == ()
