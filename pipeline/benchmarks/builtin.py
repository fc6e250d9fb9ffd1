"""The generated benchmarks by name: `arithmetic`, `sums` and `steps-K`."""

from __future__ import annotations

from pipeline.benchmarks import generated, steps
from pipeline.benchmarks.generated import GeneratedQuestion, Split

NAMES = ("arithmetic", "sums", *(f"steps-{level}" for level in steps.LEVELS))
"""Those that pools of ours hold; `steps-K` takes every K of 1 to 20."""


def questions(benchmark: str, n: int, *, split: Split, seed: int) -> list[GeneratedQuestion]:
    """`n` different questions of a split, the same for the same arguments.

    Raises:
        KeyError: if no benchmark of this name is generated.
        ValueError: if there are not `n` questions to be had, or `split` is unknown.
    """
    level = steps.level_of(benchmark)
    if level is not None:
        return steps.questions(n, level=level, split=split, seed=seed)
    drawn = {"arithmetic": generated.arithmetic, "sums": generated.sums}[benchmark]
    return drawn(n, split=split, seed=seed)


def gold(question: str) -> str:
    """The answer of a question of any generated benchmark.

    Raises:
        DataError: if it is a question of none.
    """
    if ";?" in question:
        return str(steps.parse(question).value)
    return str(generated.value(question))
