"""*EndpointHost*: checks a pool of running servers before a run, and watches them during it.

A server may refuse a field that it does not know, or read past it. Both would make another
experiment of the run, so both are found, with a few tiny requests: a field at its real value must
be taken, and at a value of a wrong type it must be refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pkgutil import resolve_name
from threading import Event, Thread
from typing import Any

from actors.engines.chat_wire import Found, choice_of, confidence_in
from actors.engines.endpoint_transport import WIRES, Wire, look_at
from actors.engines.engine_stats import EngineStats
from actors.engines.hosts import PoolSpec
from actors.routing.chat_server import ChatServer, Sent
from actors.routing.http_connections import HttpConnections, credentials_of
from actors.routing.transport import PoolAddress
from pipeline.config.models import GeneratorModel
from pipeline.core.errors import ConfigError, EngineError, ErrorKind
from pipeline.core.thinking import opened_by

_LIMIT = "max_tokens"
_NEW_LIMIT = "max_completion_tokens"
_TOKENS = 16
_TRIES = 10
_WAIT_S = 1.0
_NEUTRAL: dict[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Values that change nothing: such a field may be left out where a server does not know it."""
_UNNEEDED = ("seed",)
_TYPED = (
    "seed", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
    "thinking_token_budget", "repetition_detection", "stop_token_ids", "min_tokens",
    "chat_template_kwargs", "continue_final_message",
)  # fmt: skip
_WRONG = "no such value"


async def wait_for(servers: Sequence[ChatServer], seconds: float) -> list[ChatServer]:
    """The servers that answer; waits for the others, but not longer than `seconds`.

    Raises:
        EngineError: where none answers, naming each and why.
    """
    give_up = time.monotonic() + seconds
    while True:
        why = await asyncio.gather(*(server.look() for server in servers))
        alive = [server for server, reason in zip(servers, why, strict=True) if reason is None]
        waits = any(reason and not reason.startswith("status 401") for reason in why)
        if not waits or time.monotonic() >= give_up:  # another key does not come by waiting
            break
        await asyncio.sleep(_WAIT_S)
    gone = [f"{s.url} ({reason})" for s, reason in zip(servers, why, strict=True) if reason]
    if not alive:
        raise EngineError(f"no server of the endpoint answers: {'; '.join(gone)}")
    if gone:
        logger.warning("the run begins without %s", "; ".join(gone))
    return alive


async def check_model(
    server: ChatServer, name: str, context: int | None, role: str = "generator"
) -> None:
    """That a server has the model, and the context that the configuration says.

    Raises:
        ConfigError: naming what it has. A server that does not list its models passes.
    """
    body = await server.get("/models")
    entries = body.get("data") if isinstance(body, dict) else None
    if not isinstance(entries, list):
        return
    models = {
        entry["id"]: entry
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    }
    if models and name not in models and not await _knows(server, name):
        raise ConfigError(
            f"runtime.{role}.endpoint.model must be one that {server.url} serves "
            f"({', '.join(sorted(models)[:20])}), got {name!r}"
        )
    has = models.get(name, {}).get("max_model_len")
    if context is not None and isinstance(has, int) and has != context:
        raise ConfigError(
            f"science.{role}.max_model_len must be the context of {server.url}, which is {has}, "
            f"got {context}"
        )


async def _knows(server: ChatServer, name: str) -> bool:
    """Whether a server answers as a model that it does not list, and as that only: deployments and
    variants of hosted APIs are often not listed."""
    try:
        bare = await _bare(server, {"model": name, "messages": [{"role": "user", "content": "1"}]})
    except (ConfigError, EngineError):
        return False
    sent = await server.complete({**bare, "model": f"{name}-that-is-not-there"}, deadline_s=120)
    if sent.reply is None:
        logger.warning("%s does not list %s, but answers as it", server.url, name)
    return sent.reply is None


async def refused_fields(
    server: ChatServer, bodies: Sequence[Mapping[str, Any]]
) -> tuple[str, tuple[str, ...]]:
    """What a server does not take of the requests of a run.

    Args:
        server: one that answers.
        bodies: a request of each kind.

    Returns:
        Its name for the limit of new tokens, and the fields to leave out: they change nothing, or
        are the seed.

    Raises:
        ConfigError: naming the fields that it does not take and that change what is answered.
    """
    bare = await _bare(server, bodies[0])
    limit = _LIMIT if _LIMIT in bare else _NEW_LIMIT
    fields = {name: body[name] for body in bodies for name in body if name not in (*bare, _LIMIT)}
    single = [name for name in fields if name != "add_generation_prompt"]
    bodies_sent = [_short(body, limit) for body in bodies]
    refused = {}
    if any([(await _reply_to(server, body)).reply is None for body in bodies_sent]):
        single_fields = {
            n: v for n, v in fields.items() if n in single and n != "continue_final_message"
        }
        for name, value in single_fields.items():
            sent = await _reply_to(server, {**bare, name: value})
            if sent.failure is not None:
                refused[name] = sent.failure.error
    unread = await _unread(server, bare, [name for name in single if name in _TYPED])
    needed = {
        name: refused.get(name, "the server reads past it")
        for name in (*refused, *unread)
        if name not in _UNNEEDED and fields[name] != _NEUTRAL.get(name)
    }
    if needed:
        raise ConfigError(_needed(server.url, needed))
    out = tuple(sorted(refused))
    for body in bodies_sent:
        kept = {name: value for name, value in body.items() if name not in out}
        sent = await _reply_to(server, kept)
        if sent.failure is not None and "continue_final_message" in kept:
            raise ConfigError(_needed(server.url, {"continue_final_message": sent.failure.error}))
        if sent.failure is not None:
            raise ConfigError(f"{server.url} refuses a request of this run: {sent.failure.error}")
        choices = sent.reply["choices"] if sent.reply is not None else [{}]
        if len(choices) != kept.get("n", 1):
            raise ConfigError(
                f"{server.url} must give {kept.get('n', 1)} replies to a request of this run "
                f"(samples of science.verifier.profile), got {len(choices)}"
            )
        choice = choice_of(sent.reply or {"choices": choices})
        if "logprobs" in kept and confidence_in(choice) is None:
            raise ConfigError(_needed(server.url, {"logprobs": "its reply has none"}))
    if left := [*out, *(name for name in unread if name in _UNNEEDED)]:
        logger.warning("%s does not take %s", server.url, ", ".join(left))
    return limit, out


