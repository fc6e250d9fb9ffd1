"""The generated benchmarks `arithmetic` and `sums`, and what all generated ones share.

A question of `arithmetic` is a product of a number of two or three digits by one of two digits,
plus or minus two numbers of up to three digits, ``347*83+129-45?``. A question of `sums` adds two
numbers of three digits whose ones and whose tens each add up to ten or more, ``347+285?``, so that
every question has the same two carries to forget.

Steps are separated by blank lines, so that a verifier which splits at blank lines sees each of
them. The splits are disjoint by construction: the hash of a question decides its only split.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from pipeline.core.errors import DataError
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


_ARITHMETIC = re.compile(r"([1-9]\d{1,2})\*([1-9]\d)([+-][1-9]\d{0,2})([+-][1-9]\d{0,2})\?")
_SUM = re.compile(r"([1-9]\d\d)\+([1-9]\d\d)\?")


def value(question: str) -> int:
    """The gold answer of a question of either benchmark.

    Raises:
        DataError: if `question` is one of neither.
    """
    if match := _ARITHMETIC.fullmatch(question.strip()):
        left, right, first, second = map(int, match.groups())
        return left * right + first + second
    match = _SUM.fullmatch(question.strip())
    if match is None or not _carries(int(match[1]), int(match[2])):
        raise DataError(
            "a question must read like '347*83+129-45?' (arithmetic), or like '347+285?' with ones "
            f"and tens that add up to ten or more (sums), got {question!r}"
        )
    return int(match[1]) + int(match[2])


def arithmetic(n: int, *, split: Split, seed: int) -> list[GeneratedQuestion]:
    """`n` different questions of `arithmetic`, as `different_questions`.

    Raises:
        ValueError: if `n` is not in 0..1,000,000 or `split` is unknown.
    """
    return different_questions(_draw_arithmetic, n, split=split, seed=seed, most=1_000_000)


def sums(n: int, *, split: Split, seed: int) -> list[GeneratedQuestion]:
    """`n` different questions of `sums`, as `different_questions`.

    Raises:
        ValueError: if `n` is not in 0..10,000 or `split` is unknown.
    """
    return different_questions(_draw_sum, n, split=split, seed=seed, most=10_000)


def _draw_arithmetic(rng: np.random.Generator, split: Split) -> GeneratedQuestion:
    """The number of digits is uniform, then the number is."""
    while True:
        digits = rng.integers((2, 1, 1), (4, 4, 4))
        left, first, second = rng.integers(10 ** (digits - 1), 10**digits).tolist()
        minus = rng.integers(2, size=2).tolist()
        right = int(rng.integers(10, 100))
        first, second = -first if minus[0] else first, -second if minus[1] else second
        text = f"{left}*{right}{first:+}{second:+}"
        if split_of_text(text) == split:
            return GeneratedQuestion(text, f"{text}?", str(left * right + first + second))


def _draw_sum(rng: np.random.Generator, split: Split) -> GeneratedQuestion:
    """Each sum is equally likely; ``a+b`` and ``b+a`` belong to the same split."""
    while True:
        left, right = rng.integers(100, 1000, size=2).tolist()
        split_text = f"{min(left, right)}+{max(left, right)}"
        if _carries(left, right) and split_of_text(split_text) == split:
            return GeneratedQuestion(f"{left}+{right}", f"{left}+{right}?", str(left + right))


def _carries(left: int, right: int) -> bool:
    ones, tens = left % 10 + right % 10, left // 10 % 10 + right // 10 % 10
    return ones >= 10 and tens >= 10
