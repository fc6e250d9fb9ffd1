"""Bounds of admission: how many chains a run starts with, at least and at most."""

from __future__ import annotations

import math

from pipeline.config.runtime import ControllerConfig
from pipeline.planning.admission import AdmissionRule

MARGIN = 1.5
"""A chain is in the verifier, or between rounds, for part of its time."""


def usual(slots: int) -> int:
    """Chains that keep a generator pool full without swamping it: what a run begins with.

    Args:
        slots: sequences that all of its replicas work on at once
            (`pipeline.planning.sizing.slots`). With `max_num_seqs` of all in their place it is what
            controllers are sized for: how long completions really are is not known before, and
            where they are short the cap grows beyond what their limit would allow for.
    """
    return math.ceil(MARGIN * slots)


def rule_of(controllers: ControllerConfig, *, slots: int, most: int) -> AdmissionRule:
    """The bounds for the replicas that there are; the floor keeps their batches full.

    Args:
        controllers: of what holds the chains.
        slots: as in `usual`, of the replicas that there are.
        most: chains that the controllers are sized for.
    """
    floor = max(1, slots)
    return AdmissionRule(floor=floor, ceiling=max(floor, controllers.holds(most)))


def shares(cap: int, controllers: int) -> tuple[int, ...]:
    """The cap divided among controllers as evenly as whole chains go; each has one at least."""
    if controllers < 1:
        raise ValueError(f"controllers must be >= 1, got {controllers}")
    each, over = divmod(cap, controllers)
    return tuple(max(1, each + (number < over)) for number in range(controllers))
