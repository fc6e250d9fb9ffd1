"""The built-in `arithmetic` benchmark: questions, worked solutions, and the check of their steps.

A question is a product of a number of two or three digits by one of two digits, plus or minus two
numbers of up to three digits, written ``347*83+129-45?``. Its worked solution has one step a line,
steps separated by blank lines, so that a verifier which splits at blank lines sees each of them::

    347*83=28801

    28801+129=28930

    28930-45=28885

    \\boxed{28885}

The product is one step on purpose: written out in partial products, the questions were too easy
(99 % of a tiny model's first answers were right) to show anything of revising.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
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

BENCHMARK = "arithmetic"
"""The name under which runs know these questions."""

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "*": operator.mul,
    "+": operator.add,
    "-": operator.sub,
}
_QUESTION = re.compile(r"([1-9]\d{1,2})\*([1-9]\d)([+-][1-9]\d{0,2})([+-][1-9]\d{0,2})\?")
_EQUATION = re.compile(r"(-?\d{1,12})([*+-])(\d{1,12})=(-?\d{1,12})")
_EQUATIONS = 3
"""Steps before the box: each of them has a result that may slip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """``left*right`` and two terms: left in 10..999, right in 10..99, each term in ±1..±999."""

    left: int
    right: int
    terms: tuple[int, int]

    @property
    def text(self) -> str:
        """The expression without the question mark; also the question's id."""
        first, second = self.terms
        return f"{self.left}*{self.right}{first:+}{second:+}"

    @property
    def question(self) -> str:
        """What the model is asked."""
        return f"{self.text}?"

    @property
    def value(self) -> int:
        """The gold answer."""
        return self.left * self.right + sum(self.terms)


def parse(question: str) -> Expression:
    """The expression that a question asks for.

    Raises:
        DataError: if `question` is not one of this benchmark.
    """
    match = _QUESTION.fullmatch(question.strip())
    if match is None:
        raise DataError(f"an arithmetic question must read like '347*83+129-45?', got {question!r}")
    left, right, first, second = map(int, match.groups())
    return Expression(left=left, right=right, terms=(first, second))


def split_of(expression: Expression) -> Split:
    """The one split an expression belongs to: a tenth test, a tenth validation, the rest train."""
    return split_of_text(expression.text)


def draw(rng: np.random.Generator, split: Split) -> Expression:
    """One random expression of `split`; the number of digits is uniform, then the number is."""
    while True:
        digits = rng.integers((2, 1, 1), (4, 4, 4))
        left, first, second = rng.integers(10 ** (digits - 1), 10**digits).tolist()
        minus = rng.integers(2, size=2).tolist()
        expression = Expression(
            left=left,
            right=int(rng.integers(10, 100)),
            terms=(-first if minus[0] else first, -second if minus[1] else second),
        )
        if split_of(expression) == split:
            return expression


def questions(n: int, *, split: Split, seed: int) -> list[GeneratedQuestion]:
    """`n` different questions of a split, as `different_questions`.

    Raises:
        ValueError: if `n` is not in 0..1,000,000 or `split` is unknown.
    """

    def drawn(rng: np.random.Generator, split: Split) -> GeneratedQuestion:
        asked = draw(rng, split)
        return GeneratedQuestion(asked.text, asked.question, str(asked.value))

    return different_questions(drawn, n, split=split, seed=seed, most=1_000_000)


def solution(expression: Expression) -> tuple[str, ...]:
    """The steps of the worked solution, the box last."""
    return _write(expression, lambda position, result: result)


def slipped_solution(expression: Expression, rng: np.random.Generator) -> tuple[str, ...]:
    """The worked solution with one wrong digit in the result of one step, and what follows from it.

    Step and digit are uniform, and the number keeps its length, so the final answer is wrong.
    """
    slipped = int(rng.integers(_EQUATIONS))
    return _write(
        expression,
        lambda position, result: _slip(result, rng) if position == slipped else result,
    )


def check_steps(question_text: str, reply: str) -> tuple[bool, ...]:
    """Whether each step of a reply is right, by arithmetic.

    A step is right if it applies the operation due at its place to the two numbers due there and
    states the true result; the last one due is the box with the value of the question. A step that
    computes correctly with an earlier wrong result is therefore wrong, as it cannot lead to the
    answer, and so is every step after the box.

    Returns:
        One verdict a step, in order; empty for an empty reply.

    Raises:
        DataError: if the question is not one of this benchmark.
    """
    expression = parse(question_text)
    due = _due(expression)
    verdicts = []
    for position, step in enumerate(steps_of(reply)):
        if position < len(due):
            equation = _EQUATION.fullmatch(step)
            verdicts.append(equation is not None and _states(equation, due[position]))
        else:
            box = BOX.fullmatch(step)
            last = position == len(due)
            verdicts.append(last and box is not None and int(box[1]) == expression.value)
    return tuple(verdicts)


def _states(equation: re.Match[str], due: tuple[int, str, int]) -> bool:
    left, sign, right, result = equation.groups()
    if (int(left), sign, int(right)) != due:
        return False
    return int(result) == _OPERATIONS[sign](int(left), int(right))


def _due(expression: Expression) -> tuple[tuple[int, str, int], ...]:
    """(number, operation, number) of each step before the box."""
    product = expression.left * expression.right
    first, second = expression.terms
    return (
        (expression.left, "*", expression.right),
        (product, "-" if first < 0 else "+", abs(first)),
        (product + first, "-" if second < 0 else "+", abs(second)),
    )


def _write(expression: Expression, stated: Callable[[int, int], int]) -> tuple[str, ...]:
    """The solution in which `stated(position, true result)` is the result that a step states."""
    first, second = expression.terms
    product = stated(0, expression.left * expression.right)
    between = stated(1, product + first)
    value = stated(2, between + second)
    return (
        f"{expression.left}*{expression.right}={product}",
        f"{product}{first:+}={between}",
        f"{between}{second:+}={value}",
        f"\\boxed{{{value}}}",
    )


def _slip(number: int, rng: np.random.Generator) -> int:
    digits = str(abs(number))
    place = int(rng.integers(len(digits)))
    lowest = 1 if place == 0 and len(digits) > 1 else 0
    others = [digit for digit in range(lowest, 10) if digit != int(digits[place])]
    slipped = int(digits[:place] + str(rng.choice(others)) + digits[place + 1 :])
    return -slipped if number < 0 else slipped
