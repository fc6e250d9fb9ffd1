"""``qwen_prm``: a head of two classes (wrong, right) at a separator after every step, softmax.

Qwen2.5-Math-PRM and its relatives (arXiv:2501.07301), and token classifiers as TRL trains them.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.engines.verifiers.needs import LANGUAGE_MODELS, Has, refused, told
from actors.engines.verifiers.step_reader import StepReader
from pipeline.core import prm


class QwenPrm(StepReader):
    """See the module."""

    activation = True

    def check(self, has: Has) -> None:
        """A head of two labels."""
        if has.ends_with(*LANGUAGE_MODELS) or has.labels != 2:
            needed = "a head of 2 labels, such as Qwen2ForProcessRewardModel,"
            raise refused(self.model, told(has), needed)

    def scores(self, rows: Sequence[Sequence[float]], n_steps: int) -> tuple[float, ...]:
        """P(right)."""
        return prm.step_scores(rows, n_steps)
