"""A whole run on Ray whose engine preempts requests: fewer chains work, then more again."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.driver.driver import Attempt
from benchmarks.chaos_count import count
from benchmarks.running import scripted_run
from pipeline.benchmarks import load
from pipeline.config.run import RunConfig
from pipeline.records.questions import questions_table
from pipeline.records.run_dir import RunDir

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.timeout(600),
]


def test_preemptions_lower_the_cap_and_clear_engines_raise_it(tmp_path: Path) -> None:
    """Eight slots and twelve chains, which come at once and are too many; half of the time of a
    chain goes to scoring, so that nothing waits with fewer. metrics.jsonl tells each change, and
    every chain has its outcome and every round is there once."""
    script = {
        "slots": 8,
        "preempts_above": 10,
        "tokens": 50,
        "tokens_per_s": 100.0,
        "score_s": 0.6,
    }
    path = scripted_run(tmp_path, scripted=script, size=90, n=4, strategies=["mr_thinking"])
    config = RunConfig.load(str(path))
    run = RunDir.create(config, "r")
    items = [item for source in config.science.benchmarks for item in load(source).items]
    table = questions_table(items, config.science.seed, config.science.priors)
    run.folder.write_table("questions.parquet", table)
    Attempt(run, config, 1).execute()
    rows = [row["admission"] for row in run.metrics()]
    caps = [row["cap"] for row in rows]
    fall = next(number for number, row in enumerate(rows) if row["cuts"])

    assert rows[fall]["pressure"] == "hard"
    assert caps[fall] < 12
    assert max(caps[fall + 1 :]) > caps[fall]
    assert all(8 <= row["limit"] <= row["cap"] <= row["ceiling"] == 24 for row in rows[fall:])
    assert max(row["in_flight"] for row in run.metrics()) <= 24
    assert rows[-1]["tokens_a_chain"] is not None
    counted = count(run, tmp_path / "witness")
    assert counted.right, counted
    assert (counted.chains, counted.rounds, counted.lost) == (90, 360, 0)
