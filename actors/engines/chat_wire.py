"""*ChatWire*, *JudgeWire*: turn calls into bodies of chat completions, and replies into answers.

The server applies the chat template and finds the thinking, so no tokenizer is needed here. What it
tells apart as reasoning is put back in front of the text, between the tags that the grader knows.

A judge's call is one request: P(right) as the first word of the reply, or the share of right among
several replies.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from actors.engines.prompting import check_text
from actors.routing.calls import GenerateCall, Generated, ScoreCall, Scored
from pipeline.config.endpoint import EndpointConfig
from pipeline.config.models import GeneratorModel, VerifierModel
from pipeline.core import prm
from pipeline.core.confidence import LEAST, TOP_LOGPROBS, Confidence, confidence_of
from pipeline.core.errors import ConfigError, ErrorKind, VerifierError
from pipeline.core.forms import call_block
from pipeline.core.judging import (
    Judge,
    probability_of_right,
    question_turns,
    require_one_request,
    share_of_right,
)
from pipeline.core.protocol import Failure, Request
from pipeline.core.step_format import MARK
from pipeline.core.thinking import CLOSE, OPEN, parts

_TURN_MARKS = re.compile(
    r"<[|\uff5c][^<>|\uff5c\s]{1,40}[|\uff5c]>|</?s>|\[/?INST\]|<(?:start|end)_of_turn>"
)
"""Marks of turns in the families of models: their tokenizers are not at hand here."""


class JudgeWire:
    """A `Wire` (`actors.engines.endpoint_transport`) for verdicts of a judge.

    Raises:
        ConfigError: where the profile takes more than one request.
    """

    def __init__(
        self, model: Mapping[str, Any], endpoint: EndpointConfig, found: Mapping[str, Any]
    ) -> None:
        self._model = VerifierModel.model_validate(model)
        self._endpoint, self._found = endpoint, Found(**found)
        if self._model.kind != "generative":
            raise ConfigError(
                "science.verifier.kind must be generative where runtime.verifier.endpoint is set, "
                f"got {self._model.kind}"
            )
        self._judge = self._model.judge
        require_one_request(self._judge)

    def known(self, call: ScoreCall) -> Scored | None:
        """See `Wire.known`: a reply without text to judge."""
        if self._steps(call):
            return None
        score = prm.aggregate((), self._model.aggregation)
        return Scored(step_scores=(), score=score, tokens=0, truncated=False)

    def body(self, call: ScoreCall) -> dict[str, Any]:
        """See `Wire.body`; fields that the servers refuse are left out."""
        check_text(call.question, "question")
        check_text(call.reply, "reply")
        judge = self._judge
        turns = question_turns(judge, unforged(call.question), self._steps(call))
        fields: dict[str, Any] = {"temperature": judge.temperature, "top_p": judge.top_p}
        if judge.read == "probability":
            fields |= {self._found.limit: 1, "logprobs": True, "top_logprobs": TOP_LOGPROBS}
        else:
            fields |= {self._found.limit: judge.max_tokens, "seed": 0}
        if judge.samples > 1:
            fields["n"] = judge.samples
        if judge.chat_template_kwargs:
            fields["chat_template_kwargs"] = judge.chat_template_kwargs
        fields |= self._endpoint.extra_body
        kept = {name: value for name, value in fields.items() if name not in self._found.refused}
        messages = [turn._asdict() for turn in turns]
        return {"model": self._endpoint.model or self._model.model, "messages": messages, **kept}

    def answer(self, call: ScoreCall, reply: Mapping[str, Any]) -> Scored | Failure:
        """See `Wire.answer`."""
        judge = self._judge
        each = 1 if judge.read == "probability" else judge.max_tokens
        usage = usage_of(reply, allowed=each * judge.samples)
        choices = reply["choices"]
        if len(choices) != self._judge.samples:
            raise ValueError(f"choices must be {self._judge.samples}, got {len(choices)}")
        try:
            score = self._score(choices)
        except VerifierError as error:
            return Failure.of(ErrorKind.VERIFIER, error)
        scores = (score,)
        return Scored(
            step_scores=scores,
            score=prm.aggregate(scores, self._model.aggregation),
            tokens=usage.read + usage.made,
            truncated=False,
        )

    def _score(self, choices: list[Mapping[str, Any]]) -> float:
        judge = self._judge
        if judge.read == "verdicts":
            return share_of_right(judge, [text_of(each["message"])[1] for each in choices])
        words = (choices[0].get("logprobs") or {}).get("content") or []
        tops = (words[0].get("top_logprobs") if words else None) or []
        if not tops:
            raise VerifierError("empty: the reply must report log-probabilities of its first word")
        return probability_of_right(judge, logprobs_of_words(judge, tops))

    def _steps(self, call: ScoreCall) -> tuple[str, ...]:
        steps = prm.split_steps(call.reply, separator=MARK, text=self._model.text)
        return tuple(clean for step in steps if (clean := unforged(step).strip()))


def logprobs_of_words(judge: Judge, tops: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Log-probabilities of the words of right and wrong among the likeliest tokens.

    Servers differ in how they write the blank before a token, and models in the case in which they
    answer: what means the same word counts together, unless the judge tells words apart by case.
    """
    words = (*judge.right, *judge.wrong)
    cased = len({_bare(word).casefold() for word in words}) < len({_bare(word) for word in words})
    of = {_bare(word) if cased else _bare(word).casefold(): word for word in reversed(words)}
    found = dict.fromkeys(words, -math.inf)
    for top in tops:
        token = _bare(top["token"])
        word = of.get(token if cased else token.casefold())
        if word is not None and top["logprob"] > LEAST:
            high, low = sorted((found[word], top["logprob"]), reverse=True)
            found[word] = high + math.log1p(math.exp(low - high))
    return found


