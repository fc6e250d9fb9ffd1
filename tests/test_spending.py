"""The account of an attempt, by a clock that is turned by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.driver.limits import RunCappedError, Spending
from pipeline.config.runtime import RuntimeConfig
from pipeline.records.run_dir import RunDir
from tests.live import config_of, create


class Clock:
    """Seconds that pass when they are told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def totals(tokens: int, **more: Any) -> dict[str, Any]:
    return {"completion_tokens": tokens, "wasted_tokens": 0, "judge_tokens": 0, **more}


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A run without a journal, whose first attempt took an hour on two GPUs."""
    made = create(config_of(str(tmp_path), ["base"]))
    made.write_metrics(
        [{"attempt": 1, "time": 0.0, "spent": {"gpu_s": 7_200.0, "wall_s": 3_600.0}}]
    )
    return made


def runtime(**limits: float) -> RuntimeConfig:
    return RuntimeConfig.model_validate(
        {"generator": {"num_gpus": 2, "replicas": 2}, "verifier": {"num_gpus": 0}, "limits": limits}
    )


def test_gpus_count_from_the_start_of_the_engines(run: RunDir) -> None:
    """Those of all replicas, whether or not they answer yet; wall time from the start of the
    attempt; both go on from the attempts before."""
    clock = Clock()
    account = Spending(run, runtime(gpu_hours=10, wall_hours=9), ["generator", "verifier"], clock)
    clock.now += 600
    account.engines_start()
    clock.now += 3_600
    account.look(totals(0), {})
    told = account.figures()

    assert told["spent"] == {"gpu_s": 4 * 3_600.0, "wall_s": 4_200.0}
    assert told["limits"]["gpu_hours"]["spent"] == pytest.approx(6.0)
    assert told["limits"]["wall_hours"]["spent"] == pytest.approx(1 + 4_200 / 3_600)
    assert account.reason() is None
    clock.now += 3_600
    account.look(totals(5), {})
    with pytest.raises(RunCappedError, match=r"gpu_hours 10 of 10 spent; go on with --resume"):
        raise account.reason()  # type: ignore[misc]  # it is one


def test_what_the_judge_takes_counts(run: RunDir) -> None:
    """Its tokens, read and written, are spent and cost as those of completions do."""
    capped = runtime(completion_tokens=150, usd=9, price_million_tokens=1e5)
    account = Spending(run, capped, ["generator"], Clock())
    account.look(totals(100, judge_tokens=49), {})
    spent = account.figures()["limits"]

    assert spent["completion_tokens"]["spent"] == 149
    assert spent["usd"]["spent"] == pytest.approx(14.9)
    reason = account.reason()
    assert reason is not None
    assert reason.cap.name == "usd"
