"""Training agree on the shipped pools: the file is one that a configuration reads."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.synthetic_pool import write_synthetic_pool
from jobs import sweep, train
from pipeline.config.weights import with_weights
from pipeline.core.errors import ConfigError
from pipeline.predictors.agreement_training import train_agreement
from pipeline.replay.pools import read_pool

POOLS = Path(__file__).parent.parent / "data" / "pools"


def test_the_weights_of_a_pool_are_calibrated_and_weigh_what_its_verifier_sees():
    """Of the sums, whose verifier tells answers apart, scores decide within a question; of the
    arithmetic they have no say. Both are calibrated on the questions held out."""
    sums = train_agreement(read_pool(str(POOLS / "sums")))
    arithmetic = train_agreement(read_pool(str(POOLS / "arithmetic")))

    assert max(sums.calibration_error, arithmetic.calibration_error) < 0.05
    assert sums.weights.w[1] + sums.weights.w[2] > 1
    assert abs(arithmetic.weights.w[1]) + abs(arithmetic.weights.w[2]) < 0.5
    assert sums.rounds_drawn < sums.chain_asc_rounds / 2
    assert sums.fitted_on + sums.held_out == 1_000


def test_what_was_not_graded_is_neither_right_nor_wrong():
    """Questions without gold, and rounds that no grader could judge, change neither the weights nor
    what is told of them by more than their number; a pool of nothing else is refused."""
    pool = read_pool(str(POOLS / "sums"))
    graded = train_agreement(pool)

    def without(verdict, unknown):
        return [
            replace(
                question,
                gold=question.gold if verdict else None,
                round_verdicts=tuple(
                    verdict if unknown(q, t) else v for t, v in enumerate(question.round_verdicts)
                ),
            )
            if any(unknown(q, t) for t in range(len(question.round_verdicts)))
            else question
            for q, question in enumerate(pool.questions)
        ]

    no_gold = without(None, lambda q, t: q % 3 == 0)
    for questions in (no_gold, without("ungraded", lambda q, t: (q + t) % 5 == 0)):
        card = train_agreement(replace(pool, questions=tuple(questions)))
        assert card.accuracy == pytest.approx(graded.accuracy, abs=0.01)
        assert card.calibration_error < 0.01
        assert card.weights.w == pytest.approx(graded.weights.w, abs=0.1)
        assert 0 < card.held_out <= graded.held_out
    known = [q for q, before in zip(no_gold, pool.questions, strict=True) if q is before]
    assert train_agreement(replace(pool, questions=tuple(known))) == train_agreement(
        replace(pool, questions=tuple(no_gold))
    )
    with pytest.raises(ConfigError, match="got 0 chains"):
        train_agreement(replace(pool, questions=tuple(without(None, lambda q, t: True))))


def test_the_job_writes_a_file_that_a_configuration_reads(tmp_path, capsys):
    """Without an engine; digest and card stand beside the numbers."""
    out = tmp_path / "weights"
    arguments = ["--pool", str(POOLS / "sums"), "--out", str(out), "--only", "agree"]

    assert train.main(arguments) == 0
    written = json.loads((out / "agree.json").read_text())
    read = with_weights({"weights": str(out / "agree.json")})["weights"]
    assert read == {"w": written["w"], "v": written["v"], "fitted_on": "sums"}
    assert written["digest"] in capsys.readouterr().out
    assert written["card"]["held_out"] > 100


def test_weights_that_were_changed_after_the_fit_are_refused(tmp_path):
    """By their digest, where the file has one; so are texts and flags in place of numbers."""
    weights = train_agreement(read_pool(str(POOLS / "sums"))).to_json()
    file = tmp_path / "agree.json"

    def read(**changed):
        file.write_text(json.dumps({**weights, **changed}))
        return with_weights({"weights": str(file)})

    assert read()["weights"]["w"] == list(weights["w"])
    with pytest.raises(ValueError, match="must be those of their digest"):
        read(w=[0, *weights["w"][1:]])
    for w in ("123", ["1", "2", "3"], [True, 0, 0], [1, 2], None):
        with pytest.raises(ValueError, match="3 and 8 numbers"):
            read(w=w)
    with pytest.raises(ValueError, match="all finite"):
        read(w=[float("nan"), 0, 0])


def test_an_export_is_known_by_its_run_too(tmp_path, capsys):
    """Weights that were fitted on a run are refused over its export, whatever that is called."""
    write_synthetic_pool(str(tmp_path / "export"), questions=24, rounds=4, samples=4)
    run = json.loads((tmp_path / "export" / "pool.json").read_text())["run"]
    weights = {"w": [2.5, 0, 0], "v": [0] * 8, "fitted_on": run}
    entry = {"kind": "agree", "n": 4, "weights": weights}
    (tmp_path / "grids.yaml").write_text(json.dumps({"strategies": [entry]}))

    command = ["--pool", str(tmp_path / "export"), "--config", str(tmp_path / "grids.yaml")]
    assert sweep.main(command) == 2
    assert f"got what was fitted on {run}" in capsys.readouterr().err


def test_a_sweep_refuses_weights_that_saw_the_answers(tmp_path, capsys):
    """Over the pool that they were fitted on it ends with one line; over another they are taken."""
    weights = {"w": [2.5, 0, 0], "v": [0] * 8, "fitted_on": "training"}
    (tmp_path / "agree.json").write_text(json.dumps(weights))
    entry = {"kind": "agree", "n": 4, "weights": str(tmp_path / "agree.json")}
    (tmp_path / "grids.yaml").write_text(json.dumps({"strategies": [entry]}))
    for name in ("training", "test"):
        write_synthetic_pool(str(tmp_path / name), questions=24, rounds=4, samples=4)
    arguments = ["--config", str(tmp_path / "grids.yaml"), "--quiet"]

    assert sweep.main(["--pool", str(tmp_path / "training"), *arguments]) == 2
    assert "weights of agree must be fitted on other questions" in capsys.readouterr().err
    assert sweep.main(["--pool", str(tmp_path / "test"), *arguments]) == 0


def test_a_pool_that_is_too_small_is_named(tmp_path, capsys):
    """Asked for nothing but these weights, it is an error that says what is needed."""
    arguments = ["--pool", str(POOLS / "sums"), "--benchmark", "none", "--only", "agree"]

    assert train.main([*arguments, "--out", str(tmp_path)]) == 2
    assert "none" in capsys.readouterr().err
