"""Local files that a user names: read whole, as text, YAML fields or CSV rows."""

from __future__ import annotations

import csv
from importlib.resources import files
from pathlib import Path
from typing import Any

from pipeline.core.errors import ConfigError
from pipeline.store.yaml_text import read_yaml


def read_fields(path: str, what: str) -> dict[str, Any]:
    """The fields of a YAML file.

    Args:
        path: of the file.
        what: it is, for the message: "a configuration".

    Raises:
        ConfigError: where it cannot be read, is no YAML, or holds no fields.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # no UTF-8, or no path
        where = "" if isinstance(error, OSError) else f" in {path!r}"
        raise ConfigError(f"{what} must be a readable YAML file, got {error}{where}") from error
    try:
        values = read_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{path} must be YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must hold fields, got {type(values).__name__}")
    return values


def read_csv_rows(folder: str, name: str) -> list[dict[str, str]]:
    """Rows of ``name`` in `folder` by column; [] where there is no such file."""
    path = Path(folder) / name
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def is_file(path: str) -> bool:
    """Whether there is a local file of that name."""
    return Path(path).is_file()


def read_text(path: str) -> str:
    """A UTF-8 file whole; OSError and UnicodeDecodeError as they come."""
    return Path(path).read_text(encoding="utf-8")


def package_text(package: str, *names: str) -> str:
    """A text file that lies in a package of ours."""
    return files(package).joinpath(*names).read_text(encoding="utf-8")


PROJECT = Path(__file__).resolve().parents[2]
"""The checkout; of an installed wheel the package `markovscale`."""

INSTALLED = __name__.startswith("markovscale.")
"""Whether this is an installed wheel (deploy/wheel.py), not a checkout."""


_FOLDERS = ("configs", "data", "models")


def shipped_path(path: str) -> str:
    """`path`, or what ships with the project under that name where nothing is at `path`:
    ``models/tiny-generator`` and ``data/pools/sums`` are found from every working directory."""
    if path.split("/")[0] not in _FOLDERS or Path(path).exists():
        return path
    own = PROJECT / path
    return str(own) if own.exists() else path
