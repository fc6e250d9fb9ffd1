"""What a run shows of itself while it goes on."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from jobs.cli import log_to_stderr
from jobs.progress import Progress
from jobs.tables import print_strategies


@pytest.fixture(autouse=True)
def log_lines() -> Any:
    """Log as a job does, and put it back."""
    logger = logging.getLogger("jobs")
    before = (logger.handlers, logger.level, logger.propagate)
    log_to_stderr()
    yield
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def plain(text: str) -> str:
    """Without the codes of a terminal."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def row(phase: int, stopped: int, seconds: float, **fields: Any) -> dict[str, Any]:
    """Metrics with 100 chains in the phase, ten tokens a round."""
    rounds = stopped * 4
    return {
        "phase": phase,
        "chains": 100,
        "chains_stopped": stopped,
        "phase_seconds": seconds,
        "stops": {"budget": stopped},
        "in_flight": 100 - stopped,
        "rounds": rounds,
        "completion_tokens": 10 * rounds,
        **fields,
    }


def test_elsewhere_than_on_a_terminal_it_is_a_line_a_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each with the phase of how many, and the speed since the line before."""
    shown = Progress("runs/x", 2)
    shown(row(0, 25, 10.0))
    shown(row(0, 75, 20.0))
    shown.close()
    first, second, third = capsys.readouterr().err.splitlines()

    assert first.endswith("run directory: runs/x")
    assert "phase 1 of 2: 25 of 100 chains stopped (budget 25)" in second
    assert "(20.0/s), 200 tokens/s" in third


def test_on_a_terminal_it_is_a_bar_with_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engines starting, the time left by the chains so far, and what is done between phases."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "140")
    shown = Progress("runs/x", 2)
    shown(row(0, 2, 5.0))
    early = plain(capsys.readouterr().err)
    shown(row(0, 25, 30.0))
    shown._bar.refresh()  # type: ignore[union-attr]
    late = plain(capsys.readouterr().err)
    shown(row(0, 100, 90.0))
    shown.close()
    end = plain(capsys.readouterr().err)

    assert "starting engines" in early
    assert "left" not in early
    assert "phase 1 of 2" in late
    assert "25 of 100 chains" in late
    assert "at most about 2 min left" in late
    assert "counting what the next phase needs" in end


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """With -q neither bar nor lines."""
    log_to_stderr(logging.WARNING)
    shown = Progress("runs/x", 1)
    shown(row(0, 25, 10.0))
    shown.close()

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("width", [60, 100])
def test_a_table_cuts_no_number(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells are folded where the terminal is narrow. A share that rounds to zero has no sign."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")
    known = {"accuracy": 0.7, "low": 0.6, "high": 0.8}
    entries = [
        {
            "benchmark": "math500",
            "questions": 500,
            "strategy": name,
            "n": 64,
            "headline_rule": rule,
            "accuracy": {"last": known, "prm_argmax": known, "vote": None}
            | dict.fromkeys(
                ("prm_weighted_vote", "confidence_weighted_vote", "inverse_entropy_vote")
            ),
            "completions": 32_000,
            "tokens_per_question": 1234.5,
            "tokens_saved": saved,
            "failed": 0,
            "p0_sources": ["predictor"],
        }
        for name, rule, saved in (
            ("mr_thinking", "last", -0.0004),
            ("markovscale_star", "prm_argmax", 0.25),
        )
    ]
    print_strategies(entries, synthetic=False)
    told = plain(capsys.readouterr().out)

    assert "…" not in told
    assert max(map(len, told.splitlines())) <= width
    assert told.count("0.700") == 4
    assert "-0.0%" not in told
