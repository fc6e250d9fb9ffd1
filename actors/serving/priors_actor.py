"""Priors of questions as they come: a predictor's heads on its backbone, which stays loaded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pyarrow as pa
import ray

from actors.cluster.run_monitor import NAMESPACE
from actors.engines.actor_host import ray_options
from actors.engines.feature_actor import FeatureActor
from actors.serving.api_error import ApiError
from pipeline.config.run import RunConfig
from pipeline.config.runtime import PoolConfig, RuntimeConfig
from pipeline.predictors.features import digest_of, messages_of
from pipeline.predictors.heads import Predictor
from pipeline.predictors.priors import with_predictions
from pipeline.records.trajectory import Row


class PriorsActor:
    """Fills in what the predictor says.

    Args:
        config: fields of `RunConfig`, whose generator is the backbone.
        predictor: for that backbone.
    """

    def __init__(self, config: dict[str, Any], predictor: Predictor) -> None:
        self._science, runtime = (checked := RunConfig.parse(config)).science, checked.runtime
        self._predictor = predictor
        self._states = FeatureActor(
            model=self._science.generator.model_dump(mode="json"),
            pool=pool_of(runtime).model_dump(mode="json"),
            pooling=predictor.card.pooling,
            backend=runtime.features.backend,
        )

    def fill(self, rows: list[Row]) -> list[Row]:
        """Rows of questions.parquet with their priors, as `jobs.evaluate` would fill them."""
        asked = [messages_of(self._science.prompts, row["text"]) for row in rows]
        made = self._states(
            pa.table({"digest": [digest_of(each) for each in asked], "messages": asked})
        )
        features = {
            (row["benchmark"], row["question_id"]): np.asarray(state.values, dtype=np.float32)
            for row, state in zip(rows, made["features"], strict=True)
        }
        return with_predictions(rows, self._predictor, features, self._science.priors)


def pool_of(runtime: RuntimeConfig) -> PoolConfig:
    """What a feature actor is given."""
    return runtime.features.pool or runtime.generator


def start_priors(config: RunConfig, predictor: Predictor, run_id: str) -> tuple[str, Any]:
    """An actor that begins to start: its name, and its handle, with which it lives."""
    name = f"markovscale-{run_id}-priors"
    actor = ray.remote(PriorsActor).options(
        name=name, namespace=NAMESPACE, max_restarts=-1, **ray_options(pool_of(config.runtime))
    )
    return name, actor.remote(config.model_dump(mode="json"), predictor)


def priors_by(name: str) -> Callable[[Row], Awaitable[Row]]:
    """What asks the actor of a name for the priors of one question."""
    actor = ray.get_actor(name, namespace=NAMESPACE)

    async def fill(row: Row) -> Row:
        try:
            (filled,) = await actor.fill.remote([row])
        except ray.exceptions.RayActorError as error:
            raise ApiError(503, "the predictor is being restarted", "no_engine") from error
        except ray.exceptions.RayTaskError as error:
            why = f"the predictor failed on this question: {error.cause!r}"
            raise ApiError(500, why, "predictor") from error
        return dict(filled)

    return fill
