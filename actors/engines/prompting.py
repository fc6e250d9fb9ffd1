"""Chat templates: from a request to its prompt's token ids, and from generated ids to a reply.

Needs a tokenizer and nothing else, so it serves any generator that takes token ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from actors.routing.calls import Generated
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Failure, Request
from pipeline.core.thinking import CLOSE, is_open, opened_by


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
    """

    def __init__(self, tokenizer: Any, context: int, open_thinking: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._context = context
        self._open_thinking = open_thinking
        self._close_ids = self._ids(CLOSE)

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
        turns = [{"role": turn.role, "content": turn.content} for turn in request.messages]
        rendered: str = self._tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True
        )
        opened = opened_by(rendered)
        head = rendered[: len(rendered) - len(opened)]
        if self._open_thinking is not None:
            opened, head = self._open_thinking, rendered.removesuffix(opened)
        if request.assistant_prefix:
            # a prefix that was itself generated begins with the tag that was put back
            doubled = request.assistant_prefix.lstrip().startswith(opened.strip() or "\0")
            text = (head if doubled else rendered) + request.assistant_prefix
            prefix = request.assistant_prefix if doubled else opened + request.assistant_prefix
        else:
            text, prefix = rendered, opened
        ids = self._ids(text)
        if len(ids) >= self._context:
            raise ValueError(f"prompt has {len(ids):,} tokens, the context holds {self._context:,}")
        return Prompt(ids, "" if request.assistant_prefix else opened, prefix)

    def answer(
        self, prompt: Prompt, text: str, ids: list[int], finish_reason: str | None, cached: int
    ) -> Generated | Failure:
        """What a generator made of a prompt, as the caller is told it.

        Args:
            prompt: as given to the generator.
            text: new text.
            ids: its tokens.
            finish_reason: what ended it; all but ``stop`` and ``length`` is a failure.
            cached: tokens of the prompt that were found in the cache.
        """
        if finish_reason not in ("stop", "length"):
            ended = f"the request ended with {finish_reason!r}"
            return Failure.of(ErrorKind.ABORTED, ended, completion_tokens=len(ids))
        return Generated(
            text=prompt.opened + text,
            finish_reason=finish_reason,
            prompt_tokens=len(prompt.ids),
            cached_prompt_tokens=cached,
            completion_tokens=len(ids),
            thinking_tokens=self.thinking_tokens(prompt, text, ids),
        )

    def thinking_tokens(self, prompt: Prompt, text: str, ids: list[int]) -> int:
        """Tokens up to and including the last closing tag; all in a block that stays open."""
        if CLOSE not in text:
            return len(ids) if is_open(prompt.prefix + text) else 0
        if len(self._close_ids) == 1 and self._close_ids[0] in ids:
            return len(ids) - ids[::-1].index(self._close_ids[0])
        # a tag of several tokens may have merged with its neighbours: count what reads like it
        thinking = text[: text.rindex(CLOSE) + len(CLOSE)]
        return min(len(ids), len(self._ids(thinking)))


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
