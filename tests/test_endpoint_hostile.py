"""Replies of an endpoint that are too large, of odd encodings, or say what must not be repeated."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from actors.routing.calls import GenerateCall, Generated
from actors.routing.client import EngineClient
from pipeline.core.protocol import Failure
from pipeline.core.text import visible
from tests.chat_servers import Asked, Faults, Said, ScriptedModel, serving
from tests.endpoints import asks, client_of

GZIP = {"Content-Encoding": "gzip"}


async def outcome(client: EngineClient, **fields: Any) -> Any:
    return await client.call(GenerateCall(asks(**fields), session="s"))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Said(200, b"x" * (30 << 20)), "must have at most"),
        (Said(400, b"<p>" + b"x" * (30 << 20)), "status 400"),
        (Said(200, gzip.compress(b" " * (100 << 20), 1), GZIP), "must have at most"),
        (Said(500, gzip.compress(b" " * (100 << 20), 1), GZIP), "status 500"),
        (Said(200, b"not gzip", GZIP), "cannot be unpacked"),
        (Said(200, b"x", {"Content-Encoding": "br"}), "encoded as 'br'"),
    ],
)
async def test_a_reply_takes_no_more_memory_than_its_request_allows(said: Said, why: str) -> None:
    """However large it is, packed or not: it is cut off, named in a few words, and the next request
    is answered."""
    with serving(Faults(ScriptedModel(), iter([said]))) as server:
        async with client_of([server.url], attempts=1) as (client, transport):
            tracemalloc.start()
            broken = await outcome(client)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            while transport._reviving:
                await asyncio.sleep(0.01)
            fine = await outcome(client)

    assert isinstance(broken, Failure)
    assert why in broken.error
    assert len(broken.error) < 700
    assert peak < len(said.body) + (40 << 20)  # the server is in this process
    assert isinstance(fine, Generated)


async def test_compressed_replies_are_read() -> None:
    """Of gateways that compress although nobody asked them to."""

    def packed(asked: Asked) -> Said:
        said = ScriptedModel()(asked)
        return Said(said.status, gzip.compress(json.dumps(said.body).encode()), GZIP)

    with serving(packed) as server:
        async with client_of([server.url]) as (client, _):
            made = await outcome(client)

    assert isinstance(made, Generated)
    assert server.asked[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "charset", ["rot13", "utf-16", "utf-32", "idna", "undefined", "punycode", "hex", "base64"]
)
async def test_a_server_comes_back_after_any_odd_look(charset: str) -> None:
    """Whatever encoding a reply claims to have, it is read as UTF-8: the server is looked at again
    and its calls are answered, and a 503 is no fault of the request."""
    odd = {"Content-Type": f"text/plain; charset={charset}"}
    looks = iter([Said(503, b"\xff\xfe odd", odd)])
    model = Faults(ScriptedModel(), iter([Said(502, b"\xff", odd), Said(503, b"\xff odd", odd)]))

    def answers(asked: Asked) -> Said:
        return next(looks, model(asked)) if asked.path.endswith("/models") else model(asked)

    with serving(answers) as server:
        async with client_of([server.url], attempts=2) as (client, _):
            made = await asyncio.wait_for(outcome(client), 20)

    assert isinstance(made, Generated)


async def test_a_look_that_raises_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """No exception ends the watch over a server that went away."""
    with serving(Faults(ScriptedModel(), iter([Said(502, b"")]))) as server:
        async with client_of([server.url], attempts=2) as (client, transport):
            look, raised = transport.servers[server.url].look, iter([TypeError("odd")])

            async def odd() -> str | None:
                if error := next(raised, None):
                    raise error
                return await look()

            monkeypatch.setattr(transport.servers[server.url], "look", odd)
            made = await asyncio.wait_for(outcome(client), 20)

    assert isinstance(made, Generated)
    assert next(raised, None) is None


_REPEATED: dict[str, Callable[[str], Said]] = {
    "error": lambda key: Said(400, {"error": {"message": f"Incorrect API key {key}"}}),
    "finish reason": lambda key: _completion(finish_reason=key),
    "kind of a part": lambda key: _completion(message={"content": [{"type": key}]}),
    "content": lambda key: _completion(message={"content": {"key": key}}),
    "usage": lambda key: _completion(usage={"key": key}),
    "a long page": lambda key: Said(400, f"<html>{'x' * 420}{key}{'y' * 900}</html>".encode()),
}


def _completion(**parts: Any) -> Said:
    usage = parts.pop("usage", {"prompt_tokens": 3, "completion_tokens": 2})
    choice = {"message": {"content": "5"}, "finish_reason": "stop", **parts}
    return Said(200, {"choices": [choice], "usage": usage})


@pytest.mark.parametrize("form", ["whole", "cut", "broken", "upper", "base64", "quoted", "escaped"])
@pytest.mark.parametrize("where", _REPEATED)
async def test_no_failure_repeats_a_key(
    where: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a server puts it, and however it writes it: no eight characters of it in a row."""
    key = "sk-Very/Secret+0123456789&abcdef"
    forms = {
        "whole": key,
        "cut": key[:-1],
        "broken": f"{key[:9]}\n {key[9:]}",
        "upper": key.upper(),
        "base64": base64.b64encode(key.encode()).decode(),
        "quoted": quote(key, safe=""),
        "escaped": "".join(f"\\u{ord(letter):04x}" for letter in key),
    }
    monkeypatch.setenv("MY_KEY", key)
    with serving(lambda asked: _REPEATED[where](forms[form])) as server:
        endpoint = {"api_key_env": "MY_KEY"}
        async with client_of([server.url], endpoint=endpoint, attempts=1) as (client, _):
            made = await outcome(client)

    assert isinstance(made, Failure)
    said = "".join(made.error.lower().split())
    shown = [forms[form], key] if form != "escaped" else [key]
    for secret in ("".join(each.lower().split()) for each in shown):
        parts = {secret[at : at + 10] for at in range(len(secret) - 9)}
        assert not [part for part in parts if part in said]


