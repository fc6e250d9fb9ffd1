"""*Prompter*, *Tokenizing*: turn requests into token ids, and generated ids into replies.

Needs a tokenizer and nothing else, so it serves any generator that takes token ids. Tokenizers are
not thread-safe, so each thread has its own. Long prompts have a second thread: they take seconds,
for which short ones and replies must not wait. Errors of a chat template are named.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

from actors.routing.calls import Generated
from pipeline.core.confidence import Confidence
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Failure, Request
from pipeline.core.thinking import MARKS, Reasoning, opened_by, parts

R = TypeVar("R")


def rendered(tokenizer: Any, turns: Sequence[Mapping[str, str]], **variables: Any) -> str:
    """The text that a tokenizer's chat template makes of a conversation.

    Raises:
        ValueError: what the template says or does wrong, and for which turns.
    """
    try:
        text: str = tokenizer.apply_chat_template(list(turns), tokenize=False, **variables)
    except Exception as error:
        roles = ", ".join(turn["role"] for turn in turns)
        why = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"the chat template must take turns of {roles}, got: {why}") from error
    return text


LONG = 50_000
"""Characters from which a prompt is long: about a tenth of a second."""


class Tokenizing:
    """Makes one prompt after the other. A request that is aborted meanwhile gets no further."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "tokenize")
        self._long_thread = ThreadPoolExecutor(1, "tokenize-long")
        self._at_work: set[str] = set()

    async def run(
        self, request_id: str, make: Callable[[], R], *, is_long: bool = False
    ) -> R | Failure:
        """What `make` returns; a `Failure` where it raises a ValueError, or was aborted."""
        self._at_work.add(request_id)
        thread = self._long_thread if is_long else self._thread
        try:
            made = await asyncio.get_running_loop().run_in_executor(thread, make)
        except ValueError as error:
            return Failure.of(ErrorKind.BAD_REQUEST, error, completion_tokens=0)
        else:
            if request_id in self._at_work:
                return made
            return Failure.of(ErrorKind.ABORTED, "before it began", completion_tokens=0)
        finally:
            self._at_work.discard(request_id)

    async def read(self, make: Callable[[], R]) -> R:
        """What `make` returns, of a reply that is complete: there is nothing to abort any more."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, make)

    def abort(self, request_id: str) -> bool:
        """Whether the request's prompt was being made; it goes no further."""
        held = request_id in self._at_work
        self._at_work.discard(request_id)
        return held

    def close(self) -> None:
        """Make no more prompts."""
        for thread in (self._thread, self._long_thread):
            thread.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model is given, and what of the reply stands in it already."""

    ids: list[int]
    opened: str
    """Opening tag of the thinking block that the template wrote; put back in front of the text."""
    prefix: str
    """The beginning of the reply that the prompt ends with: `opened` or `assistant_prefix`."""


class Prompter:
    """Renders requests with a model's chat template.

    Args:
        tokenizer: with ``apply_chat_template`` and ``encode``, as in transformers.
        context: tokens that prompt and completion may have together.
        open_thinking: opening tag that the template writes; None finds it out.
        reasoning: the model's own marks of thinking; requests and replies have the usual ones.
        template: further variables of the chat template.
    """

    def __init__(
        self,
        tokenizer: Any,
        context: float,
        open_thinking: str | None = None,
        *,
        reasoning: Reasoning | None = None,
        template: Mapping[str, Any] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._context = context
        self._open_thinking = open_thinking
        self._reasoning = reasoning
        self._template = dict(template or {})
        self._most_characters = most_characters(tokenizer, context)

    def copy(self) -> Prompter:
        """One with a tokenizer of its own, for another thread."""
        other = copy(self)
        other._tokenizer = deepcopy(self._tokenizer)
        return other

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def prompt(self, request: Request) -> Prompt:
        """Render and tokenize a request.

        Raises:
            ValueError: saying what is wrong with it.
        """
        for turn in request.messages:
            check_text(turn.content, f"{turn.role} message")
        check_text(request.assistant_prefix, "assistant_prefix")
        if not any(turn.content.strip() for turn in request.messages):
            raise ValueError("prompt must not be empty")
        if (length := characters_of(request)) > self._most_characters:
            raise ValueError(
                f"prompt has {length:,} characters, the context of {self._context:,} tokens holds "
                f"at most {self._most_characters:,}"
            )
        turns = [{"role": turn.role, "content": turn.content} for turn in request.messages]
        tools = {} if request.form is None else {"tools": request.form.tools or None}
        text = rendered(
            self._tokenizer, turns, add_generation_prompt=True, **self._template, **tools
        )
        opened = opened_by(text, self._reasoning)
        head = text[: len(text) - len(opened)]
        if self._open_thinking is not None:
            opened, head = self._open_thinking, text.removesuffix(opened)
        request_prefix = self._own(request.assistant_prefix)
        if request_prefix:
            # a prefix that was itself generated begins with the tag that was put back
            doubled = request_prefix.lstrip().startswith(opened.strip() or "\0")
            text = (head if doubled else text) + request_prefix
            prefix = request_prefix if doubled else opened + request_prefix
        else:
            prefix = opened
        ids = self._ids(text)
        if len(ids) >= self._context:
            raise ValueError(f"prompt has {len(ids):,} tokens, the context holds {self._context:,}")
        return Prompt(ids, "" if request_prefix else opened, prefix)

    def stored(self, text: str) -> str:
        """A reply as it is recorded: with the usual marks in place of the model's own."""
        return text if self._reasoning is None else self._reasoning.usual(text)

    def _own(self, text: str) -> str:
        return text if self._reasoning is None else self._reasoning.own(text)

    @property
    def keeps_special_tokens(self) -> bool:
        """Whether marks of thinking are special tokens, which detokenizing would drop."""
        added = getattr(self._tokenizer, "added_tokens_decoder", {}).values()
        special = {token.content.strip() for token in added if token.special}
        own = () if self._reasoning is None else (self._reasoning.open, self._reasoning.close)
        return not special.isdisjoint((*MARKS, *(mark.strip() for mark in own)))

    def answer(
        self,
        prompt: Prompt,
        text: str,
        ids: list[int],
        finish_reason: str | None,
        cached: int,
        confidence: Confidence | None = None,
    ) -> Generated | Failure:
        """What a generator made of a prompt, as the caller gets it.

        Args:
            prompt: as given to the generator.
            text: new text.
            ids: its tokens.
            finish_reason: what ended it; all but those of `Completion` is a failure.
            cached: tokens of the prompt that were found in the cache.
            confidence: of the completion, where it was requested.
        """
        if finish_reason not in ("stop", "length", "repetition"):
            ended = f"the request ended with {finish_reason!r}"
            return Failure.of(ErrorKind.ABORTED, ended, completion_tokens=len(ids))
        return Generated(
            text=self.stored(prompt.opened + text),
            finish_reason=finish_reason,
            prompt_tokens=len(prompt.ids),
            cached_prompt_tokens=cached,
            completion_tokens=len(ids),
            thinking_tokens=self.thinking_tokens(prompt, text, ids),
            confidence=confidence,
        )

    def thinking_tokens(self, prompt: Prompt, text: str, ids: list[int]) -> int:
        """Tokens up to and including the mark that ends the thinking; all in an open thought.

        Args:
            prompt: what the model was given.
            text: what it wrote, in its own marks.
            ids: the tokens of `text`.
        """
        found = parts(self.stored(prompt.prefix + text))
        if found.open:
            return len(ids)
        thinking = self._own(found.thinking)[len(prompt.prefix) :]
        if not thinking:
            return 0
        mark = self._own(found.mark)
        mark_ids, count = self._ids(mark), thinking.count(mark)
        places = [place for place, token in enumerate(ids) if mark_ids == [token]]
        if 0 < count <= len(places):
            return places[count - 1] + 1
        # a mark of several tokens may have merged with its neighbours: count what reads like it
        return min(len(ids), len(self._ids(thinking)))


def characters_of(request: Request) -> int:
    """Characters of a request's prompt, without those of the chat template."""
    form = 0 if request.form is None else len(request.form.text)
    return (
        sum(len(str(turn.content)) for turn in request.messages)
        + len(request.assistant_prefix)
        + form
    )


def most_characters(tokenizer: Any, context: float) -> float:
    """Characters that a context can hold, were each token the longest of the vocabulary.

    Text beyond that need not be tokenized to know that it does not fit.
    """
    vocabulary: dict[str, int] = getattr(tokenizer, "get_vocab", dict)()
    return context * max(map(len, vocabulary), default=math.inf)


def check_text(text: Any, what: str) -> None:
    """Refuse what is not text that a tokenizer can take.

    Raises:
        ValueError: naming `what`, and what is wrong with it.
    """
    if not isinstance(text, str):
        raise ValueError(f"{what} must be text, got {type(text).__name__}")
    if "\0" in text:
        raise ValueError(f"{what} must not hold NUL, got one at position {text.index(chr(0))}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what} must be valid Unicode, got a lone surrogate at position {error.start}"
        ) from error
