"""`jobs.forecast`, from pilot runs and exported pools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.synthetic_pool import write_synthetic_pool
from jobs import forecast
from pipeline.planning.pilot import forecast_chains, forecast_tokens
from pipeline.report.forecast import speed_of
from pipeline.report.run_data import read_run
from pipeline.statistics.paired import pairs_needed
from tests.report_runs import MadeUp, made_up_config, metric_rows, question_rows, write_run


def a_pilot(folder: Path, questions: int = 40, **fields: Any) -> str:
    """A made-up run of MR-Thinking, ^* and base, 8 completions at most."""
    config = made_up_config(folder, strategies=["mr_thinking", "markovscale_star", "base"])
    return write_run(config, "pilot", question_rows(questions, ["made-up"]), **fields).address


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """What `--json` prints."""
    assert forecast.main([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_chain_is_forecast_by_round_and_others_as_they_were_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MR-Thinking stands at 1, 2, 4, ..., N by the pure functions, beyond the pilot's rounds too;
    ^* and base stand once, with the pilot's share inside their interval."""
    pilot = a_pilot(tmp_path)
    (cell,) = (cell for cell in read_run(pilot).cells if cell.kind == "mr_thinking")
    right = np.array([[v == "right" for v in row["round_verdicts"]] for row in cell.rows], float)
    tokens = np.array([row["round_tokens"] for row in cell.rows], float)
    found = told(capsys, "--run", pilot, "--questions", "500", "--rounds", "24")
    chain = [f for f in found["forecasts"] if f["label"] == "mr_thinking"]
    others = [f for f in found["forecasts"] if f["label"] != "mr_thinking"]
    expected = forecast_chains(right, [15, 23], of=500)

    assert [f["completions"] for f in chain] == [1, 2, 4, 8, 16, 24]
    assert [f["accuracy"]["high"] for f in chain[-2:]] == [i.high for i in expected]
    assert chain[-1]["tokens"]["low"] == forecast_tokens(tokens, 24, 500).low
    assert [f["seen"] is None for f in chain] == [False] * 4 + [True] * 2
    assert {(f["label"], f["completions"]) for f in others} == {
        ("markovscale_star", 8),
        ("base", 1),
    }
    assert all(f["accuracy"]["low"] <= f["seen"] <= f["accuracy"]["high"] for f in others)
    assert found["whole_run"]["tokens"]["value"] == pytest.approx(
        sum(f["tokens"]["value"] for f in [chain[-1], *others])
    )


def test_the_questions_that_a_difference_needs_follow_from_the_pilot_s_discordant_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two named strategies, or the best one against MR-Thinking; a smaller difference needs more;
    the printed line has the number."""
    pilot = a_pilot(tmp_path)
    cells = {cell.label: cell for cell in read_run(pilot).cells}
    base, star = (cells[label].rights(cells[label].rule) for label in ("base", "markovscale_star"))
    share = np.mean([base[key] != star[key] for key in base])
    pair = ["--strategy", "markovscale_star", "--strategy", "base"]
    (named,) = told(capsys, "--run", pilot, *pair)["power"]
    (best,) = told(capsys, "--run", pilot, "--difference", "2")["power"]

    assert named["discordant"]["value"] == pytest.approx(share)
    assert named["questions"]["value"] == pairs_needed(0.05, max(0.05, share))
    assert named["questions"]["low"] <= named["questions"]["value"] <= named["questions"]["high"]
    assert named["repeats"] == -(-named["questions"]["value"] // 30)
    assert best["second"] == "mr_thinking"
    assert best["questions"]["value"] > pairs_needed(0.05, 0.05)
    assert forecast.main(["--run", pilot, *pair]) == 0
    assert f"takes {named['questions']['value']:,} questions" in capsys.readouterr().out


def test_gpu_hours_and_money_follow_from_tokens_and_the_speed_that_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both prices, with the speed given; a price a GPU hour without any speed is refused."""
    pilot = a_pilot(tmp_path, metrics=False)
    prices = ["--price-gpu-hour", "2", "--price-million-tokens", "3"]
    found = told(capsys, "--run", pilot, *prices, "--tokens-per-gpu-second", "100")
    whole = found["whole_run"]

    assert whole["gpu_hours"]["low"] == pytest.approx(whole["tokens"]["low"] / 100 / 3600)
    assert whole["price_by_gpu_hours"]["high"] == pytest.approx(2 * whole["gpu_hours"]["high"])
    assert whole["price_by_tokens"]["value"] == pytest.approx(3e-6 * whole["tokens"]["value"])
    assert any("100 tokens a GPU second, as given" in note for note in found["notes"])
    assert forecast.main(["--run", pilot, *prices]) == 2
    assert "--tokens-per-gpu-second must be given" in capsys.readouterr().err


