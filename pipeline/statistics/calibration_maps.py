"""*Calibration maps*: functions from a raw score to a calibrated probability, as stored with a run.

Isotonic ones are fitted in `pipeline.statistics.calibration` on a held-out split; applying one
needs neither scipy nor the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.core.origin import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class IsotonicMap:
    """Piecewise linear and non-decreasing; constant outside its knots."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "isotonic"

    scores: tuple[float, ...]
    """Knots, increasing."""
    probabilities: tuple[float, ...]
    """At the knots, non-decreasing, in [0, 1]."""
    fitted_on: str = ""
    """The run or pool whose graded completions it was fitted on."""
    origin: Origin | None = None

    def __post_init__(self) -> None:
        if not self.scores or len(self.scores) != len(self.probabilities):
            raise ValueError(
                f"scores and probabilities must be of one length >= 1, got {len(self.scores)} "
                f"and {len(self.probabilities)}"
            )
        _check_order("scores", self.scores, strict=True)
        _check_order("probabilities", self.probabilities, strict=False)
        if not (self.probabilities[0] >= 0 and self.probabilities[-1] <= 1):
            raise ValueError(f"probabilities must be in [0, 1], got {self.probabilities!r}")

    def __call__(self, score: float) -> float:
        """The calibrated probability of a score."""
        return float(np.interp(score, self.scores, self.probabilities))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlattMap:
    """1 / (1 + exp(-(slope score + intercept))): of a user's own fit, or an earlier version's."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "platt"

    slope: float
    intercept: float
    fitted_on: str = ""
    """As of `IsotonicMap`."""
    origin: Origin | None = None

    def __post_init__(self) -> None:
        for name in ("slope", "intercept"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be finite, got {getattr(self, name)!r}")

    def __call__(self, score: float) -> float:
        """The calibrated probability of a score."""
        z = self.slope * score + self.intercept
        return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


CalibrationMap = IsotonicMap | PlattMap


def _check_order(name: str, values: Sequence[float], *, strict: bool) -> None:
    steps = np.diff(values)
    if not np.all(np.isfinite(values)) or not np.all(steps > 0 if strict else steps >= 0):
        order = "increase" if strict else "not decrease"
        raise ValueError(f"{name} must be finite and {order}, got {tuple(values)!r}")
