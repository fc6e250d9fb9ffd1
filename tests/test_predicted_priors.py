"""Predictions become priors: which value wins, what is written down, what a resume keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.pool_config import predicted_pool
from jobs.priors import fill_priors, predictor_of
from pipeline.config.run import RunConfig
from pipeline.config.science import PriorsConfig
from pipeline.core.errors import ConfigError
from pipeline.core.prompts import Prompts
from pipeline.predictors.features import template_digest
from pipeline.predictors.heads import (
    PREDICTOR_VERSION,
    Averages,
    Backbone,
    FittedSetting,
    Mlp,
    Predictor,
    PredictorCard,
    save_predictor,
)
from pipeline.predictors.priors import (
    earlier_predictions,
    priors_note,
    with_predictions,
    with_priors,
)
from pipeline.predictors.targets import Head
from pipeline.strategies.markovscale import MarkovScaleStar
from tests.generators import completion, question
from tests.live import config_of, create
from tests.pools import pool_of, pool_question

MEANING = "share of 7 transitions"
AVERAGES = Averages(
    a=0.05, b=0.2, meaning="average", pooled_a=0.1, pooled_b=0.3, pooled_meaning=MEANING
)


def constant_head(logit: float) -> Mlp:
    """A head that says the same of every question."""
    return Mlp(np.zeros(1), np.ones(1), ((np.zeros((1, 1)), np.array([logit])),))


HEADS = {
    Head.P0: Mlp(np.zeros(1), np.ones(1), ((np.ones((1, 1)), np.zeros(1)),)),
    Head.A: constant_head(-2.0),
    Head.B: constant_head(-1.0),
}


def card(**fields: Any) -> PredictorCard:
    defaults: dict[str, Any] = {
        "version": PREDICTOR_VERSION,
        "backbone": Backbone(model="m", revision="r"),
        "pooling": "last",
        "prompt_digest": "d",
        "benchmarks": ("s",),
        "questions": {"training": 7},
        "answers": 60,
        "averages": AVERAGES,
        "fitted": {"paper": FittedSetting(settings={}, reports={})},
        "use": "paper",
    }
    return PredictorCard(**{**defaults, **fields})


PREDICTOR = Predictor(address="pred", card=card(), heads={"paper": HEADS})


def row(number: int, **fields: Any) -> dict[str, Any]:
    """A question without priors."""
    empty = dict.fromkeys(("p0", "p0_source", "a", "b", "tokens_per_round"))
    return {"benchmark": "s", "question_id": str(number), **empty, **fields}


FEATURES = {("s", "0"): np.array([0.0]), ("s", "1"): np.array([2.0])}


def test_predictions_fill_what_nothing_else_gave() -> None:
    """p0 of each question, a and b from all training transitions."""
    filled = with_predictions([row(0), row(1)], PREDICTOR, FEATURES, PriorsConfig(predictor="pred"))

    assert [(r["p0"], r["p0_source"], r["a"], r["b"]) for r in filled] == [
        (0.5, "predictor", 0.1, 0.3),
        (pytest.approx(1 / (1 + np.exp(-2))), "predictor", 0.1, 0.3),
    ]


def test_configured_transitions_win_and_predicted_p0_wins() -> None:
    """science.priors.a and b, or a file's, stay; p0 is the predictor's in any case."""
    given = row(0, a=0.2, b=0.4, p0=0.9, p0_source="priors_file")
    (filled,) = with_predictions([given], PREDICTOR, FEATURES, PriorsConfig(predictor="pred"))

    assert (filled["a"], filled["b"]) == (0.2, 0.4)
    assert (filled["p0"], filled["p0_source"]) == (0.5, "predictor")


@pytest.mark.parametrize(
    ("priors", "meaning"),
    [
        (PriorsConfig(predictor="pred"), MEANING),
        (PriorsConfig(predictor="pred", transitions="question"), "each question's own"),
        (PriorsConfig(predictor="pred", transitions="average"), "average"),
        (PriorsConfig(predictor="pred", a=0.1, b=0.2), "as configured"),
    ],
)
def test_a_run_writes_down_which_average_is_meant(priors: PriorsConfig, meaning: str) -> None:
    """And which heads were judged on nothing."""
    note = priors_note(PREDICTOR, priors)

    assert note["a_and_b_are"].startswith(meaning)
    assert note["warnings"] == [
        f"{head} was judged on no held-out question" for head in ("p0", "a", "b")
    ]


def test_a_resume_keeps_the_predictions_it_began_with() -> None:
    """Only of questions that had one; others are predicted anew."""
    before = [
        row(0, p0=0.7, p0_source="predictor", a=0.1, b=0.3, tokens_per_round=9.0),
        row(1, p0=0.2, p0_source="priors_file"),
    ]
    kept = earlier_predictions([row(0), row(1), row(2)], before)

    assert kept == [before[0], row(1), row(2)]


def test_a_swept_pool_believes_what_a_live_run_would() -> None:
    """The priors of a sweep are those that the same section gives a run."""
    asked = [pool_question(question(n), [completion("1")], [], lambda _: "right") for n in (0, 1)]
    pool = pool_of(asked, rounds=1, samples=0)
    features = {q.key: np.array([2.0 * i]) for i, q in enumerate(pool.questions)}
    believed = with_priors(pool, PriorsConfig(predictor="pred"), PREDICTOR, features)
    plain = with_priors(pool, PriorsConfig(a=0.2, b=0.5))

    assert [q.question.priors.p0 for q in believed.questions] == [
        0.5,
        pytest.approx(1 / (1 + np.exp(-2))),
    ]
    assert {(q.question.priors.a, q.question.priors.p0) for q in plain.questions} == {(0.2, None)}
    settings = MarkovScaleStar(n=4).settings(believed.questions[0].question)
    assert (settings.p0_source, settings.a, settings.b) == ("predictor", 0.1, 0.3)


def tiny_config(tmp_path: Path, predictor: Path, **runtime: Any) -> RunConfig:
    """A run of the tiny generator with a predictor."""
    values = config_of(str(tmp_path), ["markovscale_star"], size=2).model_dump(mode="json")
    values["science"]["generator"] = {"model": "models/tiny-generator"}
    values["science"]["priors"] = {"predictor": str(predictor)}
    values["runtime"]["scripted"] = None
    values["runtime"].update(runtime)
    return RunConfig.parse(values)


def test_a_predictor_is_held_against_backbone_and_prompt_before_anything_starts(
    tmp_path: Path,
) -> None:
    """None is fine; one for another model is refused; scripted engines have no backbone."""
    from actors.training.backbone_features import backbone_of

    config = tiny_config(tmp_path, tmp_path / "pred")
    prompts = Prompts(first="{question}", revise="{question} was {answer}")
    save_predictor(str(tmp_path / "pred"), card(), {"paper": HEADS})

    assert predictor_of(config_of(str(tmp_path), ["base"])) is None
    with pytest.raises(ConfigError, match="was trained on features of m at r"):
        predictor_of(config)
    with pytest.raises(ConfigError, match="scripted engines have none"):
        predictor_of(tiny_config(tmp_path, tmp_path / "pred", scripted={}))
    mine = card(
        backbone=backbone_of(config.science.generator), prompt_digest=template_digest(prompts)
    )
    save_predictor(str(tmp_path / "pred"), mine, {"paper": HEADS})
    found = predictor_of(config)
    assert found is not None
    assert found.card == mine


def test_cached_features_fill_a_run_without_ray(tmp_path: Path) -> None:
    """questions.parquet gets the predictions, priors.json says where they come from; both stay when
    the predictor is trained anew."""
    from actors.training.backbone_features import backbone_of, cache_address
    from pipeline.predictors.features import FeatureCache, digest_of, messages_of, table_of
    from pipeline.records.run_dir import rows_of

    config = tiny_config(tmp_path, tmp_path / "pred")
    backbone = backbone_of(config.science.generator)
    prompts = config.science.prompts
    mine = card(backbone=backbone, prompt_digest=template_digest(prompts))
    save_predictor(str(tmp_path / "pred"), mine, {"paper": HEADS})
    run = create(config)
    texts = [r["text"] for r in rows_of(run.folder.read_table("questions.parquet"))]
    digests = [digest_of(messages_of(prompts, text)) for text in texts]
    cache = FeatureCache.of(cache_address(config), backbone, "last")
    cache.folder.write_table("a.parquet", table_of(digests, np.array([[0.0], [2.0]])))
    fill_priors(run, config)

    rows = rows_of(run.folder.read_table("questions.parquet"))
    assert [r["p0_source"] for r in rows] == ["predictor", "predictor"]
    assert rows[0]["p0"] == 0.5
    assert run.folder.read_json("priors.json")["a_and_b_are"] == MEANING

    trained_anew = replace(mine, averages=replace(AVERAGES, pooled_a=0.4, pooled_meaning="another"))
    save_predictor(str(tmp_path / "pred"), trained_anew, {"paper": HEADS})
    fill_priors(run, config)
    rows = rows_of(run.folder.read_table("questions.parquet"))
    told = run.folder.read_json("priors.json")
    assert (
        {row["a"] for row in rows} == {told["a"]} == {AVERAGES.pooled_a}
    )  # what the run began with


@pytest.mark.parametrize(
    ("fitted_on", "warned"), [("training", True), ("other", False), ("", False)]
)
def test_a_pool_whose_answers_the_predictor_saw_is_warned_of(
    fitted_on: str, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its priors are the predictor's all the same; cards of before say nothing of it."""
    from actors.training.backbone_features import backbone_of
    from pipeline.predictors.features import FeatureCache, digest_of, messages_of, table_of

    asked = [pool_question(question(n), [completion("1")], [], lambda _: "right") for n in (0, 1)]
    pool = pool_of(asked, rounds=1, samples=0)
    generator = pool.science.generator.model_copy(update={"model": "models/tiny-generator"})
    pool = replace(
        pool,
        address=str(tmp_path / "training"),
        science=pool.science.model_copy(update={"generator": generator}),
    )
    prompts, backbone = pool.science.prompts, backbone_of(generator)
    mine = card(backbone=backbone, prompt_digest=template_digest(prompts), fitted_on=fitted_on)
    save_predictor(str(tmp_path / "pred"), mine, {"paper": HEADS})
    digests = [digest_of(messages_of(prompts, q.question.text)) for q in pool.questions]
    cache = FeatureCache.of(str(tmp_path / "features"), backbone, "last")
    cache.folder.write_table("a.parquet", table_of(digests, np.array([[0.0], [2.0]])))

    priors = PriorsConfig(predictor=str(tmp_path / "pred"))
    believed = predicted_pool(pool, priors, str(tmp_path / "features"))

    assert [q.question.priors.p0_source for q in believed.questions] == ["predictor"] * 2
    assert ("of this pool" in caplog.text) is warned
