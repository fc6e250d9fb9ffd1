"""Extraction: what counts as the final answer of a reply, and what as none."""

from __future__ import annotations

from pipeline.answers import extract
from pipeline.answers.extract import last_box
from tests.answer_cases import cases

REPLIES = [(row["reply"], row["answer"]) for row in cases("replies.jsonl")]


def test_extracts_the_final_answer() -> None:
    """The final answer is found as it is spelt, behind what speakers of many languages say before
    it, or there is none."""
    assert [(reply, extract(reply)) for reply, _ in REPLIES] == REPLIES


def test_last_box_reads_everything() -> None:
    """The paper's rule takes the last complete box of all the text, thinking included."""
    assert last_box("<think>\\boxed{3} and \\boxed{4}") == "4"
    assert last_box("<think>\\boxed{3}</think> no \\boxed{") == "3"
    assert last_box("no box") is None
