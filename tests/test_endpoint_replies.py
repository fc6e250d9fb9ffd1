"""What a reply of an endpoint comes to, in the forms that servers have for it: on real sockets."""

from __future__ import annotations

from typing import Any

import pytest

from actors.routing.calls import GenerateCall, Generated
from actors.routing.client import EngineClient
from pipeline.core.protocol import Failure
from tests.chat_servers import Faults, Said, ScriptedModel, serving
from tests.endpoints import asks, client_of

HM = "<think>hm</think>"


async def outcome(client: EngineClient, **fields: Any) -> Any:
    return await client.call(GenerateCall(asks(**fields), session="s"))


def completed(message: dict[str, Any] | None = None, **choice: Any) -> Said:
    """A completion of two tokens."""
    of = {"message": message or {"content": "5"}, "finish_reason": "stop", **choice}
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    return Said(200, {"choices": [of], "usage": usage})


@pytest.mark.parametrize(
    ("word", "end"),
    [
        *((word, "stop") for word in ("STOP", "eos", "eos_token", "end_turn", None, "")),
        *((word, "stop") for word in ("stop_str", "COMPLETE", "FINISH_REASON_STOP")),
        *((word, "length") for word in ("MAX_TOKENS", "max_tokens", "model_length")),
        ("model_context_window_exceeded", "length"),
    ],
)
async def test_ends_are_told_in_many_words(word: str | None, end: str) -> None:
    """Those of other servers; without a word, a limit that was reached is the end."""
    with serving(lambda asked: completed(finish_reason=word)) as server:
        async with client_of([server.url]) as (client, _):
            made, at_limit = await outcome(client), await outcome(client, max_tokens=2)

    assert isinstance(made, Generated), made
    assert made.finish_reason == end
    assert word or at_limit.finish_reason == "length"


@pytest.mark.parametrize("word", ["abort", "error", "insufficient_system_resource"])
async def test_a_completion_that_broke_off_is_tried_again(word: str) -> None:
    """Its tokens are known, and counted as wasted."""
    faults = Faults(ScriptedModel(), iter([completed(finish_reason=word)]))
    with serving(faults) as server:
        async with client_of([server.url]) as (client, _):
            made = await outcome(client)

    assert isinstance(made, Generated), made
    assert (made.attempts, made.wasted_tokens, made.unknown_attempts) == (2, 2, 0)


@pytest.mark.parametrize("word", ["content_filter", "tool_calls", 7])
async def test_an_end_that_is_no_answer_is_an_error_of_its_row(word: Any) -> None:
    """Another try would end as this did; its tokens are counted."""
    with serving(lambda asked: completed(finish_reason=word)) as server:
        async with client_of([server.url]) as (client, _):
            made = await outcome(client)

    error = f"bad_request: the completion ended with {word!r}"
    assert made == Failure(error=error, completion_tokens=2)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "5", "reasoning_content": None}, "5"),
        ({"content": "5", "reasoning": "hm", "reasoning_content": "hm"}, "<think>hm</think>5"),
        ({"content": [{"type": "text", "text": "5"}, {"type": "text", "text": "6"}]}, "56"),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                    {"type": "text", "text": "5"},
                ]
            },
            "<think>hm</think>5",
        ),
        ({"content": None}, ""),
        ({"content": ["5", {"type": "output_text", "text": "6"}]}, "56"),
        ({"content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": None}]}, HM),
        ({"content": "5", "reasoning": {"of": "a form"}, "reasoning_content": "hm"}, f"{HM}5"),
        ({"content": "5", "reasoning_content": "<think>hm</think>"}, f"{HM}5"),
        ({"content": "<think>hm</think>5", "reasoning_content": "hm"}, f"{HM}5"),
    ],
)
async def test_thinking_and_text_come_in_many_forms(message: dict[str, Any], text: str) -> None:
    """In fields of their own, null, or as parts of the content."""
    with serving(lambda asked: completed(message)) as server:
        async with client_of([server.url]) as (client, _):
            made = await outcome(client)

    assert isinstance(made, Generated), made
    assert made.text == text


async def test_keys_of_odd_forms_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """With blanks, or JSON as some gateways want it, repeated in a reply that is not understood."""
    key = '{"virtual_key":  "v-Secret"}'
    monkeypatch.setenv("MY_CONFIG", key)
    with serving(lambda asked: Said(200, {"told": asked.headers["X-Config"]})) as server:
        headers = {"headers_env": {"X-Config": "MY_CONFIG"}}
        async with client_of([server.url], endpoint=headers, attempts=1) as (client, _):
            made = await outcome(client)

    assert server.asked[0].headers["X-Config"] == key
    assert 'with choices, got \'{"told": "***"}\'' in made.error.replace("\\", "")


COUNTED: list[tuple[dict[str, Any], tuple[int, int, int, int]]] = [
    ({"prompt_tokens_details": None, "completion_tokens_details": None}, (9, 0, 4, 0)),
    ({"prompt_tokens_details": {"cached_tokens": 6}}, (9, 6, 4, 0)),
    ({"prompt_tokens_details": {"cached_tokens": 99}}, (9, 9, 4, 0)),
    ({"prompt_tokens_details": {"cached_tokens": "6"}}, (9, 0, 4, 0)),
    ({"prompt_tokens_details": [6], "prompt_cache_hit_tokens": 5}, (9, 5, 4, 0)),
    ({"completion_tokens_details": {"reasoning_tokens": 3}}, (9, 0, 4, 3)),
    ({"completion_tokens_details": {"reasoning_tokens": 99}}, (9, 0, 4, 4)),
    ({"completion_tokens_details": {"reasoning_tokens": -1}}, (9, 0, 4, 0)),
    ({"prompt_tokens": 9.0, "completion_tokens": 4.0}, (9, 0, 4, 0)),
]


@pytest.mark.parametrize(("told", "counted"), COUNTED)
async def test_tokens_are_whole_numbers_that_fit_together(
    told: dict[str, Any], counted: tuple[int, ...]
) -> None:
    """Cached ones are some of those read, reasoning ones some of those made, whatever is told."""
    said = completed()
    said.body["usage"] = {"prompt_tokens": 9, "completion_tokens": 4, **told}
    with serving(lambda asked: said) as server:
        async with client_of([server.url]) as (client, _):
            made = await outcome(client)

    assert isinstance(made, Generated), made
    names = ("prompt_tokens", "cached_prompt_tokens", "completion_tokens", "thinking_tokens")
    assert tuple(getattr(made, name) for name in names) == counted


PLACES: list[Any] = [
    None,
    {"content": None},
    {"content": [{"token": "5", "logprob": -0.1}]},
    {"content": [{"token": "5", "top_logprobs": None}]},
    {"content": [{"token": "5", "top_logprobs": [{"token": "5", "logprob": None}]}]},
    {"content": [{"token": "5", "top_logprobs": [{"token": "5", "logprob": float("nan")}]}]},
    {"tokens": ["5"], "token_logprobs": [-0.1], "top_logprobs": [{"5": -0.1}]},
    "none",
]


@pytest.mark.parametrize("logprobs", PLACES)
async def test_a_reply_without_log_probabilities_is_one(logprobs: Any) -> None:
    """It takes no part in votes that weigh by them; nothing is drawn again for want of them."""
    with serving(lambda asked: completed(logprobs=logprobs)) as server:
        async with client_of([server.url], model={"logprobs": True}) as (client, _):
            made = await outcome(client)

    assert isinstance(made, Generated), made
    assert (made.confidence, made.attempts) == (None, 1)
