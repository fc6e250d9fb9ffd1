"""*ChatRequest*: what a request asks of a strategy, and `ApiError` for what is refused. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.core.forms import Form, call_block
from pipeline.core.prompts import Message
from pipeline.core.text import encodable

_TAKEN = (
    *("model", "messages", "stream", "stream_options", "seed", "stop", "markovscale"),
    *("max_tokens", "max_completion_tokens", "reasoning_effort"),
)
_FORM = ("tools", "tool_choice", "parallel_tool_calls", "response_format")
_ONLY: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "use_beam_search": (False,),
}
"""Fields that change what a reply is, and may only say what holds anyway."""
_BUDGET = ("n", "target", "usd", "strategy")
EFFORTS = {"none": 0.0, "minimal": 0.0, "low": 0.25, "medium": 0.5, "high": 1.0, "xhigh": 1.0}
"""``reasoning_effort``: the share of a strategy's completions."""
_PART_TYPES = ("text", "input_text", "output_text")
_MOST_STOPS = 16
_HALVES = re.compile("[\ud800-\udfff]")
_SEED_BITS = 63


class ApiError(Exception):
    """An error of a request, in the format of OpenAI's API.

    Args:
        status: of HTTP.
        message: what must hold, and what came.
        code: a word for programs, such as ``model_not_found``.
        param: the field of the request that is at fault.
        retry_after_s: after how long another try may succeed.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        param: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.retry_after_s = retry_after_s

    @property
    def body(self) -> dict[str, Any]:
        """The error as JSON; the openai client makes its exceptions of it."""
        kinds = {401: "authentication_error", 429: "rate_limit_error"}
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {
            "error": {
                "message": encodable(self.message),
                "type": kinds.get(self.status, kind),
                "param": self.param and encodable(self.param),
                "code": self.code,
            }
        }

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer."""
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a request may take; None leaves it to the strategy."""

    n: int | None = None
    """Completions at most."""
    share: float | None = None
    """Of the strategy's own completions, in [0, 1]."""
    target: float | None = None
    """Confidence at which the strategy stops, in (0, 1)."""
    usd: float | None = None
    """Price of all completions at most."""
    strategy: str | None = None
    """Label of the strategy, in place of the model's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One question for one model."""

    model: str
    question: str
    turns: tuple[Message, ...] = ()
    """The conversation before the question."""
    form: Form | None = None
    """What the reply must be beyond text."""
    budget: Budget = Budget()
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


def chat_request(fields: Mapping[str, Any]) -> ChatRequest:
    """Read a request; fields that do not change what a reply is are noted, not refused.

    Raises:
        ApiError: 400, naming the field, what must hold and what came.
    """
    fields = {name: value for name, value in fields.items() if value is not None}
    for name, allowed in _ONLY.items():
        if name in fields and fields[name] not in allowed:
            wanted = " or ".join(json.dumps(each) for each in allowed)
            raise refused(name, f"must be {wanted} or left out", fields[name])
    model = fields.get("model")
    if not isinstance(model, str):
        raise refused("model", "must name a model of /v1/models", model)
    options = _kind(fields, "stream_options", dict, "an object") or {}
    turns, question = conversation(fields.get("messages"))
    budget, unused = _budget(fields)
    known = (*_TAKEN, *_FORM, *_ONLY)
    limits = (_whole(fields, name, 1) for name in ("max_tokens", "max_completion_tokens"))
    return ChatRequest(
        model=model,
        question=question,
        turns=turns,
        form=_form(fields),
        budget=budget,
        stream=_kind(fields, "stream", bool, "true or false") or False,
        include_usage=options.get("include_usage") is True,
        seed=_whole(fields, "seed", -(1 << _SEED_BITS)),
        max_tokens=min((limit for limit in limits if limit is not None), default=None),
        stop=_stops(fields.get("stop")),
        ignored=(*(encodable(name) for name in fields if name not in known), *unused),
    )


def conversation(messages: Any) -> tuple[tuple[Message, ...], str]:
    """The turns of a conversation, and the question: its last turn, of the user or of tools.

    A developer is a system; calls of tools and their results are text (`pipeline.core.forms`);
    turns of one speaker in a row are one turn. Strategies write their prompts around the question.

    Raises:
        ApiError: 400 where there is no question.
    """
    if not isinstance(messages, list) or not messages:
        raise refused("messages", "must be a list with at least one message", messages)
    turns: list[Message] = []
    for i, message in enumerate(messages):
        role, text = _turn(message, f"messages[{i}]")
        if turns and turns[-1].role == role:
            text = f"{turns.pop().content}\n\n{text}"
        turns.append(Message(role, text))
    *before, last = turns
    if last.role != "user":
        raise refused("messages", "must end with a message of the user or a tool", last.role)
    if not last.content.strip():
        raise refused("messages", "must end with a question that is not empty", last.content)
    if any(_HALVES.search(turn.content) for turn in turns):
        raise refused("messages", "must be text, not half of a character", "a lone surrogate")
    return tuple(before), last.content


