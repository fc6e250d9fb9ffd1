"""A request as the body of a chat completion, and a reply as our engines would give it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.engines.chat_wire import ChatWire
from actors.routing.calls import GenerateCall, Generated
from pipeline.config.endpoint import EndpointConfig
from pipeline.core.decoding import RepetitionDetection, Sampling
from pipeline.core.protocol import Failure
from pipeline.core.thinking import parts
from tests.endpoints import asks

ENDPOINT = EndpointConfig(base_urls=("http://host:8000/v1",), extra_body={"user": "us"})


def wire(model: dict[str, Any] | None = None, **found: Any) -> ChatWire:
    return ChatWire({"model": "org/model", **(model or {})}, ENDPOINT, found)


def told(
    message: dict[str, Any],
    end: str | None = "stop",
    usage: dict[str, Any] | None = None,
    of: ChatWire | None = None,
    **fields: Any,
) -> Generated | Failure:
    """What a reply with this message comes to."""
    usage = usage or {"prompt_tokens": 9, "completion_tokens": 100}
    reply = {"choices": [{"message": message, "finish_reason": end}], "usage": usage}
    return (of or wire()).answer(GenerateCall(asks(**fields)), reply)


def text_of(*arguments: Any, **named: Any) -> str:
    answer = told(*arguments, **named)
    assert isinstance(answer, Generated), answer
    return answer.text


def test_all_sampling_goes_over_the_wire() -> None:
    """Neutral values too, since a server has defaults of its own; what is refused stays out."""
    sampling = Sampling(
        top_k=20,
        thinking_budget=5,
        repetition_detection=RepetitionDetection(max_pattern_size=9, min_count=3),
    )
    model = {"chat_template_kwargs": {"enable_thinking": False}, "extra_body": {"effort": "low"}}
    request = asks(sampling=sampling, stop_token_ids=(7,), min_tokens=2, assistant_prefix="So ")
    body = wire(model, refused=("min_p", "seed")).body(GenerateCall(request))

    assert body == {
        "model": "org/model",
        "messages": [
            {"role": "user", "content": "12+7*3?"},
            {"role": "assistant", "content": "So "},
        ],
        "max_tokens": 200,
        "temperature": 0.7,
        "top_p": 0.95,
        "top_k": 20,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "thinking_token_budget": 5,
        "repetition_detection": {"max_pattern_size": 9, "min_pattern_size": 1, "min_count": 3},
        "stop_token_ids": [7],
        "min_tokens": 2,
        "continue_final_message": True,
        "add_generation_prompt": False,
        "chat_template_kwargs": {"enable_thinking": False},
        "effort": "low",
        "user": "us",
    }


def test_reasoning_is_put_back_in_front() -> None:
    """Between tags that the grader takes apart again; a thought that was cut stays open."""
    whole = text_of({"content": "\n\nIt is 4.", "reasoning": "Two and two."})
    cut = text_of({"content": None, "reasoning": "Two and"}, "length")

    assert parts(whole)[:3] == ("<think>Two and two.</think>", "\n\nIt is 4.", False)
    assert parts(cut)[:3] == ("<think>Two and", "", True)


@pytest.mark.parametrize(
    ("content", "end", "stored"),
    [
        ("Two.</think>4", "stop", "<think>\nTwo.</think>4"),
        ("Two and", "length", "<think>\nTwo and"),
        ("<think>\nTwo.</think>4", "stop", "<think>\nTwo.</think>4"),
        ("4", "stop", "4"),  # of a server that splits, where the thought was empty
    ],
)
def test_the_tag_that_the_template_wrote_is_put_back(content: str, end: str, stored: str) -> None:
    """As with our engines: found out before the run, or named in the configuration."""
    assert text_of({"content": content}, end, of=wire(opened="<think>\n")) == stored
    named = wire({"open_thinking": "<think>\n"})
    assert text_of({"content": content}, end, of=named) == stored


@pytest.mark.parametrize("text", ["  ", "a\0b", "\ud800"])
def test_text_that_no_model_takes_is_refused_here(text: str) -> None:
    """As our engines refuse it: an error of its row, and no request."""
    with pytest.raises(ValueError, match="must"):
        wire().body(GenerateCall(asks(text)))
