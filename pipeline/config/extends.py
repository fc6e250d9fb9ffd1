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
    return merged(base, values)


def overlay_of(path: str, values: dict[str, Any], target: str) -> dict[str, Any]:
    """The fields that `target` must hold to give `values`: `path` extended, or what `path` itself
    extends, and where they differ. All of `values` where a section is emptied, since no file can
    extend that.

    Args:
        path: a configuration file.
        values: fields that stand over those of `path`.
        target: file that is to be written, neither of the files that it rests on.

    Raises:
        ConfigError: where it is one of them.
    """
    own = read_fields(path, "a configuration")
    place = _beside(path, own["extends"]) if "extends" in own else path
    base = read_fields(place, f"what {path} extends")
    for taken in (path, place):
        if posixpath.abspath(taken) == posixpath.abspath(target):
            raise ConfigError(f"a plan must be written to a file of its own, got {target}")
    over = differing(base, values)
    if merged(base, over) != values:
        return values
    beside = posixpath.relpath(place, posixpath.dirname(target) or ".")
    far = posixpath.isabs(place) or posixpath.isabs(target)
    return {"extends": posixpath.abspath(place) if far else beside, **over}


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` put over `base`: mappings field by field, all else whole."""
    found = dict(base)
    for name, value in over.items():
        before = base.get(name)
        both = isinstance(before, dict) and isinstance(value, dict)
        found[name] = merged(before, value) if both else value  # type: ignore[arg-type]  # a dict
    return found


def differing(base: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The fields of `values` that are not so in `base`: what `merged` puts over it."""
    over: dict[str, Any] = {}
    for name, value in values.items():
        before = base.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := differing(before, value):
                over[name] = inner
        elif name not in base or before != value:
            over[name] = value
    return over


def place_of(where: str) -> str:
    """Where fields were read: a file, what it extends besides, or whatever else `where` names."""
    try:
        name = read_fields(where, "a configuration").get("extends")
    except ConfigError:  # a run's folder
        return where
    return where if name is None else f"{where}, which extends {_beside(where, name)}"


def _beside(path: str, name: str) -> str:
    return posixpath.join(posixpath.dirname(path), name)
