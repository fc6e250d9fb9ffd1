"""What one setting made of every question of a benchmark: the column behind every number.

Axis: Q questions of one benchmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import FloatArray
from pipeline.report.comparison import mean_interval
from pipeline.statistics.intervals import Interval, wilson

HELD_OUT, TEST = "held_out", "test"
"""Where a tuned setting was chosen: on the other half of the questions, or on these very ones."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scored:
    """One setting of one method on all questions; two are the same only if they are one object."""

    backbone: str
    benchmark: str
    method: str
    kind: str
    n: int | None
    """Completions a question at most; None where the method has no such number."""
    rule: str
    """How the answer is read; `` | `` between the halves where they differ."""
    fixed: str
    """The settings that were given."""
    tuned: str
    """The settings that were chosen, those of both halves where they differ; "" where none was."""
    chosen_on: str | None
    """`HELD_OUT`, `TEST`, or None where nothing was chosen."""
    source: str
    """The pool or the run."""
    right_Q: FloatArray
    """Share of right answers in [0, 1]; nan where nobody can say."""
    tokens_Q: FloatArray
    """Completion tokens; nan where the question was not asked."""

    @property
    def setting(self) -> str:
        """Everything that made the number."""
        where = {HELD_OUT: " (other half)", TEST: " (these questions)"}.get(
            self.chosen_on or "", ""
        )
        parts = [self.fixed, f"{self.tuned}{where}" if self.tuned else "", self.rule]
        return "; ".join(part for part in parts if part)

    @property
    def graded(self) -> int:
        """Questions that somebody can judge."""
        return int(np.sum(~np.isnan(self.right_Q)))

    @property
    def accuracy(self) -> Interval | None:
        """Wilson's interval, Student's for shares that are no counts; None where none is graded."""
        known = self.right_Q[~np.isnan(self.right_Q)]
        if not len(known):
            return None
        if is_binary(known):
            return wilson(int(known.sum()), len(known))
        mean = mean_interval(known.tolist())
        return Interval(value=mean.value, low=max(0.0, mean.low), high=min(1.0, mean.high))

    @property
    def tokens(self) -> Interval | None:
        """Mean completion tokens a question, Student's interval."""
        known = self.tokens_Q[~np.isnan(self.tokens_Q)]
        return mean_interval(known.tolist()) if len(known) else None


def is_binary(values: FloatArray) -> bool:
    """Whether all values are 0 or 1."""
    return bool(np.all((values == 0) | (values == 1)))


def either(values: Sequence[str]) -> str:
    """One value, or those of both halves: ``0.93 | 0.95``."""
    return " | ".join(dict.fromkeys(values))
