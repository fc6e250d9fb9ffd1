"""*ChatReply*: the answer to a request as a chat completion, whole or as a stream of chunks. Pure.

The text is that of the completion that the strategy's answer rule chose. What else the strategy did
stands in the field ``markovscale``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.serving.chat_request import ApiError, ChatRequest, refused
from actors.serving.served_models import OWNER, ServedModel
from pipeline.answers import extract
from pipeline.answers.answer_rules import apply
from pipeline.core.errors import ErrorKind
from pipeline.core.forms import json_in, without_calls
from pipeline.core.prices import Prices
from pipeline.core.protocol import Completion, Failure, Observation, Pool, Stop, StopReason
from pipeline.core.thinking import TAGS, parts
from pipeline.records.outcome import TOKEN_KINDS
from pipeline.records.trajectory import Row

_OUTCOME_COLUMNS = (
    *("stop_reason", "stop_rounds", "completions", "round_answers", "round_scores", "round_tokens"),
    *("p0", "p0_source", "a", "b", "posterior_path", "verifier_tokens", "wasted_tokens", "seconds"),
)
"""Columns of the outcome that an answer shows, besides what each rule answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """An answered request."""

    request_id: str
    created: int
    """Seconds since 1970."""
    model: str
    thinking: str
    """Of the chosen completion; ``""`` where it did not think."""
    content: str
    calls: tuple[dict[str, Any], ...]
    """Of tools, as OpenAI's API has them."""
    finish_reason: str
    usage: dict[str, Any]
    extension: dict[str, Any]
    """What the strategy did."""

    def body(self, progress: Sequence[str]) -> dict[str, Any]:
        """The answer as one object, with what a stream would have told as its reasoning."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self.content or (None if self.calls else ""),
            **reasoning("".join(progress) + self.thinking),
        }
        if self.calls:
            message["tool_calls"] = list(self.calls)
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        head = {**_head(self.request_id, self.created, self.model), "object": "chat.completion"}
        return {**head, "choices": [choice], "usage": self.usage, OWNER: self.extension}

    def last_chunks(self, *, include_usage: bool) -> list[dict[str, Any]]:
        """The chunks of a stream that follow the progress."""
        deltas: list[dict[str, Any]] = []
        if self.thinking:
            deltas.append(reasoning(self.thinking))
        if self.content or not self.calls:
            deltas.append({"content": self.content})
        if self.calls:
            called = [{"index": i, **call} for i, call in enumerate(self.calls)]
            deltas.append({"tool_calls": called})
        chunks = [chunk(self.request_id, self.created, self.model, delta) for delta in deltas]
        last = chunk(self.request_id, self.created, self.model, {}, self.finish_reason)
        chunks.append({**last, OWNER: self.extension})
        if include_usage:
            chunks.append({**last, "choices": [], "usage": self.usage})
        return chunks


def reasoning(text: str) -> dict[str, str]:
    """Reasoning under both names that clients look for: vLLM's of today, and the older one."""
    return {"reasoning": text, "reasoning_content": text}


def chunk(
    request_id: str,
    created: int,
    model: str,
    delta: Mapping[str, Any],
    finish_reason: str | None = None,
) -> dict[str, Any]:
    """One chunk of a stream."""
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish_reason}
    head = {**_head(request_id, created, model), "object": "chat.completion.chunk"}
    return {**head, "choices": [choice]}


def progress_line(row: Row) -> str:
    """What a finished completion is told as while the others are drawn.

    Args:
        row: of the journal (`pipeline.records.trajectory`).
    """
    sequential = row["pool"] == Pool.SEQUENTIAL.value
    name = f"round {row['round']}" if sequential else f"sample {row['sample']}"
    if row["error"] is not None:
        return f"{name}: failed\n"
    answer = "no answer" if row["answer"] is None else f"answer {row['answer']}"
    score = "" if row["score"] is None else f", score {row['score']:.2f}"
    return f"{name}: {answer}{score}, {row['completion_tokens']} tokens\n"


