"""Replies in the forms of model families, whole and cut: what is answer and what is thinking."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.engines.prompting import Prompter
from pipeline.answers.extract import extract
from pipeline.core.prm import split_steps
from pipeline.core.prompts import Feedback, Message, Prompts
from pipeline.core.protocol import Completion, Request
from pipeline.core.thinking import MARKS, Reasoning, parts
from pipeline.strategies.atom_of_thoughts import shown

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "replies" / "golden.json").read_text("utf-8")
)
NAMES = [f"{golden['family']}, {golden['form']}" for golden in GOLDEN]
HARMONY = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>")


class MarkTokens:
    """A tokenizer of words in which each mark of thinking is one special token."""

    def __init__(self, opened: str = "", marks: tuple[str, ...] = (*MARKS, *HARMONY)) -> None:
        self.opened, self._marks = opened, marks
        self.added_tokens_decoder = {
            number: SimpleNamespace(content=mark, special=True) for number, mark in enumerate(marks)
        }
        self.template: dict[str, Any] = {}

    def apply_chat_template(self, turns: Any, **template: Any) -> str:
        self.template = template
        return f"user: {turns[0]['content']} assistant: {self.opened}"

    def encode(self, text: str, **_: Any) -> list[int]:
        marks = "|".join(map(re.escape, sorted(self._marks, key=len, reverse=True)))
        return [hash(piece) for piece in re.findall(rf"{marks}|(?:(?!{marks})\S)+", text)]


def asks(prefix: str = "") -> Request:
    """A request of one user turn."""
    return Request(
        messages=(Message("user", "Half of 14?"),),
        assistant_prefix=prefix,
        max_tokens=99,
        temperature=0.7,
        top_p=0.95,
    )


@pytest.mark.parametrize("golden", GOLDEN, ids=NAMES)
def test_golden_replies(golden: dict[str, Any]) -> None:
    """Answer, scored steps and thinking tokens are those of the answer and of the thought. Neither
    the answer nor the text that is fed back holds any of the thought; an open one is none."""
    tokenizer = MarkTokens(golden["opened"])
    prompter = Prompter(tokenizer, 1_000)
    prompt = prompter.prompt(asks())
    text = prompter.stored(prompt.opened + golden["reply"])

    assert prompt.opened == golden["opened"]
    assert extract(text) == golden["answer"]
    assert list(split_steps(text, separator="<extra_0>")) == golden["steps"]
    tokens = prompter.thinking_tokens(prompt, golden["reply"], tokenizer.encode(golden["reply"]))
    assert tokens == golden["thinking_tokens"]
    text = golden["opened"] + golden["reply"]
    completion = Completion(text=text, answer=extract(text))
    fed = {
        way: Prompts(feedback=way).fed_back(completion.text, completion.answer) for way in Feedback
    }

    assert fed[Feedback.FINAL_BOX] == golden["answer"]
    assert fed[Feedback.FINAL_TEXT] == ("\n\n".join(golden["steps"]) or None)
    assert "boxed{6}" not in (fed[Feedback.FINAL_TEXT] or "")
    assert shown(text, 1_000) == "\n\n".join(golden["steps"])  # to the prompts of Atom of Thoughts


def test_the_golden_replies_are_of_eight_families_whole_and_cut() -> None:
    """Each family of the thinking ones has replies with an answer and without."""
    answers: dict[str, set[bool]] = {}
    for golden in GOLDEN:
        answers.setdefault(golden["family"], set()).add(golden["answer"] is None)

    assert sum(found == {True, False} for found in answers.values()) >= 8


def test_a_thought_that_is_cut_anywhere_is_open() -> None:
    """However few characters of a thought came, it gives no answer and no step."""
    cut = 0
    for golden in GOLDEN:
        whole = parts(golden["opened"] + golden["reply"])
        if whole.open or not whole.thinking or golden["form"].startswith(("a second", "special")):
            continue
        first = 3 + max(whole.thinking.find(mark) + len(mark) for mark in MARKS[::2])
        for end in range(first, len(whole.thinking) - len(whole.mark)):
            found = parts(whole.thinking[:end])
            cut += 1
            assert found.open or not found.thinking, whole.thinking[:end]
    assert cut > 100


def test_a_named_pair_is_stored_as_the_usual_one() -> None:
    """The model is given its own marks, and what is recorded reads like any other reply."""
    own = Reasoning(open="<r>", close="</r>")
    tokenizer = MarkTokens("<r>\n", ("<r>", "</r>"))
    prompter = Prompter(tokenizer, 1_000, reasoning=own)
    prompt = prompter.prompt(asks())
    reply = "Perhaps \\boxed{6}.\n</r>\nIt is \\boxed{7}."
    grown = prompter.prompt(asks("<think>\nhm\n</think>\n\nIt"))

    assert (prompt.opened, prompter.stored(prompt.opened + reply)) == (
        "<r>\n",
        "<think>\nPerhaps \\boxed{6}.\n</think>\nIt is \\boxed{7}.",
    )
    assert prompter.thinking_tokens(prompt, reply, tokenizer.encode(reply)) == 3
    assert prompter.thinking_tokens(prompt, "Perhaps", tokenizer.encode("Perhaps")) == 1
    assert grown.prefix == "<r>\nhm\n</r>\n\nIt"
    assert grown.ids == tokenizer.encode("user: Half of 14? assistant: <r> hm </r> It")


@pytest.mark.parametrize(
    ("marks", "reasoning", "keeps"),
    [
        (("<think>", "</think>"), None, True),
        (("<|im_end|>", "<|endoftext|>"), None, False),
        (("<r>", "</r>"), None, False),
        (("<r>", "</r>"), Reasoning(open="<r>\n", close="\n</r>"), True),
        (HARMONY, None, True),
    ],
)
def test_marks_that_are_special_tokens_are_kept(
    marks: tuple[str, ...], reasoning: Reasoning | None, keeps: bool
) -> None:
    """Detokenizing would drop them, and with them the end of the thought."""
    prompter = Prompter(MarkTokens(marks=marks), 1_000, reasoning=reasoning)

    assert prompter.keeps_special_tokens is keeps


def test_the_chat_template_is_given_its_variables() -> None:
    """``enable_thinking`` and the like reach the template."""
    tokenizer = MarkTokens()
    Prompter(tokenizer, 1_000, template={"enable_thinking": False}).prompt(asks())

    assert tokenizer.template == {
        "tokenize": False,
        "add_generation_prompt": True,
        "enable_thinking": False,
    }


@pytest.mark.parametrize("pair", [("", "x"), ("x", " "), ("x", "x")])
def test_a_pair_of_marks_must_be_two_texts(pair: tuple[str, str]) -> None:
    """Nothing, and twice the same, mark nothing."""
    with pytest.raises(ValueError, match="reasoning must have an open and a close"):
        Reasoning(open=pair[0], close=pair[1])
