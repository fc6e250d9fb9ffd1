"""*EndpointReplica*: the endpoint as one replica of Ray Serve, and the actor of its priors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from ray import serve
from starlette.applications import Starlette

from actors.cluster.background import supervised
from actors.cluster.run_monitor import NAMESPACE, monitor_name
from actors.controllers.chain_types import RunIdentity
from actors.controllers.chains import tune_gc
from actors.engines.actor_host import ray_options
from actors.engines.feature_actor import FeatureActor
from actors.engines.hosts import clients_of
from actors.routing.transport import EnginesAddress
from actors.serving.answering import Answering
from actors.serving.app import Endpoint
from actors.serving.chat_request import ApiError
from actors.serving.record import Record
from actors.serving.served_models import served_models
from pipeline.config.run import RunConfig
from pipeline.config.runtime import PoolConfig, RuntimeConfig
from pipeline.predictors.features import digest_of, messages_of
from pipeline.predictors.heads import Predictor
from pipeline.predictors.priors import with_predictions
from pipeline.records.segments import Epoch
from pipeline.records.trajectory import Row

logger = logging.getLogger(__name__)

DEPLOYMENT = "endpoint"
_REPORT_EVERY_S = 1.0
_NO_REPLICA_S = 60.0
"""The longest that a request waits while no engine lives, or its server refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPlan:
    """All that the replica needs to know; picklable."""

    run_id: str
    config: dict[str, Any]
    """Fields of `RunConfig`."""
    key_digest: str | None
    """Of the API key (`actors.serving.app.digest_of`): the key itself stays with the driver."""
    queue: int | None
    record: str | None
    """Folder of records."""
    cors: tuple[str, ...] = ()
    """Origins of web pages that may read answers."""


@serve.ingress()
class EndpointReplica:
    """Answers requests until its driver drains it, or is gone."""

    def __init__(self, plan: EndpointPlan) -> None:
        self._plan = plan
        self._config = RunConfig.parse(plan.config)
        self._watch = ray.get_actor(monitor_name(plan.run_id), namespace=NAMESPACE)
        self._life: int = ray.get(self._watch.register_writer.remote(DEPLOYMENT))
        self._record: Record | None = None
        self._trouble: str | None = None
        self._answering: Answering | None = None
        self._reports = 0

    def __serve_build_asgi_app__(self) -> Starlette:
        """The application; Serve calls it on the event loop that will use it."""
        tune_gc()
        self._endpoint = Endpoint(self._plan.key_digest, self._why_not, self._plan.cors)
        return self._endpoint.app()

    async def begin(self, engines: EnginesAddress, priors: str | None) -> str | None:
        """Answer by these engines from now on; called again and again by the driver.

        Args:
            engines: all of which have started.
            priors: name of the actor that knows a predictor.

        Returns:
            Why nothing can be answered any more; None while all is well.
        """
        if self._answering is not None:
            return self._trouble
        plan, runtime, science = self._plan, self._config.runtime, self._config.science
        if plan.record is not None:
            labels = [model.label for model in served_models(science).served.values()]
            self._record = Record(plan.record, labels, self._life, runtime.journal_flush_s)
        patience_s = min(_NO_REPLICA_S, runtime.requests.no_replica_timeout_s)
        self._answering = Answering(
            self._config,
            identity=RunIdentity(
                run=plan.run_id,
                attempt=1,
                models={role: model.model for role, model in science.models.items()},
                stop_flag=science.generator.stop_flag,
            ),
            pools=clients_of(
                engines,
                runtime.requests.model_copy(update={"no_replica_timeout_s": patience_s}),
            ),
            in_flight=engines.in_flight,
            queue=plan.queue,
            record=self._record,
            priors=None if priors is None else priors_by(priors),
        )
        self._reporting = supervised(self._report, "the report of the endpoint")
        self._endpoint.begin(self._answering)
        return None

    async def drain(self, grace_s: float) -> None:
        """Take no more requests, let those at work finish for `grace_s`, write the record."""
        if self._answering is not None:
            await self._answering.drain(grace_s)
        if self._record is not None:
            await self._record.close()

    def _why_not(self) -> str | None:
        """Why no request can be answered; None while all is well."""
        return self._trouble or (None if self._record is None else self._record.failure)

    async def _report(self) -> None:
        """Tell the run monitor how it goes, and take how many questions may be at work."""
        assert self._answering is not None
        loop = asyncio.get_running_loop()
        name = Epoch(1, "000000", 0, DEPLOYMENT, self._life).name
        lag_ms = 0.0
        while True:
            counters = {**self._answering.counters.as_dict(), "loop_lag_ms": lag_ms}
            fatal = None if self._record is None else self._record.failure
            self._reports += 1
            try:
                share = await self._watch.report.remote(name, counters, fatal, self._reports)
                if share is not None:
                    self._answering.limit(share)
            except ray.exceptions.ActorUnavailableError:
                logger.warning("the connection to the run monitor broke, trying again")
            except ray.exceptions.RayActorError:
                logger.warning("the run monitor is gone, taking no more requests")
                self._trouble = "its run monitor is gone"
                await self.drain(0.0)
                return
            before = loop.time()
            await asyncio.sleep(_REPORT_EVERY_S)
            lag_ms = max(0.0, loop.time() - before - _REPORT_EVERY_S) * 1_000


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
