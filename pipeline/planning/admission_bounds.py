"""Bounds of admission: how many chains a run starts with, at least and at most."""

from __future__ import annotations

import math

from pipeline.config.runtime import ControllerConfig, PoolConfig
from pipeline.planning.admission import AdmissionRule

FIXED_MARGIN = 1.5
"""A chain is in the verifier, or between rounds, for part of its time."""
ELASTIC_MARGIN = 1.2
"""Serve grows a pool only while more requests are open than it aims at."""


def usual(pool: PoolConfig, slots: int) -> int:
    """Chains that keep a generator pool full without swamping it: what a run begins with.

    An elastic pool must see more requests than its largest size aims at, else Serve never grows it
    that far.

    Args:
        pool: its configuration.
        slots: sequences that all of its replicas work on at once
            (`pipeline.planning.sizing.slots`). With `max_num_seqs` of all in their place it is what
            controllers are sized for: how long completions really are is not known before, and
            where they are short the cap grows beyond what their limit would allow for.
    """
    if pool.max_replicas is not None:
        return math.ceil(ELASTIC_MARGIN * pool.target_requests * pool.max_replicas)
    return math.ceil(FIXED_MARGIN * slots)


def rule_of(
    pool: PoolConfig, controllers: ControllerConfig, *, slots: int, most: int
) -> AdmissionRule:
    """The bounds for the replicas that there are.

    The floor of a fixed pool keeps its batches full. That of an elastic one is what makes it grow
    to its largest size: a cap that came down for an overload would take away the requests for
    which Serve starts the replicas that end it.

    Args:
        pool: configuration of the generators.
        controllers: of what holds the chains.
        slots: as in `usual`, of the replicas that there are.
        most: chains that the controllers are sized for.
    """
    floor = max(1, slots if pool.max_replicas is None else usual(pool, slots))
    return AdmissionRule(floor=floor, ceiling=max(floor, controllers.holds(most)))


def shares(cap: int, controllers: int) -> tuple[int, ...]:
    """The cap divided among controllers as evenly as whole chains go; each has one at least."""
    if controllers < 1:
        raise ValueError(f"controllers must be >= 1, got {controllers}")
    each, over = divmod(cap, controllers)
    return tuple(max(1, each + (number < over)) for number in range(controllers))
