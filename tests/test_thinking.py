"""Where thinking ends."""

import pytest

from pipeline.core.thinking import TAGS, after_thinking, is_open, opened_by


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("plain answer", "plain answer"),
        ("<think>\nhm\n</think>\n\nanswer", "\n\nanswer"),
        ("hm</think>answer", "answer"),
        ("<think>a</think> b <think>c</think> d", " d"),
        ("<think>cut by the token limit", ""),
        ("  <think>cut", ""),
        ("the tag <think> named in passing", "the tag <think> named in passing"),
        ("<think>all</think>", ""),
        ("", ""),
    ],
)
def test_after_thinking_is_what_follows_the_last_closing_tag(text: str, after: str) -> None:
    """Without a block all of the text counts, and nothing of a block that never ends."""
    assert after_thinking(text) == after


def test_a_block_is_open_only_until_it_closes() -> None:
    """An opening tag at the start without any closing one is an open block."""
    assert is_open("<think>\nhm")
    assert not is_open("<think>\nhm</think>")
    assert not is_open("hm <think>")


@pytest.mark.parametrize(
    ("prompt", "opened"),
    [
        ("<|User|>q<|Assistant|><think>\n", "<think>\n"),
        ("<|User|>q<|Assistant|><think>", "<think>"),
        ("<|User|>q<|Assistant|>", ""),
        ("<|User|>say <think> twice<|Assistant|>", ""),
    ],
)
def test_the_tag_that_a_template_wrote_is_found_at_the_end_of_the_prompt(
    prompt: str, opened: str
) -> None:
    """Only a tag with nothing but white space after it opens the reply."""
    assert opened_by(prompt) == opened


QUOTED = [
    "`{}`", "``{}``", '"{}"', "'{}'", "\u201c{}\u201d", "\u2018{}\u2019", "\u00ab{}\u00bb", "({})",
    "\\texttt{{{}}}", "`x {} y`", '"{} y"', "the {}", "the tag {}", "{} tags",
]  # fmt: skip


@pytest.mark.parametrize(("opening", "closing"), TAGS)
def test_a_mark_that_is_quoted_is_text(opening: str, closing: str) -> None:
    """Of every family: neither does it end a thought, nor begin one in an answer."""
    for quoted in QUOTED:
        ends, begins = quoted.format(closing), quoted.format(opening)
        told = f"{opening}\nhm{closing}\nIt is 2, not {begins} or so."
        assert is_open(f"{opening}\nI shall write {ends} later: \\boxed{{1}}"), quoted
        assert after_thinking(told).endswith("so."), quoted
        assert after_thinking(f"{opening}I write {ends} at last.{closing}It is 3.") == "It is 3."


@pytest.mark.parametrize(
    "reply",
    [
        'so I answer "5"</think>It is "5".',
        'the side is 5"</think>It is 5".',
        "**done**</think>**5**",
        "f(x)</think>(5)",
        "`code`</think>`5`",
    ],
)
def test_quotes_beside_a_mark_do_not_hide_it(reply: str) -> None:
    """Quotation marks that end before it, or begin after it, quote something else."""
    before, _, after = reply.partition("</think>")

    assert after_thinking(f"<think>{before}</think>{after}") == after
