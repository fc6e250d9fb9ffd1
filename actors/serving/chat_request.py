"""Chat requests: what of one is asked of a strategy, and what is refused. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.serving.api_error import ApiError

_TAKEN = (
    *("model", "messages", "stream", "stream_options", "seed", "stop"),
    *("max_tokens", "max_completion_tokens"),
)
_IGNORED = ("temperature", "top_p", "top_k", "min_p")
"""The strategy samples as ``science.decoding`` says; an answer names those that it was sent."""
_NOTES = (
    *("user", "metadata", "safety_identifier", "prompt_cache_key", "parallel_tool_calls"),
    "service_tier",
)
"""What changes no answer anywhere."""
_ONLY: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "use_beam_search": (False,),
    "function_call": ("none", "auto"),
    "include_reasoning": (True,),
    "store": (False,),
}
"""Fields that may only say what holds anyway."""
_OF_A_MESSAGE = ("role", "content", "name", "type", "refusal", "annotations")
_OF_A_REPLY = ("reasoning", "reasoning_content", "id", "provider_specific_fields")
"""What an earlier answer may hold beside its text: it is not asked again."""
_TEXTS = ("text", "input_text", "output_text")
_MOST_STOPS = 16
_HALVES = re.compile("[\ud800-\udfff]")
_SEED_BITS = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One question for one model."""

    model: str
    question: str
    stream: bool = False
    include_usage: bool = False
    seed: int | None = None
    """Decides the sampling seeds of its completions; None draws one for each request."""
    max_tokens: int | None = None
    """New tokens of each completion at most; never more than ``science.decoding.max_tokens``."""
    stop: tuple[str, ...] = ()
    """Texts before which the answer is cut."""
    ignored: tuple[str, ...] = ()
    """Fields that were sent and have no effect."""


def chat_request(body: bytes) -> ChatRequest:
    """What a request asks for.

    Raises:
        ApiError: 400, naming the field, what must hold and what came.
    """
    fields = _object(body)
    for name, value in fields.items():
        if name in _ONLY and value not in _ONLY[name]:
            wanted = " or ".join(json.dumps(each) for each in _ONLY[name])
            rule = f"must be {wanted} or left out: a request is one question, its answer is text"
            raise _refused(name, rule, value)
        if name not in (*_TAKEN, *_IGNORED, *_NOTES, *_ONLY):
            raise _refused(name, "is no field of this endpoint (docs/serving.md lists them)", value)
    model = fields.get("model")
    if not isinstance(model, str):
        raise _refused("model", "must name a model of /v1/models", model)
    for name in _IGNORED:
        _kind(fields, name, (int, float), "a number")
    options = _kind(fields, "stream_options", dict, "an object") or {}
    return ChatRequest(
        model=model,
        question=question_in(fields.get("messages")),
        stream=_kind(fields, "stream", bool, "true or false") or False,
        include_usage=options.get("include_usage") is True,
        seed=_whole(fields, "seed", -(1 << _SEED_BITS)),
        max_tokens=_least(
            _whole(fields, "max_tokens", 1), _whole(fields, "max_completion_tokens", 1)
        ),
        stop=_stops(fields.get("stop")),
        ignored=tuple(name for name in _IGNORED if name in fields),
    )


def question_in(messages: Any) -> str:
    """The question that messages ask, as one text.

    It is the last message, which must be the user's. What systems and developers say stands before
    it; earlier turns stand between the two, each with its speaker. Strategies write their own
    prompts around it (``science.prompts``), and the generator has its own system message
    (``science.prompts.system``).

    Raises:
        ApiError: 400 where there is no question.
    """
    if not isinstance(messages, list) or not messages:
        raise _refused("messages", "must be a list with at least one message", messages)
    turns = [_turn(message, f"messages[{i}]") for i, message in enumerate(messages)]
    *before, (role, question) = turns
    if role != "user":
        raise _refused("messages", "must end with a message of the user: the question", role)
    if not question.strip():
        raise _refused("messages", "must end with a question that is not empty", question)
    if any(_HALVES.search(text) for _, text in turns):
        raise _refused("messages", "must be text, not half of a character", "a lone surrogate")
    orders = [text for role, text in before if role == "system"]
    talk = [f"{role.capitalize()}: {text}" for role, text in before if role != "system"]
    if talk:
        question = f"User: {question}"
    return "\n\n".join([*orders, *talk, question])


def _turn(message: Any, where: str) -> tuple[str, str]:
    """(role, text), a developer being a system."""
    if not isinstance(message, Mapping):
        raise _refused(where, "must be an object with role and content", message)
    role = message.get("role")
    if role not in ("system", "developer", "user", "assistant"):
        raise _refused(f"{where}.role", "must be system, developer, user or assistant", role)
    known = (*_OF_A_MESSAGE, *(_OF_A_REPLY if role == "assistant" else ()))
    for name, value in message.items():
        if name not in known and value not in (None, [], ""):
            raise _refused(f"{where}.{name}", "must be left out: messages are text", value)
    content = message.get("content")
    if content is None and role == "assistant":  # an earlier answer that was none
        content = ""
    return ("system" if role == "developer" else role), _text(content, where)


def _text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _refused(f"{where}.content", "must be text, or a list of parts of type text", content)
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, Mapping) or part.get("type") not in _TEXTS:
            kind = part.get("type") if isinstance(part, Mapping) else part
            raise _refused(f"{where}.content", "must have parts of type text only", kind)
        if not isinstance(part.get("text"), str):
            raise _refused(f"{where}.content", "must have a text in each part", part.get("text"))
        texts.append(part["text"])
    return "".join(texts)


def _object(body: bytes) -> dict[str, Any]:
    """The fields of a body; those that are null are as good as left out."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body must be JSON, got {error}", "invalid_json") from error
    if not isinstance(fields, dict):
        raise ApiError(400, "the body must be a JSON object", "invalid_json")
    return {name: value for name, value in fields.items() if value is not None}


def _kind(fields: Mapping[str, Any], name: str, kind: type | tuple[type, ...], wanted: str) -> Any:
    value = fields.get(name)
    if value is not None and not isinstance(value, kind):
        raise _refused(name, f"must be {wanted}", value)
    return value


def _whole(fields: Mapping[str, Any], name: str, least: int) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not least <= value < 1 << _SEED_BITS:
        raise _refused(name, f"must be a whole number from {least} on", value)
    return int(value)


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _stops(value: Any) -> tuple[str, ...]:
    stops: Sequence[Any] = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(stops, list) or len(stops) > _MOST_STOPS:
        raise _refused("stop", f"must be a text, or at most {_MOST_STOPS} of them", value)
    if not all(isinstance(stop, str) for stop in stops):
        raise _refused("stop", "must hold texts only", value)
    return tuple(stop for stop in stops if stop)


def _refused(param: str, rule: str, got: Any) -> ApiError:
    shown = json.dumps(got, ensure_ascii=False, default=str)
    shown = shown if len(shown) <= 80 else f"{shown[:80]}..."
    return ApiError(400, f"{param} {rule}, got {shown}", "invalid_request", param=param)
