"""Cases of answers in `tests/data`: pairs by what grading must say of them, and whole replies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent / "data"


def cases(name: str) -> list[dict[str, Any]]:
    """Rows of a file of cases."""
    return [json.loads(line) for line in (DATA / name).read_bytes().splitlines()]


ROWS = cases("answer_pairs.jsonl")


def pairs(says: str) -> list[tuple[str, str]]:
    """(gold, prediction) of every pair of one kind, such as ``equal`` and ``proved equal``."""
    return [(row["gold"], row["prediction"]) for row in ROWS if row["says"] == says]


EQUAL, DIFFERENT = pairs("equal"), pairs("different")
PROVED_EQUAL, PROVED_DIFFERENT = pairs("proved equal"), pairs("proved different")
