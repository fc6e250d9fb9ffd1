"""Experiment trackers: told what the run's own files say, and nothing of theirs ends a run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from jobs import evaluate
from jobs.results import write_summary
from jobs.trackers import Tracking, final_figures
from tests.report_runs import made_up_config, metric_rows, question_rows, write_run


class Kept:
    """A tracker that keeps what it is told, and does something else at one of its methods."""

    def __init__(self, at: str = "", does: Callable[[], Any] = lambda: None) -> None:
        self.told: list[tuple[str, Any]] = []
        self._at, self._does = at, does

    def _take(self, what: str, value: Any) -> None:
        self.told.append((what, value))
        if what == self._at:
            self._does()

    def start(self, run: str, config: Mapping[str, Any]) -> None:
        self._take("start", (run, config))

    def log(self, figures: Mapping[str, float]) -> None:
        self._take("log", figures)

    def finish(self, figures: Mapping[str, float], status: int) -> None:
        self._take("finish", (figures, status))


def followed(folder: Path, tracker: Kept, end_s: float = 30.0) -> dict[str, Any]:
    """Tell a tracker of a made-up run; returns its summary."""
    config = made_up_config(folder, strategies=["base", "mr_thinking"])
    run = write_run(config, "whole", question_rows(6, ["made-up"]), metrics=False)
    summary = write_summary(run)
    tracking = Tracking(tracker, run, run.config(), end_s)
    for row in metric_rows([], []):
        tracking(row)
    tracking.close(summary, 0)
    return summary


def test_a_tracker_takes_configuration_progress_and_accuracies(tmp_path: Path) -> None:
    """In this order, each row once, the accuracies being those of summary.json."""
    tracker = Kept()
    summary = followed(tmp_path, tracker)
    (first, (run, config)), *rows, (last, (figures, status)) = tracker.told

    assert (first, last, run, status) == ("start", "finish", "whole", 0)
    assert config["science"]["strategies"][0]["kind"] == "base"
    assert [figures["completion_tokens"] for _, figures in rows] == [0] * 12
    assert figures == final_figures(summary)
    for entry in summary["strategies"]:
        for rule, counts in entry["accuracy"].items():
            name = f"final/{entry['benchmark']}/{entry['strategy']}/{rule}/accuracy"
            assert figures.get(name) == (counts and counts["accuracy"])


def fail() -> None:
    """As a library does whose server is away."""
    raise RuntimeError("the server is away")


@pytest.mark.parametrize("at", ["start", "log", "finish"])
def test_a_tracker_that_fails_is_one_warning(
    tmp_path: Path, at: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is asked for nothing more, and nothing is raised where the run would see it."""
    caplog.set_level(logging.WARNING)
    tracker = Kept(at, fail)
    followed(tmp_path, tracker)

    assert [what for what, _ in tracker.told].count(at) == 1
    assert tracker.told[-1][0] == at
    assert [r.getMessage() for r in caplog.records if r.name == "jobs.trackers"] == [
        "the tracker fails, the run goes on without it: the server is away"
    ]


def test_a_tracker_that_hangs_holds_nobody_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows do not wait for it, and the end of the run waits for a while only."""
    free = threading.Event()
    followed(tmp_path, Kept("start", free.wait), end_s=0.2)
    free.set()

    assert "is left" in caplog.text


def test_a_tracker_that_is_not_installed_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, one line with what to install; no run directory is made."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    arguments = ["--config", "configs/laptop.yaml", "--set", f"runtime.runs={tmp_path}"]

    assert evaluate.main([*arguments, "--tracker", "wandb"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: --tracker wandb must have its package: pip install -e .[wandb]"
    ]
    assert not list(tmp_path.iterdir())
