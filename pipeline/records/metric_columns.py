"""Rows of a run's metrics as flat columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Numbers = dict[str, float | None]


def flat(row: Mapping[str, Any], above: str = "") -> Numbers:
    """All numbers of a row; what is nested has dotted names (``stops.tau``, ``admission.cap``).

    Of the replicas of a pool there are their number, the sums of ``running`` and ``waiting``, and
    the mean of ``kv_usage``, which is None where no replica says it (``generator.running``).
    """
    numbers: Numbers = {}
    for name, value in row.items():
        if name == "engines" and not above:
            for pool, replicas in value.items():
                numbers |= _of_replicas(pool, replicas)
        elif isinstance(value, dict):
            numbers |= flat(value, f"{above}{name}.")
        elif isinstance(value, int | float):
            numbers[above + name] = value
    return numbers


def _of_replicas(pool: str, replicas: Sequence[Mapping[str, Any]]) -> Numbers:
    told: Numbers = {f"{pool}.replicas": len(replicas)}
    for name in ("running", "waiting"):
        told[f"{pool}.{name}"] = sum(replica.get(name) or 0 for replica in replicas)
    usage = [r["kv_usage"] for r in replicas if r.get("kv_usage") is not None]
    told[f"{pool}.kv_usage"] = sum(usage) / len(usage) if usage else None
    return told
