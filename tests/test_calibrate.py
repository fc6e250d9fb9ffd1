"""Calibrated scores: fitted by a job, given by file, and decided by."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks.synthetic_pool import write_synthetic_pool
from jobs import calibrate, sweep
from pipeline.config.run import RunConfig
from pipeline.config.science import StrategyEntry
from pipeline.config.strategies import strategies_of
from pipeline.core.errors import ConfigError
from pipeline.core.origin import text_digest
from pipeline.core.protocol import Priors
from pipeline.replay.exact import drive
from pipeline.replay.pools import read_pool
from pipeline.statistics.calibration_maps import IsotonicMap
from pipeline.strategies.markovscale import MarkovScaleStar
from tests.generators import completion, question
from tests.report_runs import made_up_config

SWEEP = """
strategies:
  - {{kind: markovscale_star, n: 4, tau: [0.6, 0.9], calibration: [null, {file}]}}
priors: {{a: 0.06, b: 0.3}}
"""


@pytest.fixture
def fitted(tmp_path: Path) -> Path:
    """A map of a training pool."""
    write_synthetic_pool(str(tmp_path / "training"), questions=60, rounds=4, samples=4)
    out = tmp_path / "calibration.json"
    status = calibrate.main(["--pool", str(tmp_path / "training"), "--out", str(out)])
    assert status == 0
    return out


def test_the_job_writes_a_map_and_what_it_mends(
    fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Knots in order, the pool it was fitted on, and the error on questions held out."""
    again = ["--pool", str(fitted.parent / "training"), "--out", str(fitted)]
    assert calibrate.main(again) == 0
    written = json.loads(fitted.read_text())

    assert (written["kind"], written["fitted_on"]) == ("isotonic", "training")
    assert written["scores"] == sorted(written["scores"])
    assert written["held_out"]["after"]["n"] > 0
    assert "graded scores of 60 questions of training" in capsys.readouterr().out
    assert calibrate.main(["--pool", str(fitted.parent / "none"), "--out", "x.json"]) == 2


def test_questions_of_the_same_text_are_judged_together(fitted: Path) -> None:
    """Under two ids they are one question, which is not fitted in one half and judged in the other;
    nothing is told of ungraded completions."""
    pool = read_pool(str(fitted.parent / "training"))
    scores, right, once = calibrate.graded_scores(pool)
    twins = [
        replace(q, question=replace(q.question, benchmark="twin")) for q in pool.questions[:10]
    ]
    *_, twice = calibrate.graded_scores(replace(pool, questions=(*pool.questions, *twins)))

    assert len(scores) == len(right) == len(once) < len(twice)
    assert set(once) == set(twice)


def test_a_sweep_takes_a_map_and_refuses_one_that_saw_the_answers(
    fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Settings with and without the map stand side by side and say which is which; over the pool
    that the map was fitted on the sweep ends with one line."""
    write_synthetic_pool(str(tmp_path / "test"), questions=24, rounds=4, samples=4)
    (tmp_path / "grids.yaml").write_text(SWEEP.format(file=fitted))
    arguments = ["--config", str(tmp_path / "grids.yaml"), "--quiet"]

    assert sweep.main(["--pool", str(tmp_path / "training"), *arguments]) == 2
    assert "must be fitted on other questions" in capsys.readouterr().err
    values = json.loads(fitted.read_text())
    values["origin"]["questions"] = [text_digest("of another pool")]
    fitted.write_text(json.dumps(values))
    assert sweep.main(["--pool", str(tmp_path / "test"), *arguments]) == 0
    rows = pq.read_table(tmp_path / "test" / "sweep.parquet").to_pylist()
    used = [json.loads(row["settings"])["calibration"] for row in rows]
    assert {None if one is None else one["fitted_on"] for one in used} == {None, "training"}


def test_a_configuration_holds_the_map_itself(fitted: Path, tmp_path: Path) -> None:
    """Numbers and not the file's name are in the digest; without a map it is what it was."""
    entry = {"kind": "markovscale_star", "calibration": str(fitted)}
    config = made_up_config(tmp_path, strategies=[entry])
    (strategy,) = strategies_of(config.science).values()
    written = json.loads(fitted.read_text())

    assert isinstance(strategy, MarkovScaleStar)
    assert isinstance(strategy.calibration, IsotonicMap)
    assert list(strategy.calibration.scores) == written["scores"]
    again = RunConfig.parse(json.loads(config.model_dump_json()))
    fitted.unlink()
    assert again.science_digest() == config.science_digest()
    assert strategies_of(again.science) == strategies_of(config.science)
    plain = made_up_config(tmp_path, strategies=["markovscale_star"])
    assert plain.science_digest() != config.science_digest()
    assert "calibration" not in json.dumps(plain.model_dump(mode="json"))


@pytest.mark.parametrize(
    "given",
    [{"scores": [0.5, 0.2], "probabilities": [0, 1]}, {"slope": 1.0}, {"nothing": 1}],
)
def test_a_map_that_is_none_is_refused(given: dict[str, Any], tmp_path: Path) -> None:
    """Knots out of order and missing numbers, each naming the field."""
    path = tmp_path / "map.json"
    path.write_text(json.dumps(given))
    entry = StrategyEntry.model_validate({"kind": "markovscale_star", "calibration": str(path)})
    config = made_up_config(tmp_path, strategies=["base"])

    with pytest.raises(ConfigError, match="calibration"):
        strategies_of(config.science.model_copy(update={"strategies": (entry,)}))


def test_decisions_rest_on_the_mapped_score_and_answers_on_the_raw_one() -> None:
    """A verifier that says 0.9 of everything, right in half of the cases: taken at its word it ends
    the chain, mapped it does not."""
    asked = question(0, priors=Priors(p0=0.5, p0_source="predictor", a=0.1, b=0.3))
    flat = IsotonicMap(scores=(0.9,), probabilities=(0.5,))
    drawn = {}
    for name, calibration in (("raw", None), ("mapped", flat)):
        star = MarkovScaleStar(n=8, tau=0.749, gamma=2, gate=False, calibration=calibration)
        end = drive(star, asked, lambda request: completion(str(request.round), 0.9))
        assert end.stop.belief is not None
        drawn[name] = len(end.completions), end.stop.belief.path[-1]

    assert drawn["raw"][0] < drawn["mapped"][0] == 8
    assert drawn["mapped"][1] == pytest.approx(0.5)
