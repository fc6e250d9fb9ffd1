"""OpenAI's Responses API for one answer, in terms of chat completions. Pure.

Nothing is stored, so a conversation comes whole with each request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.serving.chat_reply import ChatReply
from actors.serving.chat_request import refused
from actors.serving.served_models import OWNER

_ONLY = {"stream": False, "background": False, "previous_response_id": None, "conversation": None}
_RENAMED = {"max_output_tokens": "max_tokens", "parallel_tool_calls": "parallel_tool_calls"}
_READ = ("input", "instructions", "text", "reasoning", "tools", "tool_choice", "store")


def as_chat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a chat completion that ask for the same.

    Raises:
        ApiError: 400, naming the field, what must hold and what came.
    """
    for name, allowed in _ONLY.items():
        if fields.get(name) not in (None, allowed):
            raise refused(name, "must be left out: it is one answer to one input", fields[name])
    asked = fields.get("input")
    items = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    if not isinstance(items, list):
        raise refused("input", "must be text or a list of items", asked)
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
    asked = text.get("format") if isinstance(text, Mapping) else None
    if isinstance(asked, Mapping) and asked.get("type") == "json_schema":
        asked = {"type": "json_schema", "json_schema": _without_type(asked)}
    found["response_format"] = asked
    return found


def _without_type(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "type"}


def _effort(fields: Mapping[str, Any]) -> dict[str, Any]:
    reasoning = fields.get("reasoning")
    return {"reasoning_effort": reasoning.get("effort")} if isinstance(reasoning, Mapping) else {}
