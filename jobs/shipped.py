"""Configurations that come with the project, by their bare names: ``laptop``, ``paper``."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

_CONFIGS = Path(__file__).resolve().parents[1] / "configs"


def shipped(folder: str = "") -> Callable[[str], str]:
    """A type of argparse: a file, or the bare name of a file in a folder below ``configs``."""

    def found(text: str) -> str:
        if Path(text).suffix or "/" in text or os.path.exists(text):
            return text
        file = str(_CONFIGS / folder / f"{text}.yaml")
        if os.path.isfile(file):
            return file
        names = sorted(path.stem for path in (_CONFIGS / folder).glob("*.yaml"))
        near = get_close_matches(text, names, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(names) or 'none'}"
        raise ArgumentTypeError(f"must be a file, or a shipped one by name ({meant}), got {text!r}")

    return found
