"""Problems of the generated benchmark `steps-K` with their operations, and replies step by step.

A solution has one operation a step, steps separated by blank lines, and ends in a box, so that each
step can be checked by itself::

    b=17+9=6

    c=6*17=2

    \\boxed{2}
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from pipeline.benchmarks.generated import Split, apply, draw_steps, unreadable
from pipeline.core.prompts import Prompts

TINY_PROMPTS = Prompts(first="{question}", revise="{question} was {answer}")
"""The prompts that the embedded tiny generator was trained on."""
LEVELS = (2, 4, 6, 9, 12)
"""The levels of the shipped pools."""

_START = re.compile(r"([a-z])=(\d{1,2})")
_OPERATION = re.compile(r"([a-z])=([a-z])([+*-])([a-z]|\d{1,2})")
_BOX = re.compile(r"\\boxed\{(-?\d{1,12})\}")


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


def parse(question: str) -> Problem:
    """The problem of a question.

    Raises:
        DataError: if `question` does not read like one of `steps-K`.
    """
    *definitions, asked = question.strip().split(";")
    start = _START.fullmatch(definitions[0]) if definitions else None
    if start is None or not re.fullmatch(r"\?[a-z]", asked):
        raise unreadable(question)
    values: dict[str, int] = {}
    operands: dict[str, tuple[str, str, str]] = {}
    for definition in definitions:
        if plain := _START.fullmatch(definition):
            values[plain[1]] = int(plain[2])
            continue
        match = _OPERATION.fullmatch(definition)
        if match is None or match[2] not in values or not _known(match[4], values):
            raise unreadable(question)
        name, left, operator, right = match.groups()
        operands[name] = (left, operator, right)
        values[name] = apply(values[left], operator, _value(right, values))
    chain: list[str] = [asked[1]]
    while chain[0] in operands:
        chain.insert(0, operands[chain[0]][0])
    if len(chain) < 2 or chain[0] != start[1]:
        raise unreadable(question)
    place = {name: position for position, name in enumerate(chain)}
    operations, sources = [], []
    for position, name in enumerate(chain[1:]):
        left, operator, right = operands[name]
        if right in values and place.get(right, position + 1) > position:
            raise unreadable(question)
        operations.append(Operation(name, values[left], operator, _value(right, values)))
        sources.append(place.get(right))
    return Problem(";".join(definitions), tuple(operations), tuple(sources), values[chain[0]])


def draw(rng: np.random.Generator, level: int, split: Split) -> Problem:
    """One random problem of a level and a split."""
    return parse(draw_steps(rng, split, level=level).text)


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


def steps_of(reply: str) -> list[str]:
    """The steps of a reply: what stands between blank lines."""
    return [step.strip() for step in re.split(r"\n\s*\n", reply) if step.strip()]


def answer_of(reply: str) -> str | None:
    """The number in the last box of a reply, or None."""
    boxes = _BOX.findall(reply)
    return str(int(boxes[-1])) if boxes else None


def _known(operand: str, values: dict[str, int]) -> bool:
    return operand.isdigit() or operand in values


def _value(operand: str, values: dict[str, int]) -> int:
    return int(operand) if operand.isdigit() else values[operand]
