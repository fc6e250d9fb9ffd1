"""A phase through real Ray Data: every question has its outcome, in few files."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.driver.driver import Attempt
from pipeline.config.run import RunConfig
from tests.attempts import new_run

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(300)]

QUESTIONS = 2_000


def test_a_large_phase_writes_few_files(tmp_path: Path, local_ray: None) -> None:
    """At most fifty, where one a block would be 250; and nobody is missing or twice there."""
    config = RunConfig.parse(
        {
            "name": "many",
            "science": {
                "benchmarks": [{"name": "arithmetic", "size": QUESTIONS}],
                "strategies": ["base"],
                "generator": {"model": "none"},
            },
            "runtime": {
                "runs": str(tmp_path),
                "scripted": {},
                "generator": {"num_gpus": 0, "num_cpus": 0.1},
                "journal_flush_s": 0.5,
                "controllers": {"num_cpus": 0.1, "in_flight": 500},
            },
        }
    )
    run = new_run(config)

    Attempt(run, config, 1).execute()

    files = run.folder.child("outcomes", "attempt-1-phase-0").names()
    asked = [row["question_id"] for row in run.outcomes().to_pylist()]
    assert len(files) <= 50
    assert len(asked) == len(set(asked)) == QUESTIONS
