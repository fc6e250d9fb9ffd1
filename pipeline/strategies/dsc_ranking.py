"""How a model ranks questions by difficulty: who asks about which batch, prompt and reply."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pipeline.core.protocol import Message, Question
from pipeline.core.seeds import request_seed
from pipeline.core.thinking import after_thinking


def batches(questions: Sequence[Question], size: int, rankings: int) -> dict[str, dict[str, Any]]:
    """Put every question into one random batch a ranking; the first of a batch asks about it.

    Args:
        questions: of one benchmark.
        size: questions a batch at most. Batches of a ranking differ by at most one question.
        rankings: how often every question is ranked.

    Returns:
        By question id: ``task`` ``rank``, its ``text``, and ``batches``, the id lists that it asks
        about (none for most). The order is random by the questions' seeds, not by their places.
    """
    facts: dict[str, dict[str, Any]] = {
        question.question_id: {"task": "rank", "text": question.text, "batches": []}
        for question in questions
    }
    n_batches = -(-len(questions) // size)
    for ranking in range(rankings):
        shuffled = sorted(
            questions, key=lambda q: (request_seed(q.seed, "ranking", 0, ranking, 0), q.question_id)
        )
        for first in range(n_batches):
            batch = [question.question_id for question in shuffled[first::n_batches]]
            if len(batch) > 1:  # a single question has no rank among others
                facts[batch[0]]["batches"].append(batch)
    return facts


def ranking_prompt(texts: Sequence[str]) -> tuple[Message, ...]:
    """Ask for the order of these questions, from easiest to hardest."""
    listed = "\n\n".join(f"Q{number}: {text}" for number, text in enumerate(texts, start=1))
    return (
        Message(
            "user",
            f"Here are {len(texts)} questions. Do not answer them; compare how hard they are.\n\n"
            f"{listed}\n\n"
            "Order all of them from the easiest to the hardest. Reply with one line that begins "
            f"with Ranking: and lists their labels, each of Q1 to Q{len(texts)} once, separated by "
            "commas.",
        ),
    )


def parse_ranking(text: str, size: int) -> tuple[int, ...] | None:
    """The order that a reply gives: indices in [0, size), from easiest to hardest.

    Read after the thinking: what stands after the last ``Ranking:``, or a line of it, as reasons
    may follow; else any one line (a reply that answers Q1, Q2, ... in turn ranks nothing). None
    where none of them names each question exactly once.
    """
    _, said, rest = after_thinking(text).rpartition("Ranking:")
    for part in [rest] * bool(said) + rest.splitlines():
        order = [int(label) - 1 for label in re.findall(r"\bQ(\d{1,6})\b", part)]
        if sorted(order) == list(range(size)):
            return tuple(order)
    return None
