"""``extends: FILE``: a configuration file that says only where it differs from another one."""

from __future__ import annotations

import posixpath
from typing import Any

from pipeline.core.errors import ConfigError
from pipeline.store.local import read_fields


def read_extended(path: str) -> dict[str, Any]:
    """The fields of a YAML file, over those of the file that it extends, if it does.

    ``extends`` names a file relative to the folder of `path`. Mappings merge, field by field; lists
    and single values, null among them, replace. What is extended must not itself extend another.

    Raises:
        ConfigError: naming file and key.
    """
    values = read_fields(path, "a configuration")
    if "extends" not in values:
        return values
    name = values.pop("extends")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"extends in {path} must name a file, got {name!r}")
    place = _beside(path, name)
    base = read_fields(place, f"what {path} extends")
    if "extends" in base:
        raise ConfigError(
            f"extends may go one level deep: {place}, which {path} extends, must not have it, "
            f"got extends: {base['extends']!r}"
        )
    return _merged(base, values)


def place_of(where: str) -> str:
    """Where fields were read: a file, what it extends besides, or whatever else `where` names."""
    try:
        name = read_fields(where, "a configuration").get("extends")
    except ConfigError:  # a run's folder
        return where
    return where if name is None else f"{where}, which extends {_beside(where, name)}"


def _beside(path: str, name: str) -> str:
    return posixpath.join(posixpath.dirname(path), name)


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in over.items():
        before = base.get(name)
        both = isinstance(before, dict) and isinstance(value, dict)
        merged[name] = _merged(before, value) if both else value  # type: ignore[arg-type]  # a dict
    return merged
