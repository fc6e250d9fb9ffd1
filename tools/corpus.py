"""The worked solutions that the generators of `steps-K` learn from, slips and all.

A solution is written by a *hand* that knows each of the 1,200 operations (operator and two numbers
of 0..19) in one of three ways, which a fixed table decides:

- known: hardly ever wrong;
- careless: a first answer gets one in five wrong, a revision one in twenty;
- believed: about half of the time one wrong result, always the same, is taken for the right one.

Half of the revisions end with the answer that was shown, whatever their steps came to. A revision
loses its thread in long problems: from the seventh step on it slips more with every step. Later
steps go on with what earlier ones came to. So a model that learns this well makes errors by depth
and by question, mends what was careless, and does harm where problems are long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.benchmarks.generated import MODULUS, Split, apply
from tools.problems import TINY_PROMPTS, Problem, draw

KNOWN, CARELESS, BELIEVED = range(3)
SHARES = {"+": (0.75, 0.22, 0.03), "-": (0.75, 0.22, 0.03), "*": (0.50, 0.35, 0.15)}
"""Shares of known, careless and believed operations."""
P_FIRST = (0.005, 0.20, 0.50)
P_REVISED = (0.002, 0.05, 0.55)
"""P(slip) of a first answer and of a revision, by kind."""
P_LOST = 0.03
"""Added to a revision's P(slip) for every step past `THREAD`."""
THREAD = 6
P_KEPT = 0.5
"""P(a revision ends with the answer that it was shown)."""
P_TO_BELIEVED = 0.6
"""P(a slip in a known or careless operation is the operation's usual slip)."""


class Hand(NamedTuple):
    """What is known of each operation: by operator, left and right number."""

    kind: dict[str, list[list[int]]]
    usual: dict[str, list[list[int]]]
    """The usual wrong result: off by one, by ten, or that of another operator."""


def hand(seed: int = 20) -> Hand:
    """The table of all operations, the same for the same seed."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    size = (MODULUS, MODULUS)
    kinds, usual = {}, {}
    for operator, shares in SHARES.items():
        kinds[operator] = rng.choice(3, p=shares, size=size).tolist()
        right = np.array([[apply(x, operator, y) for y in range(MODULUS)] for x in range(MODULUS)])
        slips = rng.choice([-1, 1, 10], size=size)
        usual[operator] = ((right + slips) % MODULUS).astype(int).tolist()
    return Hand(kinds, usual)


def written(
    problem: Problem, rng: np.random.Generator, known: Hand, shown: int | None = None
) -> tuple[list[str], int]:
    """A first answer, or a revision of `shown`: its steps, the box last, and what the box says."""
    chances = P_FIRST if shown is None else P_REVISED
    kept = shown is not None and rng.random() < P_KEPT
    uniform = rng.random(2 * len(problem.operations)).tolist()
    values, steps = [problem.start], []
    last = len(problem.operations) - 1
    for position, operation in enumerate(problem.operations):
        source = problem.sources[position]
        left = values[-1]
        right = operation.right if source is None else values[source]
        kind = known.kind[operation.operator][left][right]
        chance = chances[kind] + (
            P_LOST * max(0, position + 1 - THREAD) if shown is not None else 0.0
        )
        result = apply(left, operation.operator, right)
        if kept and position == last and shown is not None:
            result = shown
        elif uniform[2 * position] < chance:
            if kind == BELIEVED or uniform[2 * position + 1] < P_TO_BELIEVED:
                result = known.usual[operation.operator][left][right]
            else:
                result = (result + int(rng.integers(1, MODULUS))) % MODULUS
        steps.append(operation.step(left, right, result))
        values.append(result)
    return [*steps, f"\\boxed{{{values[-1]}}}"], values[-1]


def prompt(question: str, shown: str | int | None = None) -> str:
    """What the generator is asked: the question, or the question and the answer before."""
    if shown is None:
        return TINY_PROMPTS.ask(question)[0].content
    return TINY_PROMPTS.ask_again(question, str(shown))[0].content


def example(
    rng: np.random.Generator, known: Hand, levels: tuple[int, ...], split: Split = "train"
) -> tuple[str, list[str]]:
    """A prompt and its steps: half first answers, half revisions of another first answer."""
    problem = draw(rng, levels[int(rng.integers(len(levels)))], split)
    shown = None
    if rng.random() < 0.5:
        _, shown = written(problem, rng, known)
        if rng.random() < 0.3:  # later rounds of a chain show revisions
            _, shown = written(problem, rng, known, shown)
    steps, _ = written(problem, rng, known, shown)
    return prompt(problem.question, shown), steps
