"""Priors of served questions by a predictor: as a batch run would have filled them in."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.engines.feature_actor import FeatureActor
from actors.serving.chat_request import ApiError
from actors.serving.deployment import priors_by, start_priors
from actors.serving.served_models import template_question
from pipeline.config.run import RunConfig
from pipeline.predictors.features import digest_of, messages_of
from pipeline.predictors.heads import Mlp
from pipeline.predictors.priors import with_predictions
from pipeline.predictors.targets import Head
from tests.conftest import TINY_GENERATOR, TINY_POOL
from tests.test_predicted_priors import PREDICTOR, tiny_config

TEXTS = ("23*45+6-7?", "912*11-400+3?")


def setting(tmp_path: Path) -> RunConfig:
    """The tiny generator, whose states are made by transformers."""
    config = tiny_config(
        tmp_path, tmp_path, generator=TINY_POOL, features={"backend": "transformers"}
    )
    values = config.model_dump(mode="json")
    values["science"]["generator"] = TINY_GENERATOR
    return RunConfig.parse(values)


def rows(config: RunConfig) -> list[dict[str, Any]]:
    template = template_question(config.science)
    return [{**template, "question_id": text, "text": text} for text in TEXTS]


def direct(config: RunConfig) -> tuple[Any, list[dict[str, Any]]]:
    """A predictor for the backbone, and what it says by way of a batch run's features."""
    model, pool = config.science.generator, config.runtime.generator
    states = FeatureActor(
        model.model_dump(mode="json"), pool.model_dump(mode="json"), "last", "transformers"
    )
    asked = [messages_of(config.science.prompts, text) for text in TEXTS]
    made = states(pa.table({"digest": [digest_of(m) for m in asked], "messages": asked}))
    features = {
        ("served", t): np.array(f.as_py()) for t, f in zip(TEXTS, made["features"], strict=True)
    }
    size = len(features["served", TEXTS[0]])
    weights = np.random.default_rng(0).normal(size=(1, size)) / 10
    head = Mlp(np.zeros(size), np.ones(size), ((weights, np.zeros(1)),))
    predictor = replace(PREDICTOR, heads={"paper": {Head.P0: head}})
    return predictor, with_predictions(rows(config), predictor, features, config.science.priors)


def same(filled: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    for one, other in zip(filled, expected, strict=True):
        assert one["p0"] == pytest.approx(other["p0"], abs=1e-4)
        assert {**one, "p0": 0} == {**other, "p0": 0}


@pytest.mark.ray
def test_a_question_alone_is_believed_as_in_a_batch(local_ray: None, tmp_path: Path) -> None:
    """p0, a and b are those of a batch run's features, asked for one by one through Ray; a question
    that breaks the actor is an error of its own request."""
    import ray

    config = setting(tmp_path)
    predictor, expected = direct(config)
    assert expected[0]["p0"] != expected[1]["p0"]
    name, actor = start_priors(config, predictor, "tests")

    async def ask() -> None:
        fill = priors_by(name)
        same([await fill(row) for row in rows(config)], expected)
        with pytest.raises(ApiError, match="failed on this question") as broken:
            await fill({**rows(config)[0], "text": None})
        assert broken.value.status == 500

    asyncio.run(ask())
    ray.kill(actor)
