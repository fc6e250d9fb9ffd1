"""The generated benchmarks `arithmetic` and `sums`: expressions that a model computes in steps.

A question of `arithmetic` is a product of a number of two or three digits by one of two digits,
plus or minus two numbers of up to three digits, ``347*83+129-45?``. A question of `sums` adds two
numbers of three digits whose ones and whose tens each add up to ten or more, ``347+285?``, so that
every question has the same two carries to forget.
"""

from __future__ import annotations

import re

import numpy as np

from pipeline.benchmarks.generated import (
    GeneratedQuestion,
    Split,
    different_questions,
    split_of_text,
)
from pipeline.core.errors import DataError

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
    return different_questions(_drawn_arithmetic, n, split=split, seed=seed, most=1_000_000)


def sums(n: int, *, split: Split, seed: int) -> list[GeneratedQuestion]:
    """`n` different questions of `sums`, as `different_questions`.

    Raises:
        ValueError: if `n` is not in 0..10,000 or `split` is unknown.
    """
    return different_questions(_drawn_sum, n, split=split, seed=seed, most=10_000)


def _drawn_arithmetic(rng: np.random.Generator, split: Split) -> GeneratedQuestion:
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


def _drawn_sum(rng: np.random.Generator, split: Split) -> GeneratedQuestion:
    """Each sum is equally likely; ``a+b`` and ``b+a`` belong to the same split."""
    while True:
        left, right = rng.integers(100, 1000, size=2).tolist()
        split_text = f"{min(left, right)}+{max(left, right)}"
        if _carries(left, right) and split_of_text(split_text) == split:
            return GeneratedQuestion(f"{left}+{right}", f"{left}+{right}?", str(left + right))


def _carries(left: int, right: int) -> bool:
    ones, tens = left % 10 + right % 10, left // 10 % 10 + right // 10 % 10
    return ones >= 10 and tens >= 10
