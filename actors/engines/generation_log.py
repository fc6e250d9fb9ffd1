"""A log of what a scripted generator makes, which outlives a kill of its process."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


class GenerationLog:
    """What a generator made, written down as it is made: ``seed tokens`` a line."""

    def __init__(self, folder: str) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder) / f"{os.getpid()}-{uuid.uuid4().hex[:8]}.txt"
        self._file = path.open("ab", buffering=0)  # a line is in the kernel once it is written

    def note(self, seed: int, tokens: int) -> None:
        """Write down a completion, or the part of one that was made."""
        self._file.write(f"{seed} {tokens}\n".encode())


def logged_generations(folder: str) -> list[tuple[int, int]]:
    """(seed, tokens) of everything that all generators of a folder made."""
    files = sorted(Path(folder).glob("*.txt"))
    lines = [line.split() for path in files for line in path.read_bytes().splitlines()]
    return [(int(seed), int(tokens)) for seed, tokens in lines]
