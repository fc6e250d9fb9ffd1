"""The paper's numbers as read from CSV files, and tables that hold them beside ours.

The files (``main_accuracy.csv``, ``variants.csv``, ``ablation.csv``, ``tau.csv``, ``gamma.csv``)
are the user's; no number of them is kept here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.core.errors import DataError
from pipeline.statistics.intervals import Interval
from pipeline.store.local import read_csv_rows

_ALIASES = {"amc23": "amc2023", "aime24": "aime2024", "aime25": "aime2025"}
FILES = ("main_accuracy", "variants", "ablation", "tau", "gamma")

Measure = str
"""``accuracy`` or ``tokens``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One number of a table, ours and the paper's."""

    measure: Measure
    ours: Interval | None = None
    """Accuracy as a share, or tokens a question; None where it was not run. An entry without an
    interval of its own has both ends at its value."""
    paper: float | None = None
    """On the same scale; None where the paper has no matching number."""

    @property
    def differs(self) -> bool:
        """Whether the paper's number lies outside our interval."""
        if self.ours is None or self.paper is None or self.ours.low == self.ours.high:
            return False
        return not self.ours.low <= self.paper <= self.ours.high


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """Rows of entries under columns of (benchmark or gamma, measure)."""

    name: str
    """``main``, ``variants``, ``ablation``, ``tau`` or ``gamma``."""
    title: str
    backbone: str
    n: int
    columns: tuple[tuple[str, Measure], ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]


PaperNumbers = Mapping[str, Sequence[Mapping[str, str]]]
"""Rows of each CSV file by its name without ending; [] where the file is not there."""


def read_paper(folder: str) -> PaperNumbers:
    """The paper's numbers.

    Raises:
        DataError: where the folder holds none of the files.
    """
    found: dict[str, Sequence[Mapping[str, str]]] = {}
    for name in FILES:
        if rows := read_csv_rows(folder, f"{name}.csv"):
            found[name] = rows
    if not found:
        raise DataError(
            f"--paper must be a folder with any of {', '.join(f'{n}.csv' for n in FILES)}, "
            f"got {folder!r}"
        )
    return {name: found.get(name, []) for name in FILES}


def normal(name: str) -> str:
    """A backbone's or benchmark's name without owner, case and punctuation."""
    bare = "".join(c for c in name.rpartition("/")[2].lower() if c.isalnum())
    return _ALIASES.get(bare, bare)


def number_of(rows: Sequence[Mapping[str, str]], measure: Measure) -> float | None:
    """The one number of matching rows of the paper; percentages as shares."""
    if not rows:
        return None
    if measure == "accuracy":
        return float(rows[0]["accuracy_percent"]) / 100
    return float(rows[0]["tokens_per_question"])