def _turn(message: Any, where: str) -> tuple[str, str]:
    if not isinstance(message, Mapping):
        raise refused(where, "must be an object with role and content", message)
    role, content = message.get("role"), message.get("content")
    if role not in ("system", "developer", "user", "assistant", "tool"):
        raise refused(f"{where}.role", "must be system, developer, user, assistant or tool", role)
    calls = message.get("tool_calls") or ()
    if content is None and role == "assistant":  # an earlier answer that was none, or only calls
        content = ""
    text = _text(content, where)
    if role == "tool":
        return "user", f"<tool_response>\n{text}\n</tool_response>"
    if role == "assistant":
        text += "".join(_call(call, f"{where}.tool_calls") for call in calls)
    elif calls:
        raise refused(f"{where}.tool_calls", "must be of the assistant", role)
    return ("system" if role == "developer" else role), text


def _call(call: Any, where: str) -> str:
    try:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        json.loads(arguments)
        return call_block(name, arguments)
    except (KeyError, TypeError, ValueError):
        raise refused(where, "must have a function with name and JSON arguments", call) from None


def _text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise refused(f"{where}.content", "must be text, or a list of parts of type text", content)
    texts = []
    for part in content:
        part = {"type": "text", "text": part} if isinstance(part, str) else part
        if not isinstance(part, Mapping) or part.get("type") not in _PART_TYPES:
            kind = part.get("type") if isinstance(part, Mapping) else part
            raise refused(f"{where}.content", "must have parts of type text only", kind)
        if not isinstance(part.get("text"), str):
            raise refused(f"{where}.content", "must have a text in each part", part.get("text"))
        texts.append(part["text"])
    return "".join(texts)


def _form(fields: Mapping[str, Any]) -> Form | None:
    """Of the reply, with what is read of it checked."""
    tools = _kind(fields, "tools", list, "a list of functions") or []
    names = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise refused("tools", "must be functions with a name", tool)
        names.append(function["name"])
    choice = fields.get("tool_choice", "auto")
    named = [
        {"type": "function", "function": {"name": name}} for name in names
    ]  # as OpenAI's API has them
    if tools and choice not in ("none", "auto", "required", *named):
        raise refused("tool_choice", "must be none, auto, required or one of tools", choice)
    wanted = _kind(fields, "response_format", dict, "an object") or {}
    kind, schema = wanted.get("type", "text"), wanted.get("json_schema")
    if kind not in ("text", "json_object", "json_schema"):
        raise refused("response_format.type", "must be text, json_object or json_schema", kind)
    if kind == "json_schema" and not isinstance(schema, Mapping):
        raise refused("response_format.json_schema", "must be an object", schema)
    form = Form.of({name: fields[name] for name in _FORM if name in fields})
    if form is not None and _HALVES.search(form.text):
        raise refused("tools", "must be text, not half of a character", "a lone surrogate")
    return form


def _budget(fields: Mapping[str, Any]) -> tuple[Budget, list[str]]:
    """The budget, and fields of ``markovscale`` that are not known."""
    own = _kind(fields, "markovscale", dict, "an object") or {}
    effort = fields.get("reasoning_effort")
    if effort is not None and effort not in EFFORTS:
        raise refused("reasoning_effort", f"must be one of {', '.join(EFFORTS)}", effort)
    for name in ("target", "usd"):
        value = own.get(name)
        most = 1.0 if name == "target" else float("inf")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (number and 0 < value < most):
            raise refused(f"markovscale.{name}", f"must be a number in (0, {most:g})", value)
    budget = Budget(
        n=_whole(own, "n", 1, "markovscale."),
        share=None if effort is None else EFFORTS[effort],
        target=own.get("target"),
        usd=own.get("usd"),
        strategy=_kind(own, "strategy", str, "the label of a strategy", "markovscale."),
    )
    return budget, [f"markovscale.{encodable(name)}" for name in own if name not in _BUDGET]


def _kind(fields: Mapping[str, Any], name: str, kind: type, wanted: str, above: str = "") -> Any:
    value = fields.get(name)
    if value is not None and not isinstance(value, kind):
        raise refused(f"{above}{name}", f"must be {wanted}", value)
    return value


def _whole(fields: Mapping[str, Any], name: str, least: int, above: str = "") -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not least <= value < 1 << _SEED_BITS:
        raise refused(f"{above}{name}", f"must be a whole number from {least} on", value)
    return int(value)


def _stops(value: Any) -> tuple[str, ...]:
    stops: Sequence[Any] = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(stops, list) or len(stops) > _MOST_STOPS:
        raise refused("stop", f"must be a text, or at most {_MOST_STOPS} of them", value)
    if not all(isinstance(stop, str) for stop in stops):
        raise refused("stop", "must hold texts only", value)
    return tuple(stop for stop in stops if stop)


def refused(param: str, rule: str, got: Any) -> ApiError:
    """The error of a field that breaks a rule."""
    shown = json.dumps(got, ensure_ascii=False, default=str)
    shown = shown if len(shown) <= 80 else f"{shown[:80]}..."
    return ApiError(400, f"{param} {rule}, got {shown}", "invalid_request", param=param)
