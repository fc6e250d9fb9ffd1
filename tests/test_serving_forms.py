"""Budgets, JSON, tools, the Responses API and unfinished bodies of an endpoint in process."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest
from starlette.requests import Request
from starlette.types import Message

from actors.serving.app import Bodies, Endpoint
from actors.serving.chat_request import ApiError
from pipeline.answers.voting import clusters
from pipeline.config.runtime import Script
from pipeline.core.forms import Form, calls_in
from tests.live import ScriptedGenerator
from tests.test_serving import CHAIN, config, endpoint

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
ASK: list[Any] = [{"role": "user", "content": "Weather in Bern?"}]


class Says(ScriptedGenerator):
    """Replies with given texts, one round after the other."""

    def __init__(self, *texts: str) -> None:
        super().__init__(Script())
        self.texts, self.asked = texts, list[Any]()

    async def call(self, call: Any) -> Any:
        made: Any = await super().call(call)
        self.asked.append(call.request)
        return replace(made, text=self.texts[(len(self.asked) - 1) % len(self.texts)])


def called(city: str, more: str = "") -> str:
    return f'<tool_call>{{"name":"weather", "arguments":{{"city": "{city}"{more}}}}}</tool_call>'


async def test_votes_over_calls_of_tools_compare_their_values(tmp_path: Path) -> None:
    """Spelling and order of arguments do not count; the elected call comes back as one, whole and
    streamed; rounds were asked with the tools and without a box."""
    other = 'Hm. <tool_call>{"arguments": {"n":2.0,"city":"Bern"}, "name":"weather"}</tool_call>'
    again = called("Bern", ', "n":2')
    says = Says(called("Basel"), called("Bern", ', "n": 2'), other, again)
    async with endpoint(config(tmp_path), says) as served:
        ask: dict[str, Any] = {"model": CHAIN, "messages": ASK, "tools": [WEATHER]}
        reply = await served.client.chat.completions.create(**ask)
        says.asked.clear()
        streamed = served.client.chat.completions.create(**ask, stream=True)
        deltas = [chunk.choices[0].delta async for chunk in await streamed]
    (choice,) = reply.choices
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls or [None]
    assert call is not None
    assert (call.type, call.function.name) == ("function", "weather")
    assert json.loads(call.function.arguments) == {"city": "Bern", "n": 2}
    assert [d.tool_calls[0].function.name for d in deltas if d.tool_calls] == ["weather"]
    assert says.asked[0].form == Form.of({"tools": [WEATHER]})
    assert says.asked[0].messages[-1].content == "Weather in Bern?"
    assert "boxed" not in says.asked[1].messages[-1].content


async def test_json_comes_back_as_json(tmp_path: Path) -> None:
    """Of a fenced block too; votes compare values, whatever the order of the fields."""
    says = Says('<think>so</think>{"a": 1}', '```json\n{"b": 2, "a": 1}\n```', '{"a":1,"b":2.0}')
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    async with endpoint(config(tmp_path), says) as served:
        reply = (await served.post(model=CHAIN, response_format=schema)).json()
    assert json.loads(reply["choices"][0]["message"]["content"]) == {"b": 2, "a": 1}
    assert "<think>" not in reply["choices"][0]["message"]["reasoning_content"]
    assert Form.of({"response_format": schema}).schema() == {"type": "object"}  # type: ignore[union-attr]
    assert len(clusters(['{"a":"ab"}', '{"a":"ba"}'])) == 2


async def test_a_conversation_with_tools_goes_on(tmp_path: Path) -> None:
    """A call that was answered and the tool's result are turns of the next question."""
    says = Says("It rains.")
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    told: list[Any] = [
        *ASK,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "rain"},
    ]
    async with endpoint(config(tmp_path), says) as served:
        reply = (await served.post(messages=told, tools=[WEATHER], model="markovscale/base")).json()
    assert reply["choices"][0]["message"]["content"] == "It rains."
    _, assistant, tool = says.asked[0].messages
    assert calls_in(assistant.content) == [{"name": "weather", "arguments": {}}]
    assert tool.content == "<tool_response>\nrain\n</tool_response>"


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({"reasoning_effort": "low"}, 2),
        ({"reasoning_effort": "none"}, 1),
        ({"markovscale": {"n": 3}}, 3),
        ({"markovscale": {"n": 99, "strategy": "four"}}, 4),
        ({"markovscale": {"target": 0.8}}, 2),
        ({"markovscale": {"usd": 0.00066}}, 2),
    ],
)
async def test_a_request_has_a_budget(tmp_path: Path, fields: dict[str, Any], most: int) -> None:
    """By effort, number, confidence or money, never above the configuration; the bill comes with
    the answer."""
    priced = config(tmp_path)
    limits = priced.runtime.limits.model_copy(update={"price_million_tokens": 1.0})
    runtime = priced.runtime.model_copy(update={"limits": limits})
    priced = priced.model_copy(update={"runtime": runtime})
    says = Says(*(f"\\boxed{{{number % 2}}}" for number in range(8)))
    says = Says("\\boxed{1}") if "target" in str(fields) else says
    async with endpoint(priced, says) as served:
        answer = (await served.post(model=CHAIN, **fields)).json()
    told = answer["markovscale"]
    assert told["completions"] == len(says.asked) == most
    assert told["usd"] == pytest.approx(answer["usage"]["completion_tokens"] / 1e6)


