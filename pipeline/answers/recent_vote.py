"""*RecentVote*: an answer rule in which later rounds of a chain weigh more.

Use it for any strategy by its place::

    science.answer_rules: [{kind: "pipeline.answers.recent_vote:RecentVote", label: recent_vote}]

Where accuracy rises over the rounds a plain vote is held back by early wrong answers; where it is
level all rounds are worth the same, and the plain vote is as good (docs/strategies.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.answers.voting import forms
from pipeline.core.protocol import Completion
from pipeline.statistics.agreement import recent_leader


@dataclass(frozen=True)
class RecentVote:
    """The vote with discount: at every round with an answer all weights are multiplied by
    `discount`, then its own gets 1; the first seen on ties.

    Raises:
        ValueError: unless `discount` is in [0, 1].
    """

    discount: float = 0.8
    """0 is the last answer, 1 the plain vote."""

    def __post_init__(self) -> None:
        if not 0 <= self.discount <= 1:
            raise ValueError(f"discount must be in [0, 1], got {self.discount!r}")

    def __call__(self, completions: Sequence[Completion]) -> int | None:
        """The first completion with the elected answer; None where none has an answer."""
        form = forms([completion.answer for completion in completions])
        leader = int(recent_leader(np.array([form]), self.discount)[0, -1])
        return form.index(leader) if leader >= 0 else None