def reply_of(
    request: ChatRequest,
    model: ServedModel,
    row: Row,
    stop: Stop,
    observations: Sequence[Observation],
    created: int,
    prices: Prices | None = None,
) -> ChatReply:
    """The answer to a request whose strategy stopped.

    Args:
        row: its outcome (`pipeline.records.outcome`).
        stop, observations: what the outcome was made of.
        prices: of tokens, for the bill.

    Raises:
        ApiError: where the strategy could not go on for want of a completion.
    """
    if row["error"] is not None or stop.reason is StopReason.FAILED:
        raise _failed(row, observations)
    chosen = apply(model.rule, observations, stop)
    position = None if chosen is None else chosen.position
    answer = None if chosen is None else chosen.answer
    completion = _completion_at(position, stop, observations)
    thinking, content, calls = _shown(request, completion, answer)
    content, cut = _cut(content, request.stop)
    spared = completion.finish_reason == "length" and not cut
    path = row["posterior_path"]
    return ChatReply(
        request_id=row["question_id"],
        created=created,
        model=model.name,
        thinking=thinking,
        content=content,
        calls=tuple(
            {
                "id": f"call_{row['question_id'].removeprefix('chatcmpl-')[:24]}{i}",
                "type": "function",
                "function": {**call, "arguments": json.dumps(call["arguments"])},
            }
            for i, call in enumerate(calls)
        ),
        finish_reason="tool_calls" if calls else "length" if spared else "stop",
        usage=_usage(row, completion),
        extension={
            "strategy": model.label,
            "answer_rule": model.rule.value,
            "answer": answer,
            "position": position,
            "p_right": path[-1] if path else None,
            "usd": None if prices is None else prices.usd(row),
            **{name: row[name] for name in _OUTCOME_COLUMNS},
            **{name: row[name] for name in row if name.startswith("answer_")},
            "ignored": list(request.ignored),
        },
    )


def _completion_at(
    position: int | None, stop: Stop, observations: Sequence[Observation]
) -> Completion:
    """The chosen completion; the last that the stop rests on where none has an answer."""
    for place in (position, *reversed(stop.rounds)):
        if place is not None and isinstance(found := observations[place], Completion):
            return found
    return Completion(text="", finish_reason="stop")


def _shown(
    request: ChatRequest, completion: Completion, answer: str | None
) -> tuple[str, str, list[dict[str, Any]]]:
    """(thinking, text, calls) of a completion; the text holds the answer in any case."""
    thinking, content, _, mark = parts(completion.text)
    thinking = (thinking.removesuffix(mark) if mark else thinking).strip()
    for opening, _ in TAGS:
        thinking = thinking.removeprefix(opening).lstrip()
    content, form = content.strip(), request.form
    if form is not None:
        calls = form.calls_in(completion.text)
        value = json_in(content) if form.wants_json and not calls else None
        if value is not None:
            return thinking, json.dumps(value, ensure_ascii=False), []
        return thinking, without_calls(content) if form.tools else content, calls
    if answer is not None and extract(content) != answer:
        content = f"{content}\n\n\\boxed{{{answer}}}".lstrip()
    return thinking, content, []


def _cut(content: str, stops: Sequence[str]) -> tuple[str, bool]:
    ends = [end for stop in stops if (end := content.find(stop)) >= 0]
    return (content[: min(ends)], True) if ends else (content, False)


def _usage(row: Row, shown: Completion) -> dict[str, Any]:
    """Tokens of all completions drawn and of tries that gave none; the verifier's are apart."""
    tokens = {kind: row[kind] for kind in TOKEN_KINDS}
    drawn = tokens["completion_tokens"] + row["wasted_tokens"]
    visible = shown.completion_tokens - shown.thinking_tokens
    return {
        "prompt_tokens": tokens["prompt_tokens"],
        "completion_tokens": drawn,
        "total_tokens": tokens["prompt_tokens"] + drawn,
        "prompt_tokens_details": {"cached_tokens": tokens["cached_prompt_tokens"]},
        "completion_tokens_details": {"reasoning_tokens": max(0, drawn - visible)},
    }


def _failed(row: Row, observations: Sequence[Observation]) -> ApiError:
    """Why there is no answer, by whose fault it is."""
    failures = [o for o in observations if isinstance(o, Failure)]
    kind = failures[-1].kind if failures else None
    why = f"the strategy could not be finished: {row['error']}"
    if kind is ErrorKind.BAD_REQUEST:
        # clients know by OpenAI's code that fewer turns would do
        code = "context_length_exceeded" if "context" in why.lower() else "bad_request"
        return ApiError(400, why, code, param="messages")
    if kind in (ErrorKind.NO_REPLICA, ErrorKind.NOT_TAKEN):
        return ApiError(503, why, "no_engine", retry_after_s=10)
    return ApiError(504 if kind is ErrorKind.DEADLINE else 500, why, kind and kind.value)