def test_the_speed_is_that_of_the_time_in_which_chains_were_at_work() -> None:
    """Idle time at the end, with no chain at work, costs nothing; verifiers' GPUs count; without
    GPUs there is no speed."""
    outcome = {"stop_reason": "budget", "completions": 8, "completion_tokens": 800}
    rows = metric_rows([outcome] * 24, ["mr_thinking"])
    idle = {**rows[-1], "time": rows[-1]["time"] + 5_000, "in_flight": 0}
    speed = speed_of([*rows, idle], {"generator": 2.0, "verifier": 1.0})

    assert speed is not None
    assert (speed.tokens, speed.gpu_s) == (pytest.approx(24 * 800), pytest.approx(120 * 3))
    assert speed_of(rows, {"generator": 0.0, "verifier": 0.0}) is None
    assert speed_of([], {"generator": 1.0}) is None


def test_a_failed_chain_is_wrong_and_a_question_without_gold_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A chain lost in round 1 is wrong from there on, which is told; what has no gold is counted as
    left out."""
    config = made_up_config(tmp_path, strategies=["mr_thinking"], n=4)
    rows = question_rows(20, ["made-up"])
    for row in rows[:3]:
        row["gold"] = None
    always = MadeUp(chain=(1 - 1e-9, 0.0, 1.0), failing=["q10", "q11"])
    pilot = write_run(config, "pilot", rows, always).address
    found = told(capsys, "--run", pilot)
    chain = found["forecasts"]

    assert any(said.startswith("2 of 20 chains failed") for said in found["cautions"])
    assert {(f["pilot"], f["left_out"], f["questions"]) for f in chain} == {(17, 3, 20)}
    assert [f["seen"] for f in chain] == pytest.approx([1, 15 / 17, 15 / 17])


def test_an_exported_pool_is_a_pilot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its chains are forecast by round, its samples as a vote; it has no speed, and being made by
    scripts it says so."""
    address = str(tmp_path / "pool")
    write_synthetic_pool(address, questions=200, rounds=4, samples=3)
    found = told(capsys, "--run", address, "--rounds", "8", "--questions", "100")
    kinds = {(f["benchmark"], f["label"], f["completions"]) for f in found["forecasts"]}

    assert ("gsm8k", "sequential", 8) in kinds
    assert ("gsm8k", "parallel", 3) in kinds
    assert found["tokens_per_gpu_second"] is None
    assert "no model did" in found["cautions"][0]


@pytest.mark.parametrize(
    ("questions", "arguments", "message"),
    [
        (6, [], "at least 10 graded questions a benchmark and strategy, got 6 of 6 in made-up"),
        (20, ["--strategy", "base", "--strategy", "x"], "two strategies of the pilot must be"),
    ],
)
def test_what_cannot_be_a_pilot_ends_with_one_line(
    questions: int,
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Status 2, and what must hold."""
    assert forecast.main(["--run", a_pilot(tmp_path, questions), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("right", [np.zeros((12, 1)), np.ones((12, 1)), np.eye(12)[:, :2]])
def test_a_pilot_of_hardly_any_rounds_is_told_with_wide_intervals(right: np.ndarray) -> None:
    """All wrong, all right, or one round alone: no warning, an interval within [0, 1] that holds
    its value and is wider for later rounds."""
    first, last = forecast_chains(right, [0, 63], of=100)

    for interval in (first, last):
        assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert last.high - last.low >= 0.9 * (first.high - first.low)


def test_a_benchmark_with_too_few_questions_does_not_keep_the_others_from_a_forecast(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named with what it has; the whole run is told of the others."""
    address = str(tmp_path / "pool")
    write_synthetic_pool(address, questions=120, rounds=4, samples=0)
    found = told(capsys, "--run", address)

    assert {f["benchmark"] for f in found["forecasts"]} == {"math500", "gsm8k"}
    assert any("2 of 2 in aime24, sequential" in note for note in found["notes"])
    assert found["whole_run"]["tokens"]["value"] > 0
