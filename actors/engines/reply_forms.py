"""The parts of a chat completion, in the forms that servers have for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

from pipeline.core.confidence import Confidence, confidence_of

_ENDS = (
    {"stop": "stop", "length": "length", "repetition": "repetition"}
    | dict.fromkeys(("eos_token", "stop_sequence", "eos", "end_turn", "stop_str"), "stop")
    | dict.fromkeys(("complete", "completed", "finished"), "stop")
    | dict.fromkeys(("max_tokens", "model_length", "max_output_tokens"), "length")
    | dict.fromkeys(("model_context_window_exceeded",), "length")
)
"""What ended a completion, by the server's word for it, in lower case."""
_BROKEN_OFF = (
    *("abort", "aborted", "cancelled", "canceled", "error", "network_error", "timeout"),
    "insufficient_system_resource",
)
_MOST_TOKENS = 1 << 53
_MORE_TOKENS, _FEW_TOKENS = 0.01, 16
"""Share and number of tokens that servers make, or count, beyond what they are allowed."""
_CHARACTERS_A_TOKEN = 256
_TOKENS_A_CHARACTER = 8  # bytes and marks of some tokenizers are tokens each
_TEMPLATE_TOKENS = 100_000
_KINDS = {"text": "text", "output_text": "text", "thinking": "thinking", "reasoning": "thinking"}


class Usage(NamedTuple):
    """Tokens of a reply, as its server counts them."""

    read: int
    cached: int
    """Of those read; 0 where the server does not tell."""
    made: int
    thought: int | None
    """Of those made; None where the server does not tell."""


def usage_of(
    reply: Mapping[str, Any], *, allowed: float = math.inf, written: int = 0, asked: int = 0
) -> Usage:
    """What a reply cost.

    Args:
        reply: of a server.
        allowed: tokens that it was allowed to make.
        written: characters that it made.
        asked: characters of the prompt; 0 where that is not known.

    Raises:
        ValueError: where it does not say, or tells numbers that cannot be.
    """
    usage = reply.get("usage")
    told = usage if isinstance(usage, Mapping) else {}
    read, made = _count(told.get("prompt_tokens")), _count(told.get("completion_tokens"))
    if read is None or made is None:
        raise ValueError(f"usage must tell prompt_tokens and completion_tokens, got {usage!r:.200}")
    most = allowed * (1 + _MORE_TOKENS) + _FEW_TOKENS
    if made > most or written > _CHARACTERS_A_TOKEN * made:
        raise ValueError(
            f"usage must tell a number of completion_tokens that {written:,} characters can have, "
            f"at most {most:,.0f}, got {made:,}"
        )
    if asked and read > _TOKENS_A_CHARACTER * asked + _TEMPLATE_TOKENS:
        raise ValueError(
            f"usage must tell a number of prompt_tokens that {asked:,} characters can have, "
            f"got {read:,}"
        )
    cached = _detail(told, "prompt_tokens_details", "cached_tokens")
    if cached is None:
        cached = _count(told.get("prompt_cache_hit_tokens"))  # DeepSeek's
    thought = _detail(told, "completion_tokens_details", "reasoning_tokens")
    return Usage(
        read, min(cached or 0, read), made, None if thought is None else min(thought, made)
    )


def choice_of(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """The choice with index 0; the first where none has it."""
    choices: list[Mapping[str, Any]] = reply["choices"]
    return next((each for each in choices if each.get("index") == 0), choices[0])


def end_of(choice: Mapping[str, Any]) -> tuple[str | None, bool]:
    """(how a completion ended: ``stop``, ``length``, ``repetition``, ``""`` where the server does
    not say and None where that is no answer; whether another try may end otherwise)."""
    word = choice.get("finish_reason")
    if not word:
        return "", False
    name = str(word).lower().removeprefix("finish_reason_")
    return _ENDS.get(name), name in _BROKEN_OFF


def text_of(message: Mapping[str, Any]) -> tuple[str, str]:
    """(thinking, text) of a message.

    Raises:
        ValueError: where its content is no text.
    """
    thinks, text = _parts_of(message.get("content") or "")
    told = (message.get("reasoning"), message.get("reasoning_content"))
    # of a form that nobody knows it is no reason to lose the text
    return next((each for each in told if each and isinstance(each, str)), thinks), text


def confidence_in(choice: Mapping[str, Any]) -> Confidence | None:
    """How sure the model was; None where the server told nothing, or not of every token."""
    try:
        places = choice["logprobs"]["content"]
        tops = [[float(top["logprob"]) for top in place["top_logprobs"]] for place in places]
        return None if any(map(math.isnan, chain(*tops))) else confidence_of(tops)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _parts_of(content: Any) -> tuple[str, str]:
    """Of a content that may be a list of parts, as Mistral's thinking models have it."""
    if isinstance(content, str):
        return "", content
    if not isinstance(content, list):
        raise ValueError(f"content of a message must be text or null, got {content!r:.80}")
    said: dict[str, list[str]] = {"thinking": [], "text": []}
    for part in content:
        if isinstance(part, str):
            said["text"].append(part)
            continue
        kind = part["type"]
        if kind not in _KINDS:
            raise ValueError(f"parts of a content must be text or thinking, got {kind!r}")
        inner = part.get(_KINDS[kind], part.get("text"))
        said[_KINDS[kind]].append(_parts_of(inner or "")[1])
    return "".join(said["thinking"]), "".join(said["text"])


def _detail(usage: Mapping[str, Any], group: str, name: str) -> int | None:
    details = usage.get(group)
    return _count(details.get(name)) if isinstance(details, Mapping) else None


def _count(value: Any) -> int | None:
    """A number of tokens; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < _MOST_TOKENS and value == int(value) else None
