"""A pool of servers that run already: nothing is started. They are looked at before the run, and
while it lasts, so that whoever started it is told where one of them is gone."""

from __future__ import annotations

import asyncio
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pkgutil import resolve_name
from threading import Event, Thread
from typing import Any

from actors.engines import endpoint_probe as probe
from actors.engines.chat_wire import Found
from actors.engines.endpoint_transport import WIRES, Wire, answer_of, look_at
from actors.engines.engine_stats import EngineStats
from actors.engines.hosts import PoolSpec
from actors.routing.calls import VERIFIER
from actors.routing.chat_server import ChatServer
from actors.routing.http_connections import HttpConnections, credentials_of
from actors.routing.transport import PoolAddress
from pipeline.config.models import GeneratorModel
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Failure
from pipeline.core.thinking import opened_by

logger = logging.getLogger(__name__)

_START_MOST_S = 60.0
_LOOK_EVERY_S = 10.0


class EndpointHost:
    """The host: `wait` finds out what the servers take."""

    def __init__(self, spec: PoolSpec) -> None:
        endpoint = spec.pool.endpoint
        if endpoint is None or spec.role not in WIRES:
            raise ConfigError(f"a {spec.role} cannot be behind runtime.{spec.role}.endpoint")
        self._spec, self._endpoint = spec, endpoint
        self._credentials = credentials_of(endpoint, os.environ)
        self._name = endpoint.model or spec.model.model
        self._over = Event()
        self._at: dict[str, Any] = {
            "endpoint": endpoint.model_dump(mode="json"),
            "model": spec.model.model_dump(mode="json"),
            "controllers": spec.runtime.controllers.actors,
            "found": asdict(Found()),
        }

    @property
    def address(self) -> PoolAddress:
        """See `Host.address`; what was found out is in it once `wait` has returned."""
        return PoolAddress(host="endpoint", role=self._spec.role, at=self._at)

    def wait(self) -> None:
        """See `Host.wait`.

        Raises:
            ConfigError: where the servers do not take what the run asks for.
            EngineError: where none of them answers.
        """
        with ThreadPoolExecutor(1) as thread:  # the caller may have an event loop of its own
            found = thread.submit(lambda: asyncio.run(self._look())).result()
        self._at["found"] = asdict(found)
        Thread(target=self._watch, daemon=True).start()

    def grow(self) -> bool:
        """See `Host.grow`; there is nothing to grow."""
        return False

    def stats(self) -> list[EngineStats]:
        """See `Host.stats`; servers are not ours, and others may use them too."""
        return []

    def stop(self) -> None:
        """See `Host.stop`."""
        self._over.set()

    def _watch(self) -> None:
        """Tell which servers are gone; controllers, which go without them, log elsewhere."""
        gone: set[str] = set()
        while not self._over.wait(_LOOK_EVERY_S):
            try:
                why = asyncio.run(self._reasons())
            except Exception:
                logger.exception("the servers of the endpoint could not be looked at")
                continue
            for url in sorted(why.keys() - gone):
                logger.warning("%s cannot be used: %s", url, why[url])
            for url in sorted(gone - why.keys()):
                logger.warning("%s can be used again", url)
            gone = set(why)

    async def _reasons(self) -> dict[str, str]:
        """Why servers cannot be used, by their URL; nothing of those that can."""
        async with HttpConnections(self._endpoint, self._credentials) as http:
            servers = [ChatServer(url, http, self._credentials) for url in self._endpoint.base_urls]
            looked = await asyncio.gather(*(look_at(server) for server in servers))
        return {s.url: why for s, why in zip(servers, looked, strict=True) if why is not None}

    async def _look(self) -> Found:
        model, urls = self._spec.model, self._endpoint.base_urls
        async with HttpConnections(self._endpoint, self._credentials) as http:
            servers = [ChatServer(url, http, self._credentials) for url in urls]
            limit_s = min(self._spec.pool.start_timeout_s, _START_MOST_S)
            alive = await probe.wait_for(servers, limit_s)
            for server in alive:
                await probe.check_model(server, self._name, model.max_model_len, self._spec.role)
            wire: Wire = resolve_name(WIRES[self._spec.role])(
                self._at["model"], self._endpoint, self._at["found"]
            )
            bodies = [wire.body(call) for call in self._spec.samples]
            if not bodies:
                return Found()
            limit, refused = await probe.refused_fields(alive[0], bodies)
            if self._spec.role == VERIFIER:
                await self._judge_one(alive[0], Found(limit=limit, refused=refused))
            opened = ""
            if isinstance(model, GeneratorModel) and model.open_thinking is None:
                prompt = await probe.rendered_prompt(alive[0], bodies[0])
                opened = opened_by(prompt, model.reasoning)
        logger.info("%s answers as %s", ", ".join(s.url for s in alive), self._name)
        return Found(limit=limit, refused=refused, opened=opened)

    async def _judge_one(self, server: ChatServer, found: Found) -> None:
        """Warn where a verdict of the run's own kind cannot be read, such as that of a model that
        thinks where one word is asked for."""
        call = self._spec.samples[0]
        wire: Wire = resolve_name(WIRES[VERIFIER])(self._at["model"], self._endpoint, asdict(found))
        if wire.known(call) is not None:
            return
        sent = await server.complete(wire.body(call), deadline_s=120)
        told = None if sent.reply is None else answer_of(wire, call, sent.reply)
        if isinstance(told, Failure):
            logger.warning("%s gave no verdict when asked for one: %s", server.url, told.error)
