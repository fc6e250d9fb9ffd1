"""Files and folders that come with the project, found wherever a process runs."""

from __future__ import annotations

from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[2]


def located(path: str) -> str:
    """`path` as it is where something is there, or where the project has nothing of that name;
    else the project's own, such as ``models/tiny-generator``."""
    own = _PROJECT / path
    return str(own) if not Path(path).exists() and own.exists() else path
