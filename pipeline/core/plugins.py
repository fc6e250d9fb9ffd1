"""Code of users' own packages, by ``package.module:Name`` or the name of an entry point."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any

from pipeline.core.errors import ConfigError


def is_place(name: str) -> bool:
    """Whether a name says where code is: ``package.module:Name``."""
    return ":" in name


def short_name(name: str) -> str:
    """``Name`` of ``package.module:Name``; any other name as it is."""
    return name.rpartition(":")[2]


def imported(name: str, group: str) -> Any:
    """What a name stands for; None where it is neither a place nor an entry point of `group`.

    Raises:
        ConfigError: where the module cannot be imported, or has no such name.
    """
    if is_place(name):
        module, _, attribute = name.partition(":")
    else:
        found = [point for point in entry_points(group=group) if point.name == name]
        if not found:
            return None
        module, attribute = found[0].module, found[0].attr
    if not (module and attribute.isidentifier()):
        raise ConfigError(f"own code must be written package.module:Name, got {name!r}")
    try:
        value = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever the module does when it is imported
        raise ConfigError(
            f"module {module} must be importable (install it, or set PYTHONPATH to its folder), "
            f"got {type(error).__name__}: {error}"
        ) from error
    if not hasattr(value, attribute):
        raise ConfigError(f"module {module} must have {attribute}, it has no such name")
    return getattr(value, attribute)


def names_of(group: str) -> list[str]:
    """Names of the installed entry points of a group."""
    return sorted(point.name for point in entry_points(group=group))
