"""The generated benchmarks by name: what `arithmetic` and `sums` offer alike."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.benchmarks import arithmetic, sums
from pipeline.benchmarks.generated import GeneratedQuestion, Split

_QUESTIONS: dict[str, Callable[..., list[GeneratedQuestion]]] = {
    arithmetic.BENCHMARK: arithmetic.questions,
    sums.BENCHMARK: sums.questions,
}
NAMES = tuple(_QUESTIONS)
"""``arithmetic`` and ``sums``."""


def questions(benchmark: str, n: int, *, split: Split, seed: int) -> list[GeneratedQuestion]:
    """`n` different questions of a split, the same for the same arguments.

    Raises:
        KeyError: if no benchmark of this name is generated.
        ValueError: if there are not `n` questions to be had, or `split` is unknown.
    """
    return _QUESTIONS[benchmark](n, split=split, seed=seed)


def gold(question: str) -> str:
    """The answer of a question of either benchmark.

    Raises:
        DataError: if it is a question of neither.
    """
    parse = arithmetic.parse if "*" in question else sums.parse
    return str(parse(question).value)


def check_steps(question: str, reply: str) -> tuple[bool, ...]:
    """Whether each step of a reply to a question of either benchmark is right.

    Raises:
        DataError: if it is a question of neither.
    """
    check = arithmetic.check_steps if "*" in question else sums.check_steps
    return check(question, reply)