def unforged(text: str) -> str:
    """Text that cannot end the user's turn and speak in the judge's place."""
    while (cut := _TURN_MARKS.sub("", text)) != text:
        text = cut
    return text


def _bare(token: str) -> str:
    return token.strip(" \t\n\u2581\u0120\u010a")  # and what stands for them in vocabularies


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
        fields = GeneratorModel.model_fields
        self._model = GeneratorModel(**{n: v for n, v in model.items() if n in fields})
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
            **({} if request.form is None else request.form.fields),
        }
        kept = {name: value for name, value in fields.items() if name not in self._found.refused}
        return {"model": self._endpoint.model or self._model.model, "messages": turns, **kept}

    def answer(self, call: GenerateCall, reply: Mapping[str, Any]) -> Generated | Failure:
        """See `Wire.answer`."""
        choice, request = choice_of(reply), call.request
        message = choice.get("message")
        written = sum(map(len, text_of(message))) if isinstance(message, Mapping) else 0
        prompt_chars = sum(len(turn.content) for turn in request.messages) + len(
            request.assistant_prefix
        )
        usage = usage_of(
            reply, allowed=request.max_tokens, written=written, prompt_chars=prompt_chars
        )
        end, may_mend = end_of(choice)
        if end is None:
            kind = ErrorKind.ENGINE if may_mend else ErrorKind.BAD_REQUEST
            ended = f"the completion ended with {choice['finish_reason']!r}"
            return Failure.of(kind, ended, completion_tokens=usage.made)
        if not end:
            end = "length" if usage.made >= call.request.max_tokens else "stop"
        text = self._text(choice["message"], end, continued=bool(call.request.assistant_prefix))
        text += _calls_of(choice["message"])
        return Generated(
            text=text,
            finish_reason=end,
            prompt_tokens=usage.read,
            cached_prompt_tokens=usage.cached,
            completion_tokens=usage.made,
            thinking_tokens=_thinking_tokens(text, usage),
            confidence=confidence_in(choice),
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
        thought, content = text_of(message)
        own = self._model.reasoning
        content = content if own is None else own.usual(content)
        if thought and not (content.lstrip().startswith(OPEN) and thought.strip() in content):
            opens = "" if continued or thought.lstrip().startswith(OPEN) else OPEN
            closed = thought.rstrip().endswith(CLOSE) or not (content or end == "stop")
            return f"{opens}{thought}{'' if closed else CLOSE}{content}"
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


def _thinking_tokens(text: str, usage: Usage) -> int:
    """As the server counts them; else by their share of the text's characters."""
    if usage.thought is not None:
        return usage.thought
    found = parts(text)
    if found.open:
        return usage.made
    return round(usage.made * len(found.thinking) / len(text)) if text else 0


_ENDS = (
    {"stop": "stop", "length": "length", "repetition": "repetition"}
    | dict.fromkeys(("eos_token", "stop_sequence", "eos", "end_turn", "stop_str"), "stop")
    | dict.fromkeys(("complete", "completed", "finished", "tool_calls"), "stop")
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
    reply: Mapping[str, Any], *, allowed: float = math.inf, written: int = 0, prompt_chars: int = 0
) -> Usage:
    """What a reply cost.

    Args:
        reply: of a server.
        allowed: tokens that it was allowed to make.
        written: characters that it made.
        prompt_chars: characters of the prompt; 0 where that is not known.

    Raises:
        ValueError: where it does not say, or tells numbers that cannot be.
    """
    usage = reply.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    read, made = _count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens"))
    if read is None or made is None:
        raise ValueError(
            f"usage must report prompt_tokens and completion_tokens, got {usage!r:.200}"
        )
    most = allowed * (1 + _MORE_TOKENS) + _FEW_TOKENS
    if made > most or written > _CHARACTERS_A_TOKEN * made:
        raise ValueError(
            f"usage must report as many completion_tokens as {written:,} characters can have, "
            f"at most {most:,.0f}, got {made:,}"
        )
    if prompt_chars and read > _TOKENS_A_CHARACTER * prompt_chars + _TEMPLATE_TOKENS:
        raise ValueError(
            f"usage must report as many prompt_tokens as {prompt_chars:,} characters can have, "
            f"got {read:,}"
        )
    cached = _detail(counts, "prompt_tokens_details", "cached_tokens")
    if cached is None:
        cached = _count(counts.get("prompt_cache_hit_tokens"))  # DeepSeek's
    thought = _detail(counts, "completion_tokens_details", "reasoning_tokens")
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
    if name == "tool_calls" and not (choice.get("message") or {}).get("tool_calls"):
        return None, False
    return _ENDS.get(name), name in _BROKEN_OFF


def text_of(message: Mapping[str, Any]) -> tuple[str, str]:
    """(thinking, text) of a message.

    Raises:
        ValueError: where its content is no text.
    """
    thinks, text = _parts_of(message.get("content") or "")
    thoughts = (message.get("reasoning"), message.get("reasoning_content"))
    # of a form that nobody knows it is no reason to lose the text
    return next((each for each in thoughts if each and isinstance(each, str)), thinks), text


def _calls_of(message: Mapping[str, Any]) -> str:
    """The calls of tools of a message, as text."""
    calls = message.get("tool_calls") or ()
    return "".join(
        call_block(call["function"]["name"], call["function"].get("arguments") or "{}")
        for call in calls
    )


def confidence_in(choice: Mapping[str, Any]) -> Confidence | None:
    """How sure the model was; None where the server says nothing, or not of every token."""
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
    parts: dict[str, list[str]] = {"thinking": [], "text": []}
    for part in content:
        if isinstance(part, str):
            parts["text"].append(part)
            continue
        kind = part["type"]
        if kind not in _KINDS:
            raise ValueError(f"parts of a content must be text or thinking, got {kind!r}")
        inner = part.get(_KINDS[kind], part.get("text"))
        parts[_KINDS[kind]].append(_parts_of(inner or "")[1])
    return "".join(parts["thinking"]), "".join(parts["text"])


def _detail(usage: Mapping[str, Any], group: str, name: str) -> int | None:
    details = usage.get(group)
    return _count(details.get(name)) if isinstance(details, Mapping) else None


def _count(value: Any) -> int | None:
    """A number of tokens; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < _MOST_TOKENS and value == int(value) else None
