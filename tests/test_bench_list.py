"""Benchmarks that tests can run in little time."""

from __future__ import annotations

import json

import pytest

from benchmarks import resume


@pytest.mark.slow
def test_a_run_that_is_gone_on_with_has_all_its_questions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Driver and controller find what was recorded; each is measured in a process of its own."""
    resume.main(["--questions", "40", "--rounds", "2", "--characters", "100"])

    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (figures["rows"], figures["left"]) == (80, 40)
    assert min(figures["driver_s"], figures["controller_s"]) > 0
