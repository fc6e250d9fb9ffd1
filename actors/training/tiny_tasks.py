"""What the tiny generators learn of their task: its first drafts, and its second looks.

In `arithmetic` a draft slips by a digit and a revision is clean; the model never gets the product
quite right, so its errors depend on the question. In `sums` every error is a forgotten carry, as
likely in one question as in another, and less likely in a revision. Sampling at temperature 0.7
sharpens a probability p to p^(1/0.7) / (p^(1/0.7) + (1 - p)^(1/0.7)), and top_p 0.95 drops what is
then below 0.05: 0.27 becomes 0.19 and 0.15 becomes 0.08.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from pipeline.benchmarks import arithmetic, sums
from pipeline.benchmarks.arithmetic import Expression
from pipeline.benchmarks.builtin import NAMES
from pipeline.benchmarks.generated import answer_of
from pipeline.benchmarks.sums import CARRIES, Sum

P_SLIP = 0.35
"""Arithmetic: share of first drafts with a digit slip."""
P_SHOWN_RIGHT = 0.6
"""Arithmetic: share of revisions, before the model's own answers, whose shown answer is right."""
P_FORGOTTEN = 0.27
"""Sums: P(a first draft forgets a carry), each carry by itself."""
P_FORGOTTEN_AGAIN = 0.15
"""Sums: P(a revision forgets a carry), whatever answer it is shown."""

Steps: TypeAlias = tuple[str, ...]


class Exercise(Protocol):
    """A question of the training split, and the solutions that are learnt from."""

    @property
    def question(self) -> str:
        """What the model is asked."""

    def draft(self, rng: np.random.Generator) -> Steps:
        """A first answer."""

    def shown(self, rng: np.random.Generator) -> str | None:
        """An answer to be revised."""

    def revision(self, rng: np.random.Generator) -> Steps:
        """What comes of a second look at an answer."""


@dataclass(frozen=True, slots=True)
class ArithmeticExercise:
    """Drafts with digit slips, clean revisions."""

    asked: Expression

    @property
    def question(self) -> str:
        """What the model is asked."""
        return self.asked.question

    def draft(self, rng: np.random.Generator) -> Steps:
        """A worked solution, slipped in a share `P_SLIP`."""
        slips = rng.random() < P_SLIP
        return (
            arithmetic.slipped_solution(self.asked, rng)
            if slips
            else arithmetic.solution(self.asked)
        )

    def shown(self, rng: np.random.Generator) -> str | None:
        """The right answer in a share `P_SHOWN_RIGHT`, else a slipped one."""
        if rng.random() < P_SHOWN_RIGHT:
            return str(self.asked.value)
        return answer_of(arithmetic.slipped_solution(self.asked, rng)[-1])

    def revision(self, rng: np.random.Generator) -> Steps:
        """The worked solution."""
        return arithmetic.solution(self.asked)


@dataclass(frozen=True, slots=True)
class SumExercise:
    """Drafts forget carries, revisions fewer of them."""

    asked: Sum

    @property
    def question(self) -> str:
        """What the model is asked."""
        return self.asked.question

    def draft(self, rng: np.random.Generator) -> Steps:
        """The worked solution with carries forgotten by `P_FORGOTTEN`."""
        return sums.solution(self.asked, [c for c in CARRIES if rng.random() < P_FORGOTTEN])

    def shown(self, rng: np.random.Generator) -> str | None:
        """The answer of a draft."""
        return answer_of(self.draft(rng)[-1])

    def revision(self, rng: np.random.Generator) -> Steps:
        """The worked solution with carries forgotten by `P_FORGOTTEN_AGAIN`."""
        return sums.solution(self.asked, [c for c in CARRIES if rng.random() < P_FORGOTTEN_AGAIN])


def draw_exercise(task: str, rng: np.random.Generator) -> Exercise:
    """An exercise of the training split of ``arithmetic`` or ``sums``.

    Raises:
        ValueError: for another task.
    """
    match task:
        case arithmetic.BENCHMARK:
            return ArithmeticExercise(arithmetic.draw(rng, "train"))
        case sums.BENCHMARK:
            return SumExercise(sums.draw(rng, "train"))
    raise ValueError(f"task must be one of {', '.join(NAMES)}, got {task!r}")
