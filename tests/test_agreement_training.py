"""Weights of agree: the fit finds what made answers right; the file is one that runs read."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.synthetic_pool import write_synthetic_pool
from jobs import sweep, train
from pipeline.config.science import with_weights
from pipeline.core.errors import ConfigError
from pipeline.predictors.agreement_training import (
    _observations,
    fit_agreement,
    looked_at,
    train_agreement,
)
from pipeline.replay.pools import read_pool
from pipeline.statistics.agreement import VOTE, AgreementWeights, agreement
from pipeline.strategies.chain_agreement import Agree

POOLS = Path(__file__).parent.parent / "data" / "pools"


@cache
def shallow(name):
    """The first 300 questions of a shipped pool, 12 rounds each."""
    pool = read_pool(str(POOLS / name))
    questions = [
        replace(q, rounds=q.rounds[:12], round_verdicts=q.round_verdicts[:12])
        for q in pool.questions[:300]
    ]
    return replace(pool, rounds=12, questions=tuple(questions))


@cache
def trained(name):
    """The training on it, made once."""
    return train_agreement(shallow(name))


def world(rng, *, questions, rounds=8, verifier_sees=True):
    """Chains of a right answer and three wrong ones; scores tell them apart, or only noise."""
    skill = rng.uniform(0.2, 0.9, questions)[:, None]
    right = rng.random((questions, rounds)) < skill
    said = np.where(right, 0, rng.integers(1, 4, (questions, rounds)))
    form = np.empty_like(said)
    for q, row in enumerate(said):
        seen = {}
        form[q] = [seen.setdefault(int(value), len(seen)) for value in row]
    shift = np.where(right, 0.08, -0.08) if verifier_sees else 0.0
    score = np.clip(0.5 + shift + rng.normal(0, 0.2, right.shape), 0, 1)
    return form, score, right, np.full(questions, rounds)


def leading_is_right(weights, form, score, right):
    """Share of questions whose leading answer after the last round is right."""
    leads = agreement(form, score, weights).leading_QT[:, -1]
    first = (form == leads[:, None]).argmax(axis=1)
    return float(right[np.arange(len(form)), first].mean())


def test_a_verifier_that_sees_gets_a_say_and_one_that_does_not_gets_none():
    """On new questions scores make more leading answers right for the first, no fewer for the
    second."""
    rng = np.random.default_rng(1)
    gains = {}
    for sees in (True, False):
        fitted = world(rng, questions=400, verifier_sees=sees)
        form, score, right, _ = world(rng, questions=2_000, verifier_sees=sees)
        with_scores, without = fit_agreement(*fitted), fit_agreement(*fitted, scores=False)
        gains[sees] = leading_is_right(with_scores, form, score, right) - leading_is_right(
            without, form, score, right
        )

    assert gains[True] > 0.005
    assert abs(gains[False]) < 0.005


def test_fitted_probabilities_are_calibrated_on_questions_not_seen():
    """Over bins of held-out P(leading answer is right), what is said and what is are close."""
    rng = np.random.default_rng(2)
    weights = fit_agreement(*world(rng, questions=600))
    form, score, right, _ = world(rng, questions=2_000)
    found = agreement(form, score, weights)
    leads = found.leading_QT[:, -1]
    first = (form == leads[:, None]).argmax(axis=1)
    is_right = right[np.arange(len(form)), first]
    said = found.probability_QT[:, -1]
    edges = np.quantile(said, [0.25, 0.5, 0.75])
    gaps = [
        abs(said[at].mean() - is_right[at].mean())
        for at in (np.digitize(said, edges) == b for b in range(4))
        if at.any()
    ]

    assert max(gaps) < 0.06


@pytest.mark.parametrize("like", [AgreementWeights(w=(0.0,) * 6, v=(0.0,) * 10), VOTE])
def test_the_gradient_is_that_of_the_likelihood(like):
    """Central differences agree with it in every weight, of both versions."""
    rng = np.random.default_rng(3)
    form, score, right, length = world(rng, questions=40)
    seen = _observations(form, score, right, length, np.ones_like(right), like)
    split = len(like.w)
    theta = rng.normal(0, 0.5, split + len(like.v))
    _, gradient = seen.log_likelihood(theta[:split], theta[split:])
    for i in range(len(theta)):
        step = np.zeros(len(theta))
        step[i] = 1e-6
        ends = [
            seen.log_likelihood(at[:split], at[split:])[0] for at in (theta + step, theta - step)
        ]

        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(gradient[i], rel=1e-4, abs=1e-5)


def test_too_little_to_fit_on_is_refused():
    """Few chains, or no wrong answer anywhere, is an error that says what is needed."""
    form, score, right, length = world(np.random.default_rng(4), questions=40)
    with pytest.raises(ConfigError, match="at least 30 chains"):
        fit_agreement(form[:10], score[:10], right[:10], length[:10])
    with pytest.raises(ConfigError, match="100% of their answers right"):
        fit_agreement(form, score, np.ones_like(right), length)
    assert looked_at(10) == [1, 2, 3, 4, 6, 8, 10]


@pytest.mark.slow
def test_the_weights_of_a_pool_are_calibrated_and_weigh_what_its_verifier_sees():
    """Of the sums, whose verifier tells answers apart, scores decide within a question; of the
    arithmetic they have no say. Both are calibrated on the questions held out."""
    sums, arithmetic = trained("sums"), trained("arithmetic")

    seeing, blind = sums.with_scores, arithmetic.with_scores
    assert seeing is not None
    assert blind is not None
    assert max(seeing.calibration_error, blind.calibration_error) < 0.1
    assert seeing.weights.w[3] + seeing.weights.w[4] > 1
    assert abs(blind.weights.w[3]) + abs(blind.weights.w[4]) < 0.5
    assert seeing.rounds_drawn < seeing.chain_asc_rounds / 2
    assert seeing.fitted_on + seeing.held_out == 300
    assert sums.recommended is seeing
    assert arithmetic.recommended is arithmetic.without


def test_what_was_not_graded_is_neither_right_nor_wrong():
    """Questions without gold, and rounds that no grader could judge, change neither the weights nor
    what is told of them by more than their number; a pool of nothing else is refused."""
    pool = shallow("sums")
    graded = trained("sums").recommended

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
    found = [
        train_agreement(replace(pool, questions=tuple(questions)))
        for questions in (no_gold, without("ungraded", lambda q, t: (q + t) % 5 == 0))
    ]
    for card in (each.recommended for each in found):
        assert card.accuracy == pytest.approx(graded.accuracy, abs=0.01)
        assert card.calibration_error < 0.05
        assert len(card.weights.w) == len(graded.weights.w)
        assert 0 < card.held_out <= graded.held_out
    known = [q for q, before in zip(no_gold, pool.questions, strict=True) if q is before]
    assert train_agreement(replace(pool, questions=tuple(known))) == found[0]
    with pytest.raises(ConfigError, match="got 0 chains"):
        train_agreement(replace(pool, questions=tuple(without(None, lambda q, t: True))))


def test_the_job_writes_a_file_that_a_configuration_reads(tmp_path, capsys, monkeypatch):
    """Without an engine; digest and card stand beside the numbers."""
    out = tmp_path / "weights"
    monkeypatch.setattr("pipeline.replay.pools.read_pool", lambda _: shallow("sums"))
    arguments = ["--pool", "made up", "--out", str(out), "--only", "agree"]

    assert train.main(arguments) == 0
    written = json.loads((out / "agree.json").read_text())
    read = with_weights({"weights": str(out / "agree.json")})["weights"]
    assert {**read, "origin": None} == {
        **{name: written[name] for name in ("w", "v")},
        **{"fitted_on": "sums", "origin": None},
    }
    assert len(read["origin"]["questions"]) == written["card"]["fitted_on"]
    assert written["digest"] in capsys.readouterr().out
    assert written["card"]["held_out"] > 40


def test_weights_that_were_changed_after_the_fit_are_refused(tmp_path):
    """By their digest, where the file has one; so are texts and flags in place of numbers."""
    weights = trained("sums").recommended.to_json()
    file = tmp_path / "agree.json"

    def read(**changed):
        file.write_text(json.dumps({**weights, **changed}))
        return with_weights({"weights": str(file)})

    assert read()["weights"]["w"] == list(weights["w"])
    with pytest.raises(ValueError, match="must be those of their digest"):
        read(w=[0, *weights["w"][1:]])
    for w in ("123", ["1", "2", "3"], [True, 0, 0], [1, 2], None):
        with pytest.raises(ValueError, match="6 and 10 numbers"):
            read(w=w)
    with pytest.raises(ValueError, match="all finite"):
        read(w=[float("nan"), *weights["w"][1:]])


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


def test_questions_are_known_by_their_texts_and_not_by_the_name_of_their_pool():
    """A pool with shared questions is refused whatever it is called; one without is not, and what
    differs in model or prompts is named."""
    weights = trained("sums").recommended.weights
    settings = [("agree", Agree(weights=weights))]

    with pytest.raises(ConfigError, match="of the 300 that are swept"):
        sweep._check_held_out(settings, replace(shallow("sums"), address="other"))
    others = [
        replace(each, question=replace(each.question, text=f"{each.question.text}!"))
        for each in shallow("sums").questions
    ]
    sweep._check_held_out(settings, replace(shallow("sums"), questions=tuple(others)))
