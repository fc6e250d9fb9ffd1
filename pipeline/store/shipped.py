"""Files and folders that come with the project, found wherever a process runs."""

from __future__ import annotations

from pathlib import Path

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