async def test_responses_of_the_newer_api(tmp_path: Path) -> None:
    """The openai client's `responses`: text, a call of a tool, and a conversation given back."""
    says = Says("<think>hm</think>\\boxed{4}")
    async with endpoint(config(tmp_path), says) as served:
        create = served.client.responses.create
        text = await create(model=CHAIN, input="2+2?", instructions="Be brief.")
        says.texts = (called("Bern"),)
        function = {"type": "function", **WEATHER["function"]}  # type: ignore[dict-item]
        call = await create(model=CHAIN, input="Weather?", tools=[function])  # type: ignore[list-item]
        history: list[Any] = [{"role": "user", "content": "Weather?"}, *call.output]
        done: Any = {
            "type": "function_call_output",
            "call_id": call.output[-1].id,
            "output": "rain",
        }
        says.texts = ("It rains.",)
        last = await create(model="markovscale/base", input=[*history, done])
        with pytest.raises(openai.BadRequestError, match="stream must be left out"):
            await create(model=CHAIN, input="2+2?", stream=True)
    assert text.output_text == "\\boxed{4}"
    assert text.usage is not None
    assert text.usage.output_tokens > 0
    assert (call.output[-1].type, call.output[-1].name) == ("function_call", "weather")  # type: ignore[union-attr]
    assert last.output_text == "It rains."


async def test_pages_and_names_of_others_are_kept_out(tmp_path: Path) -> None:
    """Without a key a Host that is a name is refused (DNS rebinding); with --cors an origin may
    read, and no other; before the engines are up all is 503 with Retry-After."""
    async with endpoint(config(tmp_path), cors=("https://mine",)) as served:
        evil = {"host": "evil.example.com"}
        assert (await served.http.get("/models", headers=evil)).status_code == 403
        for host in ("127.0.0.1:8000", "[::1]:8000", "LOCALHOST"):
            assert (await served.http.get("/models", headers={"host": host})).status_code == 200
        asks = {"origin": "https://mine", "access-control-request-method": "POST"}
        allowed = await served.http.options("/chat/completions", headers=asks)
        assert allowed.headers["access-control-allow-origin"] == "https://mine"
        other = await served.http.get("/models", headers={"origin": "https://other"})
        assert "access-control-allow-origin" not in other.headers
        served.http._transport.app = Endpoint().app()  # type: ignore[attr-defined]
        for path in ("/health", "/v1/models"):
            answer = await served.http.get(f"http://localhost{path}")
            assert (answer.status_code, "retry-after" in answer.headers) == (503, True)


def sending(*pieces: bytes, whole: bool = False) -> Request:
    """A request whose body comes in pieces, and ends if it is whole."""
    left = list(pieces)

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        piece = left.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(left) or not whole}

    headers = [(b"content-type", b"application/json")]
    return Request({"type": "http", "headers": headers}, receive)


@pytest.mark.parametrize(("most", "held", "status"), [(1, 99, 429), (9, 5, 429), (9, 99, 408)])
async def test_unfinished_bodies_are_bounded(most: int, held: int, status: int) -> None:
    """In number, in bytes of all, and in time; what was held is free again."""
    bodies = Bodies(most, held, seconds=0.2, crowded_s=0.2, small=0)
    first = asyncio.create_task(bodies.read(sending(b"abc")))
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as second:
        await bodies.read(sending(b"abc"))
    with pytest.raises(ApiError) as late:
        await first
    assert (second.value.status, late.value.status) == (status, 408)
    assert len(bodies._unfinished) == bodies._held == 0
    with pytest.raises(ApiError, match="must come within"):  # small ones are let in beside
        await Bodies(9, 0, seconds=0.01).read(sending(b"abc"))


async def test_slow_bodies_give_their_places_to_new_requests() -> None:
    """With all places taken by clients that never finish, one after the other has to go."""

    bodies = Bodies(3, seconds=60.0, crowded_s=0.05)
    slow = [asyncio.create_task(bodies.read(sending(b"a"))) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as early:
        await bodies.read(sending(b"{}", whole=True))
    await asyncio.sleep(0.1)
    read = [await bodies.read(sending(b"{}", whole=True)) for _ in range(2)]
    done, pending = await asyncio.wait(slow, timeout=0.1)

    assert early.value.status == 429
    assert read == [b"{}", b"{}"]
    ended = slow[0].exception()
    assert done == {slow[0]}  # its place is enough for both
    assert isinstance(ended, ApiError)
    assert ended.status == 408
    assert len(pending) == 2
    for task in pending:
        task.cancel()
