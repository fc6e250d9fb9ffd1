"""Prompts of a generator: chat template, thinking tag, prefix, limits, thinking tokens."""

import re
from typing import Any

import pytest

from actors.engines.prompting import Prompter, check_text
from pipeline.core.prompts import Message
from pipeline.core.protocol import Request


class Words:
    """A tokenizer of words and tags, one token each, with a template that may open the thinking."""

    def __init__(self, opens: str = "", *, tag_is_one_token: bool = True) -> None:
        self.opens = opens
        self._pattern = r"</?think>|\n|[^\s<]+|<" if tag_is_one_token else r"[a-z/]+|[^a-z/\s]|\n"

    def apply_chat_template(self, turns: Any, **_: Any) -> str:
        said = "".join(f"[{turn['role']}] {turn['content']} " for turn in turns)
        return f"{said}[assistant] {self.opens}"

    def encode(self, text: str, **_: Any) -> list[int]:
        return [hash(piece) for piece in re.findall(self._pattern, text)]


def asks(text: Any = "why", prefix: str = "") -> Request:
    """A request of one user turn."""
    return Request(
        messages=(Message("user", text),),
        assistant_prefix=prefix,
        max_tokens=10,
        temperature=0.7,
        top_p=0.95,
    )


def test_a_tag_that_the_template_wrote_is_put_back() -> None:
    """It stands in the prompt and in front of the stored text."""
    words = Words("<think>\n")
    prompt = Prompter(words, 100).prompt(asks())

    assert prompt.ids == words.encode("[user] why [assistant] <think>\n")
    assert (prompt.opened, prompt.prefix) == ("<think>\n", "<think>\n")


@pytest.mark.parametrize(
    ("opens", "prefix", "text", "tokens"),
    [
        ("", "", "so it is", 0),
        ("<think>\n", "", "hm hm </think> so", 3),
        ("<think>\n", "", "hm hm hm", 3),
        ("", "", "<think> hm </think> so", 3),
        ("", "", "<think> hm hm", 3),
        ("<think>\n", "<think>\nhm", "wait </think> so", 2),
        ("<think>\n", "<think>\nhm </think>", "so it is", 0),
        ("", "", "a </think> b </think> c", 4),
    ],
)
def test_thinking_tokens_end_with_the_last_closing_tag(
    opens: str, prefix: str, text: str, tokens: int
) -> None:
    """The tag counts; a block that stays open counts whole; without a block there are none."""
    words = Words(opens)
    prompter = Prompter(words, 100)
    prompt = prompter.prompt(asks(prefix=prefix))

    assert prompter.thinking_tokens(prompt, text, words.encode(text)) == tokens


def test_a_prompt_must_leave_room_in_the_context() -> None:
    """A prompt as long as the context leaves no token to generate."""
    prompter = Prompter(Words(), 5)

    assert len(prompter.prompt(asks("one two")).ids) == 4
    with pytest.raises(ValueError, match="prompt has 5 tokens, the context holds 5"):
        prompter.prompt(asks("one two three"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "prompt must not be empty"),
        (" \n ", "prompt must not be empty"),
        (None, "user message must be text, got NoneType"),
        (b"why", "user message must be text, got bytes"),
        ("a\0", "user message must not hold NUL, got one at position 1"),
        ("\udfff", "user message must be valid Unicode, got a lone surrogate at position 0"),
    ],
)
def test_what_is_no_prompt_is_named(text: Any, says: str) -> None:
    """The error says what must hold, what came and where."""
    with pytest.raises(ValueError, match=says):
        Prompter(Words(), 100).prompt(asks(text))


def test_text_of_any_script_passes() -> None:
    """Only what no tokenizer can take is refused; all else reaches it as it is."""
    text, words = "Größe 数学 \U0001f642\n\t", Words()
    check_text(text, "reply")

    assert Prompter(words, 100).prompt(asks(text)).ids == words.encode(
        f"[user] {text} [assistant] "
    )
