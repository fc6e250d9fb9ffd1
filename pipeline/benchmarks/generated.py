"""What the generated benchmarks share: splits by hash, and replies of steps that end in a box.

Steps are separated by blank lines, so that a verifier which splits at blank lines sees each of
them. The splits are disjoint by construction: the hash of a question decides its only split.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from pipeline.core.prompts import Prompts

TINY_PROMPTS = Prompts(first="{question}", revise="{question} was {answer}")
"""The prompts that the embedded tiny generator was trained on."""

Split: TypeAlias = Literal["train", "test", "validation"]

BOX = re.compile(r"\\boxed\{(-?\d{1,12})\}")


class GeneratedQuestion(NamedTuple):
    """One question with its gold answer."""

    question_id: str
    """The expression itself, so an id means the same question under every seed."""
    text: str
    gold: str


def split_of_text(text: str) -> Split:
    """The one split a text belongs to: a tenth test, a tenth validation, the rest train."""
    match hashlib.sha256(text.encode()).digest()[0] % 10:
        case 0:
            return "test"
        case 1:
            return "validation"
        case _:
            return "train"


def different_questions(
    draw: Callable[[np.random.Generator, Split], GeneratedQuestion],
    n: int,
    *,
    split: Split,
    seed: int,
    most: int,
) -> list[GeneratedQuestion]:
    """`n` different questions of a split, the same for the same arguments.

    The first questions of a longer list are those of a shorter one, and no two splits share a
    question, whatever the seeds.

    Raises:
        ValueError: if `n` is not in 0..`most` or `split` is unknown.
    """
    if not 0 <= n <= most:
        raise ValueError(f"n must be in 0..{most:,}, got {n!r}")
    if split not in ("train", "test", "validation"):
        raise ValueError(f"split must be 'train', 'test' or 'validation', got {split!r}")
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    found: dict[str, GeneratedQuestion] = {}
    while len(found) < n:
        question = draw(rng, split)
        found[question.question_id] = question
    return list(found.values())


def steps_of(reply: str) -> list[str]:
    """The steps of a reply: what stands between blank lines."""
    return [step.strip() for step in re.split(r"\n\s*\n", reply) if step.strip()]


def answer_of(reply: str) -> str | None:
    """The number in the last box of a reply, or None."""
    boxes = BOX.findall(reply)
    return str(int(boxes[-1])) if boxes else None
