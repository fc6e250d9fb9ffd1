"""*Form*: requires JSON or calls of tools of a reply, and reads such a reply.

Calls of tools are text everywhere within: a block ``<tool_call>{"name": ..., "arguments": ...}
</tool_call>`` each, as many models write them themselves. Answers are JSON in one canonical
spelling, so votes over them compare values: keys are sorted, and 2.0 is 2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.core.thinking import after_thinking

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a reply.

    Args:
        text: a JSON object with any of ``tools``, ``tool_choice``, ``parallel_tool_calls`` and
            ``response_format``, as OpenAI's chat API has them.
    """

    text: str

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Form | None:
        """The form that fields of a request ask for; None for plain text."""
        kept = {name: value for name, value in fields.items() if value not in (None, [], {})}
        tools = kept.get("tools") and kept.get("tool_choice") != "none"
        if not tools:
            kept = {name: kept[name] for name in kept.keys() & {"response_format"}}
        if kept.get("response_format", {}).get("type", "text") == "text":
            kept.pop("response_format", None)
        # in their order: models write the fields of a schema in its own
        return cls(json.dumps(kept, ensure_ascii=False, separators=(",", ":"))) if kept else None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields, as a server takes them."""
        found: dict[str, Any] = json.loads(self.text)
        return found

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that a reply may call."""
        tools: list[dict[str, Any]] = self.fields.get("tools", [])
        return tools

    def answer_of(self, text: str) -> str | None:
        """The calls or the JSON object of a reply in canonical spelling; None where it has none."""
        value: Any = self.calls_in(text) or (json_in(text) if self.wants_json else None)
        return canonical_json(value) if value else None

    @property
    def wants_json(self) -> bool:
        """Whether a reply that calls no tool must be a JSON object."""
        return "response_format" in self.fields

    def calls_in(self, text: str) -> list[dict[str, Any]]:
        """The calls of a reply: a name and an object of arguments each."""
        return calls_in(text) if self.tools else []

    def schema(self) -> dict[str, Any] | None:
        """The JSON schema that the whole reply must match; None where any text is allowed.

        A choice of tools that demands a call demands one block's JSON.
        """
        fields = self.fields
        choice = fields.get("tool_choice", "auto")
        if self.tools and choice != "auto":
            wanted = choice["function"]["name"] if isinstance(choice, dict) else None
            functions = [tool["function"] for tool in self.tools]
            called = [_call_schema(f) for f in functions if wanted in (None, f["name"])]
            return called[0] if len(called) == 1 else {"anyOf": called}
        form = fields.get("response_format", {})
        if form.get("type") == "json_schema":
            schema: dict[str, Any] = form["json_schema"].get("schema", {"type": "object"})
            return schema
        return {"type": "object"} if form and not self.tools else None

    def as_calls(self, text: str) -> str:
        """A reply that was held to the `schema` of a call, with the marks of a call around it."""
        forced = self.tools and self.fields.get("tool_choice", "auto") != "auto"
        if not forced or calls_in(text):
            return text
        reply = after_thinking(text)
        if not isinstance(_loaded(reply), dict):  # cut, or held to nothing
            return text
        return f"{text[: len(text) - len(reply)]}<tool_call>{reply.strip()}</tool_call>"


def calls_in(text: str) -> list[dict[str, Any]]:
    """The calls of tools of a reply; blocks that are no calls are left out."""
    found = []
    for block in _CALL.findall(after_thinking(text)):
        value = _loaded(block)
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            arguments = value.get("arguments", {})
            arguments = _loaded(arguments) if isinstance(arguments, str) else arguments
            if isinstance(arguments, dict):
                found.append({"name": value["name"], "arguments": arguments})
    return found


def without_calls(text: str) -> str:
    """The text of a reply around its calls."""
    return _CALL.sub("", text).strip()


def call_block(name: str, arguments: str) -> str:
    """A call as text.

    Args:
        name: of the tool.
        arguments: as JSON.
    """
    return f'<tool_call>{{"name": {json.dumps(name)}, "arguments": {arguments}}}</tool_call>'


def json_in(text: str) -> dict[str, Any] | None:
    """The JSON object that a reply is, its last fenced block included; None where it is none."""
    reply = after_thinking(text).strip()
    for candidate in (reply, *reversed(_FENCE.findall(reply))):
        if isinstance(value := _loaded(candidate), dict):
            return value
    return None


def canonical_json(value: Any) -> str:
    """JSON of a value, in the same spelling for equal values."""
    return json.dumps(
        _plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )


def is_json(answer: str) -> bool:
    """Whether an answer is what `Form.answer_of` gives: an object, or calls."""
    return answer.startswith(('{"', '[{"'))


def _call_schema(function: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": [function["name"]]},
            "arguments": function.get("parameters") or {"type": "object"},
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _loaded(text: str) -> Any:
    """The value of JSON; None where it is none, or holds numbers that JSON has not."""
    try:
        return json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None


def _refused(name: str) -> None:
    raise ValueError(name)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
