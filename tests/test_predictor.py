"""Heads learn what there is to learn, say when there is nothing, and serve one backbone only."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from actors.training.predictor import PAPER, TUNED, Fit, fit_heads
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.protocol import Failure
from pipeline.predictors.heads import (
    PREDICTOR_VERSION,
    Averages,
    Backbone,
    Mlp,
    Predictor,
    PredictorCard,
    load_predictor,
    predict,
    report_head,
    save_predictor,
)
from pipeline.predictors.targets import (
    Counts,
    Head,
    Part,
    Target,
    constant,
    in_part,
    part_of,
    targets_of,
)
from tests.generators import completion, question
from tests.pools import pool_of, pool_question

BACKBONE = Backbone(model="m", revision="r1")
AVERAGES = Averages(
    a=0.1, b=0.3, meaning="mean", pooled_a=0.05, pooled_b=0.2, pooled_meaning="pooled"
)


@cache
def made_up(n: int, *, informative: bool) -> tuple[list[Target], dict[tuple[str, str], np.ndarray]]:
    """Questions whose p0 is a function of their features, or has nothing to do with them."""
    rng = np.random.default_rng(0)
    targets, features = [], {}
    for i in range(n):
        x = rng.normal(size=6)
        z = 2.5 * x[0] - 1.5 * x[1] if informative else 2.5 * rng.normal()
        p = 1 / (1 + np.exp(-z))
        b_trials = int(rng.integers(0, 4))
        target = Target(
            benchmark="s",
            question_id=str(i),
            text=str(i),
            counts={
                Head.P0: Counts(successes=int(rng.binomial(60, p)), trials=60),
                Head.A: Counts(successes=0, trials=0),
                Head.B: Counts(successes=int(rng.binomial(b_trials, 0.3)), trials=b_trials),
            },
        )
        targets.append(target)
        features[target.key] = x
    return targets, features


@cache
def fitted(n: int, *, informative: bool) -> Fit:
    """Heads on `made_up` questions, from one tuned setting."""
    return fit_heads(*made_up(n, informative=informative), tuned=TUNED[:1])


def test_heads_learn_what_features_tell() -> None:
    """On questions never trained on, the tuned heads beat a constant and rank questions well."""
    fit = fitted(240, informative=True)
    reports = fit.fitted["tuned"].reports

    assert reports[Head.P0].beats_constant
    assert reports[Head.P0].rank_correlation > 0.85
    assert reports[Head.P0].ece < 0.08
    assert sum(fit.questions.values()) == 240


def test_heads_without_anything_to_learn_say_so() -> None:
    """Where features say nothing no head is reported to beat the constant, and a head of which no
    training question says anything (never right: nothing on a) is left out."""
    fit = fitted(240, informative=False)

    for setting in fit.fitted.values():
        assert not any(report.beats_constant for report in setting.reports.values())
    assert Head.A not in fit.heads["tuned"]
    report = fit.fitted["tuned"].reports[Head.P0]
    assert report.sentence.startswith("p0 does not beat a constant on ")


def test_fitting_is_repeatable() -> None:
    """The same seed gives the same weights."""
    targets, features = made_up(40, informative=True)
    first, again = (fit_heads(targets, features, tuned=TUNED[1:2], seed=3) for _ in range(2))
    x = np.array(list(features.values()))

    np.testing.assert_array_equal(
        first.heads["tuned"][Head.P0](x), again.heads["tuned"][Head.P0](x)
    )


def test_numpy_applies_heads_as_torch_does() -> None:
    """The forward pass of a saved head is that of the network it was fitted as."""
    import torch

    rng = np.random.default_rng(1)
    layers = (
        (rng.normal(size=(5, 3)), rng.normal(size=5)),
        (rng.normal(size=(1, 5)), rng.normal(size=1)),
    )
    mlp = Mlp(rng.normal(size=3), rng.uniform(0.5, 2, size=3), layers)
    x = rng.normal(size=(7, 3))
    z = torch.tensor((x - mlp.mean) / mlp.scale)
    z = torch.relu(z @ torch.tensor(layers[0][0]).T + torch.tensor(layers[0][1]))
    z = (z @ torch.tensor(layers[1][0]).T + torch.tensor(layers[1][1]))[:, 0]

    np.testing.assert_allclose(mlp(x), z.numpy())
    np.testing.assert_allclose(predict(mlp, x), torch.sigmoid(z).numpy())


def test_parts_are_decided_by_the_question_alone() -> None:
    """Disjoint, whole, and about 70, 10 and 20 of 100."""
    targets, _ = made_up(1_000, informative=False)
    parts = {part: in_part(targets, part) for part in Part}

    assert sum(map(len, parts.values())) == 1_000
    assert 630 < len(parts[Part.TRAINING]) < 770
    assert 60 < len(parts[Part.VALIDATION]) < 140
    assert part_of(("s", "1")) is part_of(("s", "1"))
    assert {part_of(("s", str(i))) for i in range(50)} == set(Part)


def test_the_same_question_twice_is_in_one_part() -> None:
    """Under another id or benchmark it is not held out from itself; what stands once stays."""
    targets, _ = made_up(60, informative=True)
    twins = [replace(target, benchmark="twin") for target in targets]
    for part in Part:
        once, twice = in_part(targets, part), in_part([*targets, *twins], part)
        assert twice == [*once, *(replace(target, benchmark="twin") for target in once)]


def test_targets_count_answers_and_transitions() -> None:
    """Ungraded answers and failures leave the counts; only the first answers count for p0."""
    verdict = {"1": "right", "2": "wrong", "3": "ungraded"}
    chain = [completion(a, completion_tokens=10) for a in "1123"]
    chain[3:] = [Failure(error="lost")]
    samples = [completion(a) for a in "1311"]
    asked = pool_question(question(), chain, samples, lambda c: verdict[str(c.answer)])
    (target,) = targets_of(pool_of([asked]), answers=3)

    assert target.counts == {
        Head.P0: Counts(successes=2, trials=2),
        Head.A: Counts(successes=1, trials=2),
        Head.B: Counts(successes=0, trials=0),
    }
    assert constant([target], Head.A) == 0.5
    assert constant([target], Head.B) is None


def test_a_pool_too_shallow_to_train_on_is_refused() -> None:
    """Fewer samples than asked for, or no transition."""
    asked = pool_question(question(), [completion("1")], [completion("1")], lambda c: "right")

    with pytest.raises(
        ConfigError, match=r"must have 60 samples a question to train p0 on, .* has 4"
    ):
        targets_of(pool_of([asked]))
    with pytest.raises(ConfigError, match="chains of at least 2 rounds"):
        targets_of(pool_of([asked], rounds=1), answers=4)


def test_no_constant_beats_the_constant() -> None:
    """Where questions have unlike many trials, the constant that a head is held against is the best
    one under the loss: neither it nor any other constant has a gain beyond its uncertainty."""
    rng = np.random.default_rng(5)
    targets = []
    for i in range(600):
        trials = int(rng.choice([4, 60]))
        successes = rng.binomial(trials, 2.4 / (trials + 4))
        counts = Counts(successes=int(successes), trials=trials)
        targets.append(Target(benchmark="s", question_id=str(i), text="", counts={Head.P0: counts}))
    training, held_out = targets[:300], targets[300:]
    best = constant(training, Head.P0)
    assert best is not None

    for other in (best, 1.2 * best):
        report = report_head(Head.P0, held_out, np.full(300, other), best)
        assert report is not None
        assert not report.beats_constant


def chain_targets(a_Q: np.ndarray, seed: int) -> list[Target]:
    """Transitions from right answers in simulated chains of 8 rounds with b 0.25 and p0 0.6."""
    rng = np.random.default_rng(seed)
    right_Q = rng.random(len(a_Q)) < 0.6
    trials_Q, lost_Q = np.zeros(len(a_Q), int), np.zeros(len(a_Q), int)
    for _ in range(7):
        moved_Q = rng.random(len(a_Q)) < np.where(right_Q, a_Q, 0.25)
        trials_Q, lost_Q = trials_Q + right_Q, lost_Q + (right_Q & moved_Q)
        right_Q = right_Q != moved_Q
    return [
        Target(
            benchmark="s",
            question_id=str(q),
            text="",
            counts={Head.A: Counts(successes=int(lost_Q[q]), trials=int(trials_Q[q]))},
        )
        for q in range(len(a_Q))
    ]


def test_the_truth_beats_a_constant_and_never_loses_to_one() -> None:
    """On 2,000 held-out chains the exact a of each question wins against the constant where
    questions differ, and against the paper's biased mean where they do not; against the pooled
    share it then ties."""
    apart = np.where(np.arange(2_000) % 2 == 0, 0.02, 0.3)
    fallback = constant(chain_targets(apart, 1), Head.A)
    assert fallback is not None
    differ = report_head(Head.A, chain_targets(apart, 2), apart, fallback)
    same = np.full(2_000, 0.1)
    biased = report_head(Head.A, chain_targets(same, 2), same, 0.163)
    pooled = constant(chain_targets(same, 1), Head.A)
    assert pooled is not None
    tie = report_head(Head.A, chain_targets(same, 2), same, pooled)

    assert differ is not None
    assert differ.beats_constant
    assert biased is not None
    assert biased.beats_constant
    assert tie is not None
    assert tie.gain_low < 0 < tie.gain_high
    assert pooled == pytest.approx(0.1, abs=0.01)


def saved(folder: Path) -> Predictor:
    fit = fitted(80, informative=True)
    card = PredictorCard(
        version=PREDICTOR_VERSION,
        backbone=BACKBONE,
        pooling="last",
        prompt_digest="d",
        benchmarks=("s",),
        questions=fit.questions,
        answers=60,
        averages=AVERAGES,
        fitted=fit.fitted,
        use="tuned",
    )
    save_predictor(str(folder), card, fit.heads)
    return load_predictor(str(folder))


def test_a_saved_predictor_predicts_as_before_and_says_what_it_is(tmp_path: Path) -> None:
    """Weights survive in single precision; the card survives whole."""
    targets, features = made_up(80, informative=True)
    fit = fitted(80, informative=True)
    predictor = saved(tmp_path)
    x = np.array([features[t.key] for t in targets])

    assert set(predictor.predict(x)) == {Head.P0, Head.B}
    for head, values in predictor.predict(x).items():
        np.testing.assert_allclose(values, predict(fit.heads["tuned"][head], x), rtol=1e-4)
    assert predictor.card.fitted == fit.fitted
    assert [w for w in predictor.warnings() if w.startswith("b does not beat a constant")]


def test_another_backbone_or_prompt_is_refused(tmp_path: Path) -> None:
    """Features of another model mean something else."""
    predictor = saved(tmp_path)
    predictor.check_backbone(BACKBONE, "d")

    with pytest.raises(ConfigError, match=r"trained on features of m at r1, .* is m at r2"):
        predictor.check_backbone(replace(BACKBONE, revision="r2"), "d")
    with pytest.raises(ConfigError, match="another first prompt"):
        predictor.check_backbone(BACKBONE, "e")


def test_a_fit_that_diverges_is_an_error_and_no_predictor() -> None:
    """It names the head and the rate."""
    wild = replace(PAPER, learning_rate=1e30, epochs=2)
    with pytest.raises(ConfigError, match=r"fit of p0 must have a finite loss.* 1e\+30"):
        fit_heads(*made_up(60, informative=True), paper=wild, tuned=TUNED[:1])


def test_a_folder_that_is_no_predictor_is_named(tmp_path: Path) -> None:
    """Missing, of another version, with a setting that was not fitted, or with torn weights or
    such as are no numbers."""
    with pytest.raises(ConfigError, match=r"must be a folder that jobs.train wrote"):
        load_predictor(str(tmp_path))
    saved(tmp_path)
    heads = tmp_path / "heads.safetensors"
    heads.write_bytes(heads.read_bytes()[:50])
    with pytest.raises(DataError, match=r"heads.safetensors cannot be read"):
        load_predictor(str(tmp_path))
    card = tmp_path / "predictor.json"
    saved(tmp_path)
    whole, text = load_tensors(heads.read_bytes()), card.read_text()
    whole["tuned.p0.0.bias"][0] = np.nan
    heads.write_bytes(save_tensors(whole))
    with pytest.raises(DataError, match=r"must be what .*predictor.json was written with"):
        load_predictor(str(tmp_path))
    without = {k: v for k, v in json.loads(text).items() if k != "heads_sha256"}
    text = json.dumps(without)  # as earlier versions wrote it
    card.write_text(text)
    with pytest.raises(DataError, match=r"heads.safetensors must hold finite tuned\.p0"):
        load_predictor(str(tmp_path))
    card.write_text(text.replace('"use": "tuned"', '"use": "none"'))
    with pytest.raises(DataError, match=r"use must be one of paper, tuned, best, got 'none'"):
        load_predictor(str(tmp_path))
    card.write_text(json.dumps({**without, "fitted": {"tuned": 1}}))
    with pytest.raises(DataError, match=r"predictor.json must describe a predictor"):
        load_predictor(str(tmp_path))
    card.write_text("[1]")
    with pytest.raises(DataError, match=r"predictor version must be 1, got None"):
        load_predictor(str(tmp_path))
    card.write_text(text.replace('"version": 1', '"version": 9'))
    with pytest.raises(DataError, match=r"predictor version must be 1, got 9 in .*predictor.json"):
        load_predictor(str(tmp_path))
