"""*EndpointReplica*: the endpoint as one replica of Ray Serve."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import ray
from ray import serve
from starlette.applications import Starlette

from actors.cluster.background import supervised
from actors.cluster.run_monitor import NAMESPACE, monitor_name
from actors.controllers.chain_types import RunIdentity
from actors.controllers.chains import tune_gc
from actors.engines.hosts import clients_of
from actors.routing.transport import EnginesAddress
from actors.serving.answering import Answering
from actors.serving.app import Endpoint
from pipeline.config.run import RunConfig
from pipeline.records.segments import Epoch

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
        self._trouble: str | None = None
        self._answering: Answering | None = None
        self._reports = 0

    def __serve_build_asgi_app__(self) -> Starlette:
        """The application; Serve calls it on the event loop that will use it."""
        tune_gc()
        self._endpoint = Endpoint(self._plan.key_digest, self._why_not, self._plan.cors)
        return self._endpoint.app()

    async def begin(self, engines: EnginesAddress) -> str | None:
        """Answer by these engines, which have started, from now on; the driver calls it repeatedly.

        Returns:
            Why nothing can be answered any more; None while all is well.
        """
        if self._answering is not None:
            return self._trouble
        plan, runtime, science = self._plan, self._config.runtime, self._config.science
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
        )
        self._reporting = supervised(self._report, "the report of the endpoint")
        self._endpoint.begin(self._answering)
        return None

    async def drain(self, grace_s: float) -> None:
        """Take no more requests, and let those at work finish for `grace_s`."""
        if self._answering is not None:
            await self._answering.drain(grace_s)

    def _why_not(self) -> str | None:
        """Why no request can be answered; None while all is well."""
        return self._trouble

    async def _report(self) -> None:
        """Tell the run monitor how it goes, and take how many questions may be at work."""
        assert self._answering is not None
        loop = asyncio.get_running_loop()
        name = Epoch(1, "000000", 0, DEPLOYMENT, self._life).name
        lag_ms = 0.0
        while True:
            counters = {**self._answering.counters.as_dict(), "loop_lag_ms": lag_ms}
            self._reports += 1
            try:
                share = await self._watch.report.remote(name, counters, None, self._reports)
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
