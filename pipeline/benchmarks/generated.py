"""*Generated benchmarks*: makes the questions of `arithmetic`, `sums` and `steps-K`.

A question of `arithmetic` is a product of a number of two or three digits by one of two digits,
plus or minus two numbers of up to three digits, ``347*83+129-45?``. A question of `sums` adds two
numbers of three digits whose ones and whose tens each add up to ten or more, ``347+285?``, so that
every question has the same two carries to forget.

A question of `steps-K` defines a value, K operations that each use the one before, up to three
definitions that lead nowhere, and the name that it asks for: ``a=17;m=4;b=a+9;n=m-8;c=b*a;?c``.
Every number is in 0..19: results are taken modulo 20. The more steps, the more chances of a slip.

The splits are disjoint by construction: the hash of a question decides its only split.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from pipeline.core.errors import DataError

Split: TypeAlias = Literal["train", "test", "validation"]
MODULUS = 20
"""Of the numbers in `steps-K`."""


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


def questions(benchmark: str, n: int, *, split: Split, seed: int) -> list[GeneratedQuestion]:
    """`n` different questions of a split, the same for the same arguments.

    The first questions of a longer list are those of a shorter one, and no two splits share a
    question, whatever the seeds.

    Raises:
        KeyError: if no benchmark of this name is generated.
        ValueError: if there are not `n` questions to be had, or `split` is unknown.
    """
    level = level_of(benchmark)
    draw = _DRAWS[benchmark] if level is None else partial(draw_steps, level=level)
    most = 1_000_000 if benchmark == "arithmetic" else 10_000
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


_ARITHMETIC = re.compile(r"([1-9]\d{1,2})\*([1-9]\d)([+-][1-9]\d{0,2})([+-][1-9]\d{0,2})\?")
_SUM = re.compile(r"([1-9]\d\d)\+([1-9]\d\d)\?")
_START = re.compile(r"([a-z])=(\d{1,2})")
_OPERATION = re.compile(r"([a-z])=([a-z])([+*-])([a-z]|\d{1,2})")


def gold(question: str) -> str:
    """The answer of a question of any generated benchmark.

    Raises:
        DataError: if it is a question of none.
    """
    if ";?" in question:
        return str(_value_of_steps(question))
    if match := _ARITHMETIC.fullmatch(question.strip()):
        left, right, first, second = map(int, match.groups())
        return str(left * right + first + second)
    match = _SUM.fullmatch(question.strip())
    if match is None or not _carries(int(match[1]), int(match[2])):
        raise DataError(
            "a question must read like '347*83+129-45?' (arithmetic), or like '347+285?' with ones "
            f"and tens that add up to ten or more (sums), got {question!r}"
        )
    return str(int(match[1]) + int(match[2]))


def _value_of_steps(question: str) -> int:
    *definitions, last = question.strip().split(";")
    values: dict[str, int] = {}
    results: dict[str, int] = {}
    for definition in definitions:
        plain, match = _START.fullmatch(definition), _OPERATION.fullmatch(definition)
        if plain:
            values[plain[1]] = int(plain[2])
        elif match and match[2] in values and (match[4].isdigit() or match[4] in values):
            right = int(match[4]) if match[4].isdigit() else values[match[4]]
            values[match[1]] = results[match[1]] = apply(values[match[2]], match[3], right)
        else:
            raise unreadable(question)
    if last[1:] not in results:
        raise unreadable(question)
    return results[last[1:]]


def unreadable(question: str) -> DataError:
    """What to raise for a text that is no question of `steps-K`."""
    return DataError(
        f"a question of steps-K must read like 'a=17;m=4;b=a+9;c=b*a;?c', got {question!r}"
    )


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


_DRAWS: dict[str, Callable[[np.random.Generator, Split], GeneratedQuestion]] = {
    "arithmetic": _draw_arithmetic,
    "sums": _draw_sum,
}
_NAME = re.compile(r"steps-([1-9]|1\d|20)")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_OPERATORS = "+-*"
_P_EARLIER = 0.3
"""P(the right operand is an earlier value of the chain, where there is another one)."""
_MOST_ASIDES = 3


def apply(left: int, operator: str, right: int) -> int:
    """The result of one operation, in 0..19."""
    match operator:
        case "+":
            return (left + right) % MODULUS
        case "-":
            return (left - right) % MODULUS
        case _:
            return (left * right) % MODULUS


def level_of(benchmark: str) -> int | None:
    """K of the name ``steps-K``, or None for another name."""
    match = _NAME.fullmatch(benchmark)
    return int(match[1]) if match else None


def draw_steps(rng: np.random.Generator, split: Split, *, level: int) -> GeneratedQuestion:
    """A random problem of K operations."""
    while True:
        text, name, value = _steps(rng, level)
        if split_of_text(text) == split:
            return GeneratedQuestion(text, f"{text};?{name}", str(value))


def _steps(rng: np.random.Generator, level: int) -> tuple[str, str, int]:
    """The definitions of a problem, the name to ask for, and its value."""
    chances = iter(rng.random(4 * (level + _MOST_ASIDES + 1)).tolist())
    names = [_LETTERS[i] for i in rng.permutation(26)[: level + 1 + _MOST_ASIDES].tolist()]
    chain, asides = names[: level + 1], names[level + 1 :]
    start = int(MODULUS * next(chances))
    definitions = [f"{chain[0]}={start}"]
    values = [start]
    for position in range(level):
        operator = _OPERATORS[int(3 * next(chances))]
        earlier, which = next(chances) < _P_EARLIER, next(chances)
        source = int(position * which) if earlier and position else None
        right = 2 + int((MODULUS - 2) * next(chances)) if source is None else values[source]
        shown = right if source is None else chain[source]
        definitions.append(f"{chain[position + 1]}={chain[position]}{operator}{shown}")
        values.append(apply(values[-1], operator, right))
    at, before = 1, None
    for name in asides[: int((_MOST_ASIDES + 1) * next(chances))]:
        at += int((len(definitions) + 1 - at) * next(chances))
        definitions.insert(at, _aside(name, before, next(chances)))
        before, at = name, at + 1
    return ";".join(definitions), chain[-1], values[-1]


def _aside(name: str, before: str | None, chance: float) -> str:
    """A definition that does not lead to the answer: a number, or an operation on another one."""
    number = int(3 * MODULUS * chance)
    if before is None:
        return f"{name}={number % MODULUS}"
    return f"{name}={before}{_OPERATORS[number // MODULUS]}{max(2, number % MODULUS)}"
