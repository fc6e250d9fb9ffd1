"""The built-in `sums` benchmark: questions, worked solutions, and the check of their steps.

A question is the sum of two numbers of three digits, written ``347+285?``. Its worked solution adds
column by column from the right, one column a step, and a carry is a third term::

    7+5=12

    4+8+1=13

    3+2+1=6

    \\boxed{632}

The one error that the task knows is a slip: a forgotten carry (``4+8=12``). The digits of the ones
and of the tens each add up to ten or more, so every question has the same two carries to forget,
and forgetting one changes no other column. Errors therefore do not depend on the question.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from pipeline.benchmarks.generated import (
    BOX,
    GeneratedQuestion,
    Split,
    different_questions,
    split_of_text,
    steps_of,
)
from pipeline.core.errors import DataError

BENCHMARK = "sums"
"""The name under which runs know these questions."""

CARRIES = (1, 2)
"""Columns, counted from the ones as 0, that take a carry: the tens and the hundreds."""

_QUESTION = re.compile(r"([1-9]\d\d)\+([1-9]\d\d)\?")
_MOST = 10_000
"""Questions asked for at once; there are 164,025, a tenth of them in the test split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """``left+right``, both in 100..999, whose ones and whose tens add up to ten or more."""

    left: int
    right: int

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        """The digits of both numbers by column, the ones first."""
        digits = zip(reversed(str(self.left)), reversed(str(self.right)), strict=True)
        return tuple((int(upper), int(lower)) for upper, lower in digits)

    @property
    def text(self) -> str:
        """The sum without the question mark; also the question's id."""
        return f"{self.left}+{self.right}"

    @property
    def question(self) -> str:
        """What the model is asked."""
        return f"{self.text}?"

    @property
    def value(self) -> int:
        """The gold answer."""
        return self.left + self.right


def parse(question: str) -> Sum:
    """The sum that a question asks for.

    Raises:
        DataError: if `question` is not one of this benchmark.
    """
    match = _QUESTION.fullmatch(question.strip())
    found = None if match is None else Sum(left=int(match[1]), right=int(match[2]))
    if found is None or not _carries(found):
        raise DataError(
            "a question of sums must read like '347+285?', its ones and its tens adding up to ten "
            f"or more, got {question!r}"
        )
    return found


def split_of(asked: Sum) -> Split:
    """The one split a sum belongs to; ``a+b`` and ``b+a`` belong to the same."""
    return split_of_text(f"{min(asked.left, asked.right)}+{max(asked.left, asked.right)}")


def draw(rng: np.random.Generator, split: Split) -> Sum:
    """One sum of `split`, each of them equally likely."""
    while True:
        left, right = rng.integers(100, 1000, size=2).tolist()
        asked = Sum(left=left, right=right)
        if _carries(asked) and split_of(asked) == split:
            return asked


def questions(n: int, *, split: Split, seed: int) -> list[GeneratedQuestion]:
    """`n` different questions of a split, as `different_questions`.

    Raises:
        ValueError: if `n` is not in 0..10,000 or `split` is unknown.
    """

    def drawn(rng: np.random.Generator, split: Split) -> GeneratedQuestion:
        asked = draw(rng, split)
        return GeneratedQuestion(asked.text, asked.question, str(asked.value))

    return different_questions(drawn, n, split=split, seed=seed, most=_MOST)


def solution(asked: Sum, forgotten: Collection[int] = ()) -> tuple[str, ...]:
    """The steps of the worked solution, the box last.

    Args:
        forgotten: columns of `CARRIES` whose carry is left out, each of which takes ten or a
            hundred from the answer.
    """
    steps = []
    for column, (upper, lower) in enumerate(asked.columns):
        carry = column in CARRIES and column not in forgotten
        steps.append(f"{upper}+{lower}{'+1' if carry else ''}={upper + lower + carry}")
    value = asked.value - sum(10**column for column in CARRIES if column in forgotten)
    return (*steps, f"\\boxed{{{value}}}")


def check_steps(question_text: str, reply: str) -> tuple[bool, ...]:
    """Whether each step of a reply is right: the column due at its place with its carry, or the box
    with the sum. What follows the box is wrong.

    Returns:
        One verdict a step, in order; empty for an empty reply.

    Raises:
        DataError: if the question is not one of this benchmark.
    """
    asked = parse(question_text)
    *columns, _ = solution(asked)
    verdicts = []
    for position, step in enumerate(steps_of(reply)):
        if position < len(columns):
            verdicts.append(step == columns[position])
        else:
            box = BOX.fullmatch(step)
            last = position == len(columns)
            verdicts.append(last and box is not None and int(box[1]) == asked.value)
    return tuple(verdicts)


def _carries(asked: Sum) -> bool:
    ones, tens, _ = map(sum, asked.columns)
    return ones >= 10 and tens >= 10
