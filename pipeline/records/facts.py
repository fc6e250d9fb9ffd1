"""What a run writes down for people: where it is torn or changed, it is as if it were not there."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
