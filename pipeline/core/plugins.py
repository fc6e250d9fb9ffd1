"""Code of users' own, by ``package.module:Name``, ``path/file.py:Name`` or an entry point."""

from __future__ import annotations

import importlib
import posixpath
import sys
from importlib.metadata import entry_points
from typing import Any

from pipeline.core.errors import ConfigError


def is_import_path(name: str) -> bool:
    """Whether a name says where code is: ``package.module:Name`` or ``path/file.py:Name``."""
    return ":" in name


def short_name(name: str) -> str:
    """``Name`` of ``package.module:Name``; any other name as it is."""
    return name.rpartition(":")[2]


def load_object(name: str, group: str) -> Any:
    """What a name stands for; None where it is neither a place nor an entry point of `group`.

    Raises:
        ConfigError: where the module cannot be imported or has no such name, or two packages give
            one name to different code.
    """
    place = name
    if not is_import_path(name):
        found = sorted({point.value for point in entry_points(group=group) if point.name == name})
        if not found:
            return None
        if len(found) > 1:
            raise ConfigError(
                f"an entry point of {group} must be of one package, {name!r} is "
                f"{' and '.join(found)}: write one of these in its place"
            )
        place = found[0]
    module, _, attribute = place.rpartition(":")
    if not (module and attribute.isidentifier()):
        of = "" if place == name else f" of the entry point {name!r}"
        raise ConfigError(
            f"own code must be written package.module:Name or path/file.py:Name, got {place!r}{of}"
        )
    try:
        value = _of_file(module) if module.endswith(".py") else importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever the module does when it is imported
        raise ConfigError(
            f"module {module} must be importable (install it, or set PYTHONPATH to its folder), "
            f"got {type(error).__name__}: {error}"
        ) from error
    if not hasattr(value, attribute):
        raise ConfigError(f"module {module} must have {attribute}, it has no such name")
    return getattr(value, attribute)


def _of_file(path: str) -> Any:
    """The module of a file, under the file's own name, so that Ray's workers import it too.

    Raises:
        ModuleNotFoundError: where another module has that name, or there is no such file.
    """
    folder, file = posixpath.split(posixpath.abspath(path))
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that it hides no other module
        importlib.invalidate_caches()
    module = importlib.import_module(file.removesuffix(".py"))
    if posixpath.abspath(module.__file__ or "") != f"{folder}/{file}":
        raise ModuleNotFoundError(f"{file} has the name of another module, {module.__file__}")
    return module


def names_of(group: str) -> list[str]:
    """Names of the installed entry points of a group."""
    return sorted(point.name for point in entry_points(group=group))
