"""The generated benchmarks `steps-K`: problems of K dependent operations modulo 20.

A question defines a value, K operations that each use the one before, up to three definitions that
lead nowhere, and the name that it asks for::

    a=17;m=4;b=a+9;n=m-8;c=b*a;?c

Every number is in 0..19: results are taken modulo 20. Its solution has one operation a step, steps
separated by blank lines, and ends in a box, so each step can be checked by itself::

    b=17+9=6

    c=6*17=2

    \\boxed{2}

`K` is the level: the more steps, the more chances of a slip.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from pipeline.benchmarks.generated import (
    GeneratedQuestion,
    Split,
    different_questions,
    split_of_text,
    steps_of,
)
from pipeline.core.errors import DataError

MODULUS = 20
LEVELS = (2, 4, 6, 9, 12)
"""The levels of the shipped pools; every level of 1 to 20 can be had."""

_NAME = re.compile(r"steps-([1-9]|1\d|20)")
_START = re.compile(r"([a-z])=(\d{1,2})")
_OPERATION = re.compile(r"([a-z])=([a-z])([+*-])([a-z]|\d{1,2})")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_OPERATORS = "+-*"
_P_EARLIER = 0.3
"""P(the right operand is an earlier value of the chain, where there is another one)."""
_MOST_ASIDES = 3


class Operation(NamedTuple):
    """``name=left operator right``, with the values that the operands have."""

    name: str
    left: int
    operator: str
    right: int

    @property
    def result(self) -> int:
        """The value of `name`."""
        return apply(self.left, self.operator, self.right)

    def step(self, left: int, right: int, result: int) -> str:
        """The step that states `result` for these operands, right or not."""
        return f"{self.name}={left}{self.operator}{right}={result}"


class Problem(NamedTuple):
    """A question with the operations that lead to its answer."""

    text: str
    """The definitions, without ``?`` and the name asked for."""
    operations: tuple[Operation, ...]
    sources: tuple[int | None, ...]
    """Which of the chain's values (0 is the start) is the right operand of each operation; None
    where that is a number. The left one is the value before."""
    start: int
    """The first value."""

    @property
    def question(self) -> str:
        """What the model is asked."""
        return f"{self.text};?{self.operations[-1].name}"

    @property
    def value(self) -> int:
        """The gold answer."""
        return self.operations[-1].result


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


def parse(question: str) -> Problem:
    """The problem of a question.

    Raises:
        DataError: if `question` does not read like one of `steps-K`.
    """
    *definitions, asked = question.strip().split(";")
    start = _START.fullmatch(definitions[0]) if definitions else None
    if start is None or not re.fullmatch(r"\?[a-z]", asked):
        raise _unreadable(question)
    values: dict[str, int] = {}
    operands: dict[str, tuple[str, str, str]] = {}
    for definition in definitions:
        if plain := _START.fullmatch(definition):
            values[plain[1]] = int(plain[2])
            continue
        match = _OPERATION.fullmatch(definition)
        if match is None or match[2] not in values or not _known(match[4], values):
            raise _unreadable(question)
        name, left, operator, right = match.groups()
        operands[name] = (left, operator, right)
        values[name] = apply(values[left], operator, _value(right, values))
    chain: list[str] = [asked[1]]
    while chain[0] in operands:
        chain.insert(0, operands[chain[0]][0])
    if len(chain) < 2 or chain[0] != start[1]:
        raise _unreadable(question)
    place = {name: position for position, name in enumerate(chain)}
    operations, sources = [], []
    for position, name in enumerate(chain[1:]):
        left, operator, right = operands[name]
        if right in values and place.get(right, position + 1) > position:
            raise _unreadable(question)
        operations.append(Operation(name, values[left], operator, _value(right, values)))
        sources.append(place.get(right))
    return Problem(";".join(definitions), tuple(operations), tuple(sources), values[chain[0]])


def draw(rng: np.random.Generator, level: int, split: Split) -> Problem:
    """One random problem of a level and a split."""
    while True:
        problem = _draw(rng, level)
        if split_of_text(problem.text) == split:
            return problem


def questions(n: int, *, level: int, split: Split, seed: int) -> list[GeneratedQuestion]:
    """`n` different questions of a level, as `different_questions`.

    Raises:
        ValueError: if `n` is not in 0..10,000 or `split` is unknown.
    """

    def draw_question(rng: np.random.Generator, split: Split) -> GeneratedQuestion:
        problem = draw(rng, level, split)
        return GeneratedQuestion(problem.text, problem.question, str(problem.value))

    return different_questions(draw_question, n, split=split, seed=seed, most=10_000)


def solution(problem: Problem) -> tuple[str, ...]:
    """The steps of the right solution, the box last."""
    steps = [
        operation.step(operation.left, operation.right, operation.result)
        for operation in problem.operations
    ]
    return (*steps, f"\\boxed{{{problem.value}}}")


def check_steps(problem: Problem, reply: str) -> tuple[bool, ...]:
    """Whether each step of a reply is the one due at its place.

    A step that computes correctly with an earlier wrong result is wrong, since its operands are;
    so is every step after the box. The box is right if it has the answer.

    Returns:
        One verdict a step, in order; empty for an empty reply.
    """
    due = solution(problem)
    return tuple(
        position < len(due) and step == due[position]
        for position, step in enumerate(steps_of(reply))
    )


def _draw(rng: np.random.Generator, level: int) -> Problem:
    chances = iter(rng.random(4 * (level + _MOST_ASIDES + 1)).tolist())
    names = [_LETTERS[i] for i in rng.permutation(26)[: level + 1 + _MOST_ASIDES].tolist()]
    chain, asides = names[: level + 1], names[level + 1 :]
    start = int(MODULUS * next(chances))
    definitions = [f"{chain[0]}={start}"]
    values, operations, sources = [start], [], []
    for position in range(level):
        operator = _OPERATORS[int(3 * next(chances))]
        earlier, which = next(chances) < _P_EARLIER, next(chances)
        source = int(position * which) if earlier and position else None
        right = 2 + int((MODULUS - 2) * next(chances)) if source is None else values[source]
        operation = Operation(chain[position + 1], values[-1], operator, right)
        shown = right if source is None else chain[source]
        definitions.append(f"{chain[position + 1]}={chain[position]}{operator}{shown}")
        operations.append(operation)
        sources.append(source)
        values.append(operation.result)
    at, before = 1, None
    for name in asides[: int((_MOST_ASIDES + 1) * next(chances))]:
        at += int((len(definitions) + 1 - at) * next(chances))
        definitions.insert(at, _aside(name, before, next(chances)))
        before, at = name, at + 1
    return Problem(";".join(definitions), tuple(operations), tuple(sources), start)


def _aside(name: str, before: str | None, chance: float) -> str:
    """A definition that does not lead to the answer: a number, or an operation on another one."""
    number = int(3 * MODULUS * chance)
    if before is None:
        return f"{name}={number % MODULUS}"
    return f"{name}={before}{_OPERATORS[number // MODULUS]}{max(2, number % MODULUS)}"


def _known(operand: str, values: dict[str, int]) -> bool:
    return operand.isdigit() or operand in values


def _value(operand: str, values: dict[str, int]) -> int:
    return int(operand) if operand.isdigit() else values[operand]


def _unreadable(question: str) -> DataError:
    return DataError(
        f"a question of steps-K must read like 'a=17;m=4;b=a+9;c=b*a;?c', got {question!r}"
    )