def _head(request_id: str, created: int, model: str) -> dict[str, Any]:
    return {"id": request_id, "created": created, "model": model}


_ONLY = {"stream": False, "background": False, "previous_response_id": None, "conversation": None}
_RENAMED = {"max_output_tokens": "max_tokens", "parallel_tool_calls": "parallel_tool_calls"}
_READ = ("input", "instructions", "text", "reasoning", "tools", "tool_choice", "store")


def as_chat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a chat completion that ask for the same as a request of the Responses API;
    nothing is stored, so a conversation comes whole with each.

    Raises:
        ApiError: 400, naming the field, what must hold and what came.
    """
    for name, allowed in _ONLY.items():
        if fields.get(name) not in (None, allowed):
            raise refused(name, "must be left out: it is one answer to one input", fields[name])
    content = fields.get("input")
    items = [{"role": "user", "content": content}] if isinstance(content, str) else content
    if not isinstance(items, list):
        raise refused("input", "must be text or a list of items", content)
    messages = [message for i, item in enumerate(items) for message in _message(item, i)]
    if fields.get("instructions"):
        messages.insert(0, {"role": "system", "content": fields["instructions"]})
    kept = {
        _RENAMED.get(name, name): value
        for name, value in fields.items()
        if name not in (*_READ, *_ONLY)
    }
    return {**kept, "messages": messages, **_form(fields), **_effort(fields)}


def as_response(reply: ChatReply, progress: Sequence[str]) -> dict[str, Any]:
    """The answer in the shape of the Responses API."""
    usage, own = reply.usage, reply.request_id.removeprefix("chatcmpl-")
    thought = "".join(progress) + reply.thinking
    output: list[dict[str, Any]] = [
        {
            "type": "reasoning",
            "id": f"rs_{own}",
            "summary": [{"type": "summary_text", "text": thought}],
        }
    ]
    if reply.content or not reply.calls:
        text = {"type": "output_text", "text": reply.content, "annotations": []}
        about = {"type": "message", "id": f"msg_{own}", "status": "completed", "role": "assistant"}
        output.append({**about, "content": [text]})
    output += [
        {
            "type": "function_call",
            "id": f"fc_{call['id'].removeprefix('call_')}",
            "call_id": call["id"],
            "status": "completed",
            **call["function"],
        }
        for call in reply.calls
    ]
    cut = reply.finish_reason == "length"
    return {
        "id": f"resp_{own}",
        "object": "response",
        "created_at": reply.created,
        "model": reply.model,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": usage["prompt_tokens_details"],
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": usage["completion_tokens_details"],
            "total_tokens": usage["total_tokens"],
        },
        OWNER: reply.extension,
    }


def _message(item: Any, place: int) -> list[dict[str, Any]]:
    """The messages of an item of ``input``: one, or none for reasoning."""
    kind = item.get("type", "message") if isinstance(item, Mapping) else None
    if kind == "message":
        return [{"role": item.get("role"), "content": item.get("content")}]
    if kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        return [{"role": "assistant", "content": None, "tool_calls": [{"function": function}]}]
    if kind == "function_call_output":
        return [{"role": "tool", "content": item.get("output")}]
    if kind == "reasoning":
        return []
    raise refused(f"input[{place}]", "must be a message, a function_call or its output", item)


def _form(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Tools and the format of text, one level deeper as chat completions have them."""
    found: dict[str, Any] = {}
    tools, choice = fields.get("tools") or [], fields.get("tool_choice")
    for tool in tools if isinstance(tools, list) else [tools]:
        if not isinstance(tool, Mapping) or tool.get("type") != "function":
            raise refused("tools", "must be functions", tool)
    if tools:
        found["tools"] = [{"type": "function", "function": _without_type(tool)} for tool in tools]
    if isinstance(choice, Mapping):
        choice = {"type": "function", "function": {"name": choice.get("name")}}
    found["tool_choice"] = choice
    text = fields.get("text")
    form = text.get("format") if isinstance(text, Mapping) else None
    if isinstance(form, Mapping) and form.get("type") == "json_schema":
        form = {"type": "json_schema", "json_schema": _without_type(form)}
    found["response_format"] = form
    return found


def _without_type(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "type"}


def _effort(fields: Mapping[str, Any]) -> dict[str, Any]:
    reasoning = fields.get("reasoning")
    return {"reasoning_effort": reasoning.get("effort")} if isinstance(reasoning, Mapping) else {}
