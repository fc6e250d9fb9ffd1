"""How GPUs are best divided between generator and verifier, from what a run's pools did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_WORTH = 0.05  # a split is told where it saves at least this share of the time


def better_split(
    pools: Mapping[str, Mapping[str, Any] | None], gpus: Mapping[str, float]
) -> dict[str, Any] | None:
    """The division of the run's GPUs that would have served the same work soonest.

    An estimate: the work of a pool is its full-replica-seconds (`slot_s`), which does not change
    with the split, is never idle, and is divided evenly among its replicas. Tail, start and
    dependence of rounds are not in it, so it says which pool was too small, not how long a run
    takes.

    Args:
        pools: ``generator`` and ``verifier``, with `replicas` and `slot_s`.
        gpus: that one replica takes, by pool; where both are 0 a replica counts as one.

    Returns:
        Replicas of each pool and `time`, the estimate over that of the split as it was, in (0, 1];
        None where there is one pool, or nothing that saves 5 %.
    """
    generator, verifier = pools.get("generator"), pools.get("verifier")
    if generator is None or verifier is None:
        return None
    of_generator, of_verifier = gpus["generator"], gpus["verifier"]
    if not of_generator or not of_verifier:
        of_generator = of_verifier = 1.0
    total = generator["replicas"] * of_generator + verifier["replicas"] * of_verifier

    def seconds(generators: int, verifiers: int) -> float:
        return max(float(generator["slot_s"]) / generators, float(verifier["slot_s"]) / verifiers)

    now = seconds(generator["replicas"], verifier["replicas"])
    splits = []
    for verifiers in range(1, math.floor(total / of_verifier) + 1):
        generators = math.floor((total - verifiers * of_verifier) / of_generator + 1e-9)
        if generators >= 1:
            splits.append((seconds(generators, verifiers), -generators, -verifiers))
    if not splits or not now:
        return None
    best, generators, verifiers = min(splits)  # among equals the one that leaves no GPU idle
    if best > (1 - _WORTH) * now:
        return None
    return {"generator": -generators, "verifier": -verifiers, "time": best / now}