async def test_what_a_server_says_cannot_move_the_cursor_of_a_terminal() -> None:
    """Escapes, carriage returns and marks of direction are shown as what they are, on one line."""
    words = "\x1b[2J\x1b]0;owned\x07 all is\rwell \u202egnp\u200b\x9b1m"
    with serving(lambda asked: Said(400, {"error": {"message": words}})) as server:
        async with client_of([server.url], attempts=1) as (client, _):
            made = await outcome(client)

    assert isinstance(made, Failure)
    assert made.error == visible(made.error)
    assert "\x1b" not in made.error
    assert "␛[2J" in made.error
    assert "[U+202E]gnp[U+200B][U+009B]1m" in made.error
    assert len(made.error.splitlines()) == 1


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 9, "completion_tokens": 2**52},
        {"prompt_tokens": 9, "completion_tokens": 300},
        {"prompt_tokens": 2**52, "completion_tokens": 4},
        {"prompt_tokens": 9, "completion_tokens": 0},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": 9, "completion_tokens": -4},
        {"prompt_tokens": 9, "completion_tokens": float("nan")},
        {"prompt_tokens": 9, "completion_tokens": float("inf")},
        *({"prompt_tokens": 9, "completion_tokens": odd} for odd in (True, "4", None, 2**70, 0.5)),
    ],
)
async def test_numbers_that_cannot_be_are_counted_as_unknown(usage: dict[str, Any]) -> None:
    """More tokens than were allowed, none for a text, and what is no number: in no figure of a run.
    The try is repeated and its tokens count as unknown."""
    odd = _completion(usage=usage)
    with serving(Faults(ScriptedModel(), iter([odd]))) as server:
        async with client_of([server.url]) as (client, _):
            made = await outcome(client)

    assert isinstance(made, Generated)
    assert (made.attempts, made.unknown_attempts, made.wasted_tokens) == (2, 1, 0)
    assert made.completion_tokens <= 200


async def test_a_server_that_hangs_loses_its_calls_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and answers nothing: its calls go to another server long before their
    deadline. One that only takes long for a completion, and answers a look, keeps its calls."""
    monkeypatch.setattr("actors.engines.endpoint_transport._WATCH_EVERY_S", 0.1)
    monkeypatch.setattr("actors.engines.endpoint_transport._QUIET_S", 0.2)
    monkeypatch.setattr("actors.routing.chat_server._LOOK_S", 0.3)
    hangs = threading.Event()

    def answers(asked: Asked) -> Said:
        said = ScriptedModel()(asked)
        if hangs.is_set():
            return replace(said, wait_s=30.0)
        return replace(said, wait_s=1.5) if asked.path.endswith("completions") else said

    with serving(answers) as stuck, serving(ScriptedModel()) as fine:
        async with client_of([stuck.url], deadline_s=60.0) as (client, _):
            slow = await outcome(client)
        hangs.set()
        async with client_of([stuck.url, fine.url], deadline_s=60.0) as (client, _):
            began = time.monotonic()
            calls = [GenerateCall(asks(), session=f"s{n}") for n in range(8)]
            made = await asyncio.gather(*map(client.call, calls))
            seconds = time.monotonic() - began

    assert isinstance(slow, Generated)
    assert slow.attempts == 1
    assert all(isinstance(each, Generated) for each in made)
    assert max(each.unknown_attempts for each in made) == 1
    assert seconds < 20