async def rendered_prompt(server: ChatServer, body: Mapping[str, Any]) -> str:
    """The end of the prompt by the server's chat template; ``""`` where it does not tell."""
    request = {"model": body["model"], "messages": body["messages"], "add_generation_prompt": True}
    kwargs = {n: body[n] for n in ("chat_template_kwargs",) if n in body}
    tokenized = await server.post("/tokenize", request | kwargs)
    tokens = tokenized.get("tokens") if isinstance(tokenized, dict) else None
    if not isinstance(tokens, list):
        return ""
    text = await server.post("/detokenize", {"model": body["model"], "tokens": tokens[-50:]})
    prompt = text.get("prompt") if isinstance(text, dict) else None
    return prompt if isinstance(prompt, str) else ""


async def _bare(server: ChatServer, body: Mapping[str, Any]) -> dict[str, Any]:
    """The least request that a server takes; its reply must report what it cost."""
    sent = Sent()
    for limit in (_LIMIT, _NEW_LIMIT):
        bare = {"model": body["model"], "messages": body["messages"], limit: _TOKENS}
        sent = await _reply_to(server, bare)
        if sent.reply is not None:
            usage = sent.reply.get("usage")
            if not isinstance(usage, dict) or "completion_tokens" not in usage:
                raise ConfigError(f"{server.url} must report usage with each reply, got {usage!r}")
            return bare
    assert sent.failure is not None  # there is no reply
    version = "" if "404" not in sent.failure.error else " (base_urls end with the version: /v1)"
    raise ConfigError(f"{server.url} refuses the simplest request{version}: {sent.failure.error}")


async def _unread(server: ChatServer, bare: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Fields that a server reads past; none where it looks at no types, which is said."""
    if not names:
        return []
    if (await _reply_to(server, {**bare, "temperature": _WRONG})).reply is not None:
        logger.warning(
            "%s takes any value for any field: whether it reads %s cannot be found out",
            server.url,
            ", ".join(names),
        )
        return []
    sent = [await _reply_to(server, {**bare, name: _WRONG}) for name in names]
    return [name for name, one in zip(names, sent, strict=True) if one.reply is not None]


async def _reply_to(server: ChatServer, body: Mapping[str, Any]) -> Sent:
    """A reply, or a failure that says what the server thinks of the request.

    Raises:
        EngineError: where it says nothing of the request.
    """
    sent = Sent()
    for _ in range(_TRIES):
        sent = await server.complete(dict(body), deadline_s=120)
        if sent.failure is None or sent.failure.kind is ErrorKind.BAD_REQUEST:
            return sent
        if sent.unpaid:
            break
        wait_s = _WAIT_S if sent.retry_after_s is None else sent.retry_after_s
        await asyncio.sleep(min(60.0, wait_s))
    assert sent.failure is not None  # else it was returned
    raise EngineError(f"{server.url} answers no request: {sent.failure.error}")


def _short(body: Mapping[str, Any], limit: str) -> dict[str, Any]:
    """A request of the run that costs a few tokens only."""
    rest = {name: value for name, value in body.items() if name != _LIMIT}
    return {**rest, limit: max(_TOKENS, 1 + body.get("min_tokens", 0))}


def _needed(url: str, fields: Mapping[str, str]) -> str:
    text = "; ".join(f"{name}: {why}" for name, why in fields.items())
    prefix = (
        "; a strategy that continues replies (continue_final_message) needs a server that can, "
        "such as vLLM, or engines of our own"
        if "continue_final_message" in fields
        else ""
    )
    return (
        f"{url} must take {', '.join(fields)}, which the configuration sets: leave them out of "
        f"science.decoding and science.generator, or use another server{prefix} ({text})"
    )


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
            alive = await wait_for(servers, limit_s)
            for server in alive:
                await check_model(server, self._name, model.max_model_len, self._spec.role)
            wire: Wire = resolve_name(WIRES[self._spec.role])(
                self._at["model"], self._endpoint, self._at["found"]
            )
            bodies = [wire.body(call) for call in self._spec.samples]
            if not bodies:
                return Found()
            limit, refused = await refused_fields(alive[0], bodies)
            opened = ""
            if isinstance(model, GeneratorModel) and model.open_thinking is None:
                prompt = await rendered_prompt(alive[0], bodies[0])
                opened = opened_by(prompt, model.reasoning)
        logger.info("%s answers as %s", ", ".join(s.url for s in alive), self._name)
        return Found(limit=limit, refused=refused, opened=opened)
