"""``extends: FILE``: a configuration file that says only where it differs from another one."""

from __future__ import annotations

import posixpath
from typing import Any

from pipeline.core.errors import ConfigError
from pipeline.store.local import read_fields


def read_extended(path: str) -> dict[str, Any]:
    """Returns the fields of a YAML file, merged over those of the file that it extends.

    ``extends`` names a file relative to the folder of `path`; that file may extend another one.
    Mappings merge field by field; lists and single values, null among them, replace.

    Raises:
        ConfigError: naming file and key, also where files extend each other in a circle.
    """
    values, seen, what = read_fields(path, "a configuration"), [path], path
    while "extends" in values:
        name = values.pop("extends")
        if not isinstance(name, str) or not name:
            raise ConfigError(f"extends in {what} must name a file, got {name!r}")
        place = posixpath.normpath(_relative(what, name))
        if place in map(posixpath.normpath, seen):
            raise ConfigError(f"extends must not form a circle, got {' -> '.join([*seen, place])}")
        values = merged(read_fields(place, f"the file that {what} extends"), values)
        seen.append(place)
        what = place
    return values


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` put over `base`: mappings field by field, all else whole."""
    found = dict(base)
    for name, value in over.items():
        before = base.get(name)
        both = isinstance(before, dict) and isinstance(value, dict)
        found[name] = merged(before, value) if both else value  # type: ignore[arg-type]  # a dict
    return found


def place_of(where: str) -> str:
    """Returns the places that fields were read from, for error messages."""
    try:
        name = read_fields(where, "a configuration").get("extends")
    except ConfigError:  # a run's folder
        return where
    return where if name is None else f"{where}, which extends {_relative(where, name)}"


def _relative(path: str, name: str) -> str:
    return posixpath.join(posixpath.dirname(path), name)
