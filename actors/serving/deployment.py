"""*EndpointReplica*: the endpoint as one replica of Ray Serve."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from ray import serve
from starlette.applications import Starlette

from actors.controllers.chain_types import RunIdentity
from actors.controllers.chains import tune_gc
from actors.engines.hosts import clients_of
from actors.routing.transport import EnginesAddress
from actors.serving.answering import Answering
from actors.serving.app import Endpoint
from pipeline.config.run import RunConfig

DEPLOYMENT = "endpoint"
_ALONE_S = 30.0
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
    """Answers requests for as long as its driver attends it."""

    def __init__(self, plan: EndpointPlan) -> None:
        self._plan = plan
        self._config = RunConfig.parse(plan.config)
        self._answering: Answering | None = None
        self._attended_at = 0.0

    def __serve_build_asgi_app__(self) -> Starlette:
        """The application; Serve calls it on the event loop that will use it."""
        tune_gc()
        self._endpoint = Endpoint(self._plan.key_digest, self._why_not, self._plan.cors)
        return self._endpoint.app()

    async def attend(self, engines: EnginesAddress, limit: int) -> dict[str, Any]:
        """Answer by these engines, which have started; the driver calls it every second.

        Args:
            engines: where they are.
            limit: questions that may be worked on at once.

        Returns:
            The counters of the chains.
        """
        if self._answering is None:
            self._answering = self._answers_by(engines)
            self._endpoint.begin(self._answering)
        self._attended_at = time.monotonic()
        self._answering.limit(limit)
        return self._answering.counters.as_dict()

    def _answers_by(self, engines: EnginesAddress) -> Answering:
        plan, runtime, science = self._plan, self._config.runtime, self._config.science
        patience_s = min(_NO_REPLICA_S, runtime.requests.no_replica_timeout_s)
        return Answering(
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

    async def drain(self, grace_s: float) -> None:
        """Take no more requests, and let those at work finish for `grace_s`."""
        if self._answering is not None:
            await self._answering.drain(grace_s)

    def _why_not(self) -> str | None:
        """Why no request can be answered; None while all is well."""
        is_ready = self._answering is not None
        is_ready = is_ready and time.monotonic() - self._attended_at > _ALONE_S
        return f"its driver said nothing for {_ALONE_S:g} s" if is_ready else None
