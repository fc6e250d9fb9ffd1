"""A whole run on Ray that its caps end, and that goes on with higher ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.driver.driver import Attempt
from actors.driver.limits import RunCappedError
from benchmarks.journals import read_journal
from benchmarks.running import scripted_run
from jobs.results import write_summary
from pipeline.benchmarks import load
from pipeline.config.run import RunConfig
from pipeline.records.questions import questions_table
from pipeline.records.run_dir import RunDir
from pipeline.replay.run import replay_run
from pipeline.report.run_data import read_run
from pipeline.report.run_progress import progress_of

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray"), pytest.mark.timeout(600)]

CAP, SLOTS, MOST, SPEED = 2_000, 8, 100, 200.0


def drawn(run: RunDir) -> int:
    """Completion tokens in the journal."""
    return sum(read_journal(run.journal).table["completion_tokens"].to_pylist())


@pytest.mark.slow
def test_a_capped_run_keeps_its_cap_and_goes_on_with_a_higher_one(tmp_path: Path) -> None:
    """It is passed by less than what was in flight and what is generated in three seconds. Finished
    questions have their outcomes, the rest none. The same cap ends the next attempt before engines
    start, as does a cap on wall hours that the attempts before have used up. With a higher cap the
    run is finished over the same journal, and replay agrees with every outcome."""
    script = {"slots": SLOTS, "tokens": 50, "tokens_per_s": SPEED}
    path = scripted_run(
        tmp_path,
        scripted=script,
        size=40,
        n=4,
        strategies=["base", "mr_thinking"],
        controllers={"actors": 2, "num_cpus": 0.1, "in_flight": 16},
    )

    def configured(**limits: Any) -> RunConfig:
        fields = [f"runtime.limits.{name}={value}" for name, value in limits.items()]
        return RunConfig.load(str(path), fields)

    config = configured(completion_tokens=CAP)
    run = RunDir.create(config, "r")
    items = [item for source in config.science.benchmarks for item in load(source).items]
    table = questions_table(items, config.science.seed, config.science.priors)
    run.folder.write_table("questions.parquet", table)
    with pytest.raises(RunCappedError, match=r"completion_tokens \d,\d+ of 2,000 spent; go on"):
        Attempt(run, config, 1).execute()
    spent, ended = drawn(run), run.outcomes()
    summary = write_summary(run, RunCappedError("completion_tokens", spent, CAP, "r").cap)
    metrics = run.metrics()[-1]

    assert CAP <= spent < CAP + 16 * MOST + 3 * SLOTS * SPEED
    assert metrics["limits"]["completion_tokens"]["spent"] == spent
    assert 0 < ended.num_rows < 80
    assert set(ended["error"].to_pylist()) == {None}
    assert summary["capped"] == {
        "name": "completion_tokens",
        "spent": spent,
        "cap": CAP,
        "attempt": 1,
    }
    assert sum(each["questions"] for each in summary["not_run"]) == 80 - ended.num_rows
    assert sum(entry["failed"] for entry in summary["strategies"]) == 0
    assert sum(entry["questions"] for entry in summary["strategies"]) == ended.num_rows
    assert progress_of(read_run(run.address)).limits["completion_tokens"]["spent"] == spent

    for again in (configured(completion_tokens=CAP), configured(wall_hours=1e-6)):
        number = run.resume(again)
        with pytest.raises(RunCappedError):
            Attempt(run, again, number).execute()
    assert (drawn(run), run.metrics()[-1]["attempt"]) == (spent, 1)
    assert read_run(run.address).capped is None  # attempts have begun since

    higher = configured(completion_tokens=100_000, wall_hours=1, usd=5, price_million_tokens=10)
    number = run.resume(higher)
    Attempt(run, higher, number).execute()
    whole = read_journal(run.journal).table
    account = run.metrics()[-1]["limits"]

    assert whole.num_rows == 40 * (1 + 4)
    assert account["completion_tokens"]["spent"] == drawn(run)
    assert account["usd"]["spent"] == pytest.approx(drawn(run) / 1e5, abs=1e-4)
    assert account["wall_hours"]["spent"] > run.metrics()[-1]["spent"]["wall_s"] / 3600
    assert run.outcomes().num_rows == 80
    found = replay_run(run)
    assert (found.differences, found.outcomes, found.unused) == ((), 80, 0)
