"""Completions over the wire: a request as the body of a chat completion, a reply as an answer.

The server applies the chat template and finds the thinking, so no tokenizer is needed here. What it
tells apart as reasoning is put back in front of the text, between the tags that the grader knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from actors.engines.prompting import check_text
from actors.routing.calls import GenerateCall, Generated
from pipeline.config.endpoint import EndpointConfig
from pipeline.config.models import GeneratorModel
from pipeline.core.confidence import TOP_LOGPROBS, Confidence, confidence_of
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Failure, Request
from pipeline.core.thinking import CLOSE, OPEN, parts

_ENDS = (
    {"stop": "stop", "length": "length", "repetition": "repetition"}
    | dict.fromkeys(("eos_token", "stop_sequence", "eos", "end_turn"), "stop")
    | dict.fromkeys(("max_tokens", "model_length"), "length")
)
"""What ended a completion, by the server's word for it, in lower case."""
_BROKEN_OFF = ("abort", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found out about the servers before the run; JSON-able."""

    limit: str = "max_tokens"
    """Their name for the limit of new tokens."""
    refused: tuple[str, ...] = field(default=())
    """Fields that they refuse, and that are left out."""
    opened: str = ""
    """Mark of thinking that the chat template writes at the end of the prompt."""


class ChatWire:
    """A `Wire` (`actors.engines.endpoint_transport`) for completions of a generator."""

    def __init__(
        self, model: Mapping[str, Any], endpoint: EndpointConfig, found: Mapping[str, Any]
    ) -> None:
        self._model = GeneratorModel.model_validate(model)
        self._endpoint = endpoint
        self._found = Found(**found)
        self._opened = self._model.open_thinking
        if self._opened is None:
            self._opened = self._found.opened

    def known(self, call: GenerateCall) -> None:
        """See `Wire.known`: each is asked for."""

    def body(self, call: GenerateCall) -> dict[str, Any]:
        """See `Wire.body`; fields that the servers refuse are left out."""
        request = call.request
        turns = [{"role": turn.role, "content": turn.content} for turn in request.messages]
        if request.assistant_prefix:
            turns.append({"role": "assistant", "content": request.assistant_prefix})
        for turn in turns:
            check_text(turn["content"], f"{turn['role']} message")
        if not any(turn.content.strip() for turn in request.messages):
            raise ValueError("prompt must not be empty")
        fields = {
            self._found.limit: request.max_tokens,
            **fields_of(request),
            **self._of_model(),
            **self._endpoint.extra_body,
        }
        kept = {name: value for name, value in fields.items() if name not in self._found.refused}
        return {"model": self._endpoint.model or self._model.model, "messages": turns, **kept}

    def answer(self, call: GenerateCall, reply: Mapping[str, Any]) -> Generated | Failure:
        """See `Wire.answer`."""
        (choice,) = reply["choices"]
        usage = reply.get("usage") or {}
        made, read = usage.get("completion_tokens"), usage.get("prompt_tokens")
        if not isinstance(made, int) or not isinstance(read, int):
            raise ValueError(f"usage must tell prompt_tokens and completion_tokens, got {usage!r}")
        word = (choice.get("finish_reason") or "").lower()
        if not word:  # some servers never say
            word = "length" if made >= call.request.max_tokens else "stop"
        end = _ENDS.get(word)
        if end is None:
            kind = ErrorKind.ENGINE if word in _BROKEN_OFF else ErrorKind.BAD_REQUEST
            ended = f"the completion ended with {choice['finish_reason']!r}"
            return Failure.of(kind, ended, completion_tokens=made)
        text = self._text(choice["message"], end, continued=bool(call.request.assistant_prefix))
        details = usage.get("completion_tokens_details") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        return Generated(
            text=text,
            finish_reason=end,
            prompt_tokens=read,
            cached_prompt_tokens=cached or 0,
            completion_tokens=made,
            thinking_tokens=_thinking_tokens(text, made, details.get("reasoning_tokens")),
            confidence=_confidence(choice.get("logprobs")),
        )

    def _of_model(self) -> dict[str, Any]:
        fields = dict(self._model.extra_body)
        if self._model.chat_template_kwargs:
            fields["chat_template_kwargs"] = self._model.chat_template_kwargs
        if self._model.logprobs:
            fields |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
        return fields

    def _text(self, message: Mapping[str, Any], end: str, *, continued: bool) -> str:
        """The reply as our engines give it: thinking in front, between the usual tags."""
        thinks, content = _parts_of(message.get("content") or "")
        thought = message.get("reasoning") or message.get("reasoning_content") or thinks
        if not isinstance(content, str) or not isinstance(thought, str):
            raise ValueError("content and reasoning of a message must be text or null")
        own = self._model.reasoning
        content = content if own is None else own.usual(content)
        if thought:
            opens = "" if continued or thought.lstrip().startswith(OPEN) else OPEN
            closes = CLOSE if content or end == "stop" else ""
            return f"{opens}{thought}{closes}{content}"
        opened = (self._opened or "") if own is None else own.usual(self._opened or "")
        if not opened or continued or content.lstrip().startswith(opened.strip()):
            return content
        # a server that takes thinking out of the content leaves no mark of one that was empty
        is_thought = parts(opened + content).mark or end != "stop"
        return opened + content if is_thought else content


def fields_of(request: Request) -> dict[str, Any]:
    """The sampling of a request in vLLM's names, neutral values included: a server's own defaults,
    such as those of a model's generation_config.json, must not take their place."""
    sampling = request.sampling
    fields: dict[str, Any] = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "top_k": sampling.top_k or -1,  # SGLang refuses 0, others take either
        "min_p": sampling.min_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "repetition_penalty": sampling.repetition_penalty,
    }
    if sampling.thinking_budget is not None:
        fields["thinking_token_budget"] = sampling.thinking_budget
    if sampling.repetition_detection is not None:
        fields["repetition_detection"] = asdict(sampling.repetition_detection)
    if request.stop_token_ids:
        fields["stop_token_ids"] = list(request.stop_token_ids)
    if request.min_tokens:
        fields["min_tokens"] = request.min_tokens
    if request.assistant_prefix:
        fields |= {"continue_final_message": True, "add_generation_prompt": False}
    return fields


def _parts_of(content: Any) -> tuple[str, Any]:
    """(thinking, text) of a content that may be a list of parts, as Mistral's thinking models."""
    if not isinstance(content, list):
        return "", content
    told: dict[str, list[str]] = {"thinking": [], "text": []}
    for part in content:
        kind = part["type"]
        if kind not in told:
            raise ValueError(f"parts of a content must be text or thinking, got {kind!r}")
        _, said = _parts_of(part[kind])
        told[kind].append(said)
    return "".join(told["thinking"]), "".join(told["text"])


def _confidence(logprobs: Any) -> Confidence | None:
    """None where the server told none, or not of every token."""
    if not logprobs or not logprobs.get("content"):
        return None
    return confidence_of(
        [top["logprob"] for top in place["top_logprobs"]] for place in logprobs["content"]
    )


def _thinking_tokens(text: str, made: int, told: Any) -> int:
    """As the server counts them; else by their share of the text's characters."""
    if isinstance(told, int):
        return min(told, made)
    found = parts(text)
    if found.open:
        return made
    return round(made * len(found.thinking) / len(text)) if text else 0
