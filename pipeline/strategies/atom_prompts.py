"""Prompts of Atom of Thoughts and how its replies are read. Model output is never evaluated."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.core.protocol import Message
from pipeline.core.thinking import after_thinking

MAX_JSON_CHARS = 20_000
"""Longest JSON that is read from a reply."""
MAX_SUB_QUESTIONS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SubQuestion:
    """One step of a solution, put as a question."""

    description: str
    answer: str
    depends: tuple[int, ...]
    """Indices of the sub-questions whose answers it needs."""


def label_prompt(question: str, solution: str) -> tuple[Message, ...]:
    """Ask for the sub-questions of a solution and what each depends on, as JSON."""
    return _user(
        "Split a worked solution into the sub-questions that it answers, in order.\n\n"
        f"Problem:\n{question}\n\nSolution:\n{solution}\n\n"
        "For each sub-question give its text, its answer, and the indices (from 0) of the earlier "
        "sub-questions whose answers it needs; what the problem itself states is no dependency. "
        "Reply with one JSON object and nothing else, in this form:\n"
        '{"sub-questions": [{"description": "...", "answer": "...", "depend": []}]}'
    )


def contract_prompt(
    question: str, solution: str, sub_questions: Sequence[SubQuestion]
) -> tuple[Message, ...]:
    """Ask for one shorter question in which the independent sub-questions are known conditions."""
    known = [f"- {sub.description} {sub.answer}" for sub in sub_questions if not sub.depends]
    open_ = [f"- {sub.description}" for sub in sub_questions if sub.depends]
    parts = [
        "Rewrite a problem as a simpler one that has the same final answer.",
        f"Problem:\n{question}",
        f"A worked solution:\n{solution}",
    ]
    if known:
        parts.append("Take these results as given conditions:\n" + "\n".join(known))
    if open_:
        parts.append("These questions remain to be covered:\n" + "\n".join(open_))
    parts.append(
        "The new problem must be complete in itself and need fewer steps than the original. "
        "Put it between <question> and </question>."
    )
    return _user("\n\n".join(parts))


def ensemble_prompt(question: str, solutions: Sequence[str]) -> tuple[Message, ...]:
    """Ask for the best answer in view of several solutions."""
    listed = "\n\n".join(f"Solution {i}:\n{text}" for i, text in enumerate(solutions, start=1))
    return _user(
        f"Problem:\n{question}\n\n{listed}\n\n"
        "Compare the solutions, correct what is wrong in them, and solve the problem. Please "
        "reason step by step, and put your final answer within \\boxed{}."
    )


def shown(text: str, max_chars: int) -> str:
    """What later prompts are shown of a reply: the end of what follows its thinking."""
    return after_thinking(text).strip()[-max_chars:]


def parse_labels(text: str) -> tuple[SubQuestion, ...] | None:
    """The sub-questions in a reply; None where it holds no such JSON object.

    Descriptions and answers must be text or numbers; dependencies must point to earlier ones.
    """
    reply = after_thinking(text)
    start, end = reply.find("{"), reply.rfind("}")
    if start < 0 or not 0 < end - start < MAX_JSON_CHARS:
        return None
    try:
        content = json.loads(reply[start : end + 1])
    except (ValueError, RecursionError):  # RecursionError: thousands of nested brackets
        return None
    items = content.get("sub-questions") if isinstance(content, dict) else None
    if not isinstance(items, list) or not 0 < len(items) <= MAX_SUB_QUESTIONS:
        return None
    labels = [_sub_question(item, index) for index, item in enumerate(items)]
    found = tuple(label for label in labels if label is not None)
    return found if len(found) == len(labels) else None


def parse_contracted(text: str) -> str | None:
    """The last <question> in a reply; None where there is none or it is empty."""
    found = re.findall(r"<question>([^<]*)</question>", after_thinking(text))
    return found[-1].strip() or None if found else None


def _sub_question(item: object, index: int) -> SubQuestion | None:
    if not isinstance(item, dict):
        return None
    description, answer, depends = (item.get(key) for key in ("description", "answer", "depend"))
    is_answer = isinstance(answer, str | int | float)
    if not isinstance(description, str) or not is_answer or not isinstance(depends, list):
        return None
    if not all(isinstance(other, int) and 0 <= other < index for other in depends):
        return None
    return SubQuestion(description=description, answer=str(answer), depends=tuple(depends))


def _user(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)
