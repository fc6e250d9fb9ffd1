"""How a run is going, from what is durable of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import status as job
from jobs.results import write_summary
from pipeline.report.run_data import RunData, read_run
from pipeline.report.run_progress import progress_of, seconds_left
from pipeline.strategies.markovscale import MarkovScale0
from tests.report_runs import made_up_config, question_rows, write_run


@pytest.fixture
def part(tmp_path: Path) -> RunData:
    """Twenty of forty chains done: Base whole, MR-Thinking not begun."""
    config = made_up_config(tmp_path, strategies=["base", "mr_thinking"])
    write_run(config, "part", question_rows(20, ["made-up"]), done=20)
    return read_run(str(tmp_path / "part"))


def test_progress_counts_chains_and_speed(part: RunData) -> None:
    """What is done, and the tokens of the last two minutes."""
    progress = progress_of(part)
    metrics = part.metrics
    drawn = metrics[-1]["completion_tokens"] - metrics[0]["completion_tokens"]
    span = metrics[-1]["time"] - metrics[0]["time"]

    assert (progress.done, progress.chains, progress.rounds) == (20, 40, 20)
    assert progress.tokens_per_s == pytest.approx(drawn / span)


@pytest.mark.parametrize(("done", "left"), [(0, None), (4, None), (25, 30.0), (100, None)])
def test_the_time_left_is_at_the_mean_speed_of_a_phase(done: int, left: float | None) -> None:
    """10 s for a quarter of 100 chains leave 30 s; nothing is said before 5 % are done."""
    row = {"chains": 100, "chains_stopped": done, "phase_seconds": 10.0}

    assert seconds_left(row) == left


def test_status_tells_a_run_that_has_stopped(
    part: RunData, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counts, what is left, and that nothing has been heard of it: no time left, no speed of it."""
    assert job.main([part.run.address]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "part: attempt 1, phase 1 of 1, 20 of 40 chains done (50 %), 0 in flight" in said
    assert "time left" not in said
    assert "no news for" in said
    assert "SYNTHETIC" in said
    assert "made-up: 20 questions" in said


def test_status_of_a_run_that_ended_before_its_last_chain(
    part: RunData, capsys: pytest.CaptureFixture[str]
) -> None:
    """The summary of the newest attempt says that it is over: how to go on, and nothing of a time
    left. A resume has no summary yet, and goes on."""
    part.run.folder.write_json("summary.json", {"attempts": 1})

    assert job.main([part.run.address]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"stopped; resume with python -m jobs.evaluate --resume {part.run.address}" in said
    assert not [word for word in ("time left", "in flight", "no news") if word in said]
    part.run.resume(part.config)
    assert job.main([part.run.address]) == 0
    assert "stopped; resume" not in capsys.readouterr().out


@pytest.mark.parametrize(("done", "said"), [(0, "stopped; resume with"), (2, "\ndone\n")])
def test_status_of_a_run_that_ended_without_counters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], done: int, said: str
) -> None:
    """Engines that could not start leave no counters, nor does the record of an endpoint: a run
    that is over is not said to be starting."""
    config = made_up_config(tmp_path, strategies=["base"], scripted=False)
    run = write_run(config, "over", question_rows(2, ["made-up"]), done=done, metrics=False)
    write_summary(run)

    assert job.main([run.address]) == 0
    told = capsys.readouterr().out
    assert said in told
    assert "no counters yet" not in told


def test_status_of_a_finished_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Done is done, however long ago."""
    config = made_up_config(tmp_path, strategies=["base"])
    write_run(config, "done", question_rows(4, ["made-up"]))

    assert job.main([str(tmp_path / "done")]) == 0
    said = capsys.readouterr().out
    assert "4 of 4 chains done (100 %)" in said
    assert "\ndone\n" in said
    assert progress_of(read_run(str(tmp_path / "done"))).seconds_left == 0.0


def test_status_of_what_is_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 and one clear line."""
    assert job.main(["nowhere"]) == 2
    assert "a run directory must hold config.json" in capsys.readouterr().err


def test_warm_up_outcomes_are_not_final(tmp_path: Path) -> None:
    """A MarkovScale^0 chain that has only warmed up is not done."""
    config = made_up_config(tmp_path, strategies=["markovscale_0"])
    run = write_run(config, "warm", question_rows(3, ["made-up"]), metrics=False)
    part = run.folder.child("outcomes", "phase-0")
    table = part.read_table("part-0.parquet")
    first = MarkovScale0().phases()[0].name
    rows = [{**row, "phase": first} for row in table.to_pylist()]
    part.write_table("part-0.parquet", table.from_pylist(rows, schema=table.schema))
    data = read_run(run.address)

    assert (data.chains_done, data.cells) == (0, ())


def test_a_folder_of_runs_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line per run with its state; a run that cannot be read says why, and stops no other."""
    config = made_up_config(tmp_path, strategies=["base"])
    write_run(config, "whole", question_rows(3, ["made-up"]), metrics=False)
    write_run(config, "part", question_rows(3, ["made-up"]), done=1, metrics=False)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    (tmp_path / "other").mkdir()

    assert job.main([str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("whole" in line and "done" in line and "3 of 3" in line for line in lines)
    assert any("part" in line and "1 of 3" in line for line in lines)
    assert any("broken" in line and "unreadable" in line for line in lines)
    assert not any("other" in line for line in lines)
