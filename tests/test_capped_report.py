"""What a capped run looks like in summary, table, report and status."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import report, status
from jobs.results import write_summary
from jobs.tables import print_summary
from pipeline.planning.run_caps import Capped
from pipeline.records.run_dir import RunDir
from pipeline.report.page import results_table
from pipeline.report.run_data import read_run
from tests.report_runs import made_up_config, metric_rows, question_rows, write_run

CAP = Capped(name="completion_tokens", spent=20_113.0, cap=20_000.0)
FIRST = (
    "completion_tokens 20,113 of 20,000 spent; not run: 5 of 20 questions of made-up (base), 20 of "
    "20 questions of made-up (mr_thinking); they count neither as wrong nor as failed. All figures "
    "are of the finished questions alone, which are a biased sample: short chains, and those that "
    "promised most for their tokens, end first."
)


@pytest.fixture
def capped(tmp_path: Path) -> RunDir:
    """Fifteen of forty chains done: Base nearly whole, MR-Thinking not begun."""
    config = made_up_config(tmp_path, strategies=["base", "mr_thinking"])
    run = write_run(config, "part", question_rows(20, ["made-up"]), done=15, metrics=False)
    write_summary(run, CAP)
    return run


def test_the_summary_names_what_was_not_run(
    capped: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    """By strategy and benchmark, those without any outcome too; accuracy is of those that ended."""
    summary = write_summary(capped, CAP)
    print_summary(summary, "r")
    said = capsys.readouterr().out
    (base,) = summary["strategies"]

    assert summary["capped"] == {
        "name": "completion_tokens", "spent": 20_113.0, "cap": 20_000.0, "attempt": 1
    }  # fmt: skip
    assert [(e["strategy"], e["questions"], e["of"]) for e in summary["not_run"]] == [
        ("base", 5, 20),
        ("mr_thinking", 20, 20),
    ]
    assert len(summary["not_run"][0]["examples"]) == 5
    assert (base["questions"], base["failed"], base["not_run"]) == (15, 0, 5)
    assert base["accuracy"]["last"]["graded"] == 15
    assert FIRST in said.replace("\n", " ")
    assert "not run" in said.split("strategy")[1]


def test_the_report_says_so_first(capped: RunDir, tmp_path: Path) -> None:
    """Before the result: how many were not run, and that the sample is biased; also the table."""
    out = tmp_path / "report.html"
    assert report.main([capped.address, "--out", str(out)]) == 0
    page = out.read_text()

    assert page.index(FIRST) < page.index("<h1>")
    assert "not run" in results_table("made-up", read_run(capped.address).cells, [])


def test_status_says_so_until_an_attempt_begins(
    capped: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    """And once one has begun, what was spent stands beside the new cap."""
    assert status.main([capped.address]) == 0
    before = capsys.readouterr().out
    config = capped.config()
    limits = config.runtime.limits.model_copy(update={"completion_tokens": 30_000})
    runtime = config.runtime.model_copy(update={"limits": limits})
    capped.resume(config.model_copy(update={"runtime": runtime}))
    told = {"completion_tokens": {"spent": 20_113.0, "cap": 20_000.0}}
    capped.write_metrics([{**metric_rows([], ["base"])[-1], "limits": told}])
    assert status.main([capped.address]) == 0
    after = capsys.readouterr().out

    assert f"capped: {FIRST}" in before
    assert "capped" not in after
    assert "completion_tokens 20,113 of 30,000 spent" in after
    assert read_run(capped.address).capped is None
