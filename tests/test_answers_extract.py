"""Extraction: what counts as the final answer of a reply, and what as none."""

from __future__ import annotations

import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.answers import extract
from pipeline.answers.extract import last_box
from tests.answer_cases import cases

reading = sys.modules["pipeline.answers.extract"]  # the package's `extract` is the function
SIGNS = ["the answer is", "Answer:", "option C is correct", "choice", "value equals", "solution"]
FURTHER = [
    "result must be $3$",
    "答案是",
    "所以选",
    "Ответ:",
    "la respuesta es",
    "final answer",
    "İ",
]
NUMBERS = ["5", "-3", "1,234", "$7", "50\\%", ".5", "x2", "4)", ",", "/", "+", "\n", " ", "**"]
texts = st.lists(st.sampled_from(SIGNS + FURTHER + NUMBERS), max_size=12).map("".join)

REPLIES = [(row["reply"], row["answer"]) for row in cases("replies.jsonl")]


@pytest.mark.parametrize(("reply", "answer"), REPLIES)
def test_extracts_the_final_answer(reply: str, answer: str | None) -> None:
    """The final answer is found as it is spelt, behind what speakers of many languages say before
    it, or there is none."""
    assert extract(reply) == answer


def test_last_box_reads_everything() -> None:
    """The paper's rule takes the last complete box of all the text, thinking included."""
    assert last_box("<think>\\boxed{3} and \\boxed{4}") == "4"
    assert last_box("<think>\\boxed{3}</think> no \\boxed{") == "3"
    assert last_box("no box") is None


@pytest.mark.parametrize(
    "piece",
    [
        "\\boxed{",
        "<think>",
        "<answer>",
        "$",
        "\\(",
        "the answer is ",
        "Q:\n",
        "1,",
        "####\n",
        "{",
        "\\",
        "\\boxed",
        "Ответ: ",
        "答案是",
        "जवाब है ",
        "answer ",
        "1+",
        "final answer ",
    ],
)
def test_is_linear_in_the_length(piece: str) -> None:
    """A long reply made of one repeated piece takes about as long a character as a short one."""
    start = time.process_time()
    extract(piece * (200_000 // len(piece)))
    seconds = time.process_time() - start

    assert seconds < 4


@settings(max_examples=150, deadline=None)
@given(text=texts)
def test_searching_from_the_end_finds_what_comes_last(text: str) -> None:
    """The quick searches agree with the patterns that they stand for, read from the start."""
    folded = reading._folded(text)
    for pattern, words in (
        (reading._PHRASE, reading._PHRASE_NOUNS),
        (reading._NAMED_RIGHT, reading._RIGHT_NOUNS),
        (reading._FINAL_LINE, ("final answer",)),
    ):
        last = reading._last(pattern, words, text, folded)
        spans = [found.span() for found in pattern.finditer(text)]
        assert [last and last.span()] == (spans[-1:] or [None])
    numbers = [found[0] for found in reading._NUMBER.finditer(text)]
    if "$" not in text:
        assert [reading._last_number(text)] == (numbers[-1:] or [None])
    if reading._ABROAD.search(text):
        assert any(root in folded for root in reading._ROOTS)


def test_an_answer_in_any_language_has_a_root_to_look_for() -> None:
    """What is left of each noun is letters alone: it is looked for as it stands."""
    assert all(root.isalpha() or not root.isascii() for root in reading._ROOTS)
    assert all(reading._ABROAD.search(f" {root}: 5") for root in reading._ROOTS)
