"""*Side files*: reads the versions, summary, notes and metrics of a run.

One that is torn or changed counts as missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pipeline.core.errors import DataError
from pipeline.store.storage import Folder

_ATTEMPT = re.compile(r"attempt-(\d+)\.json")

Facts = Mapping[str, Mapping[str, Any]]


def environments(run: Folder) -> dict[int, Facts]:
    """Versions and hardware by attempt, in the order of their numbers."""
    folder = run.child("environment")
    found: dict[int, Facts] = {}
    for name in folder.names():
        match = _ATTEMPT.fullmatch(name)
        with suppress(DataError):
            facts: Any = folder.read_json(name) if match else None
            if match and _is_section(facts) and all(map(_is_section, facts.values())):
                found[int(match[1])] = facts
    return dict(sorted(found.items()))


def summary(run: Folder) -> Mapping[str, Any]:
    """What summary.json says; {} where there is none."""
    with suppress(DataError):
        facts = run.read_json("summary.json") if run.has("summary.json") else {}
        if _is_section(facts):
            return dict(facts)
    return {}


def notes(run: Folder, name: str) -> list[Any]:
    """The entries of a list that a run wrote down; [] where there is none."""
    with suppress(DataError):
        found = run.read_json(name) if run.has(name) else []
        return found if isinstance(found, list) else []
    return []


def _is_section(value: Any) -> bool:
    return isinstance(value, dict)


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
    numbers: Numbers = {f"{pool}.replicas": len(replicas)}
    for name in ("running", "waiting"):
        numbers[f"{pool}.{name}"] = sum(replica.get(name) or 0 for replica in replicas)
    usage = [r["kv_usage"] for r in replicas if r.get("kv_usage") is not None]
    numbers[f"{pool}.kv_usage"] = sum(usage) / len(usage) if usage else None
    return numbers
