"""*Verdict*: the results of grading, and the errors of answers that cannot be parsed."""

from __future__ import annotations

from enum import StrEnum

from pipeline.core.errors import MarkovScaleError


class Verdict(StrEnum):
    """What grading an answer came to."""

    RIGHT = "right"
    """Equal to the gold answer, or equal under a leniency (docs/grading.md)."""
    WRONG = "wrong"
    """Shown to differ from the gold answer, or there is no answer."""
    UNGRADED = "ungraded"
    """Neither was shown. Never counted as wrong without saying so: the transitions of an ungraded
    answer leave the counts of a and b."""


class Unreadable(MarkovScaleError, ValueError):
    """An answer has no mathematical reading here; it is compared as text."""


class Malformed(Unreadable):
    """The answer is broken LaTeX: it is equal to nothing but its own spelling."""


class TooLarge(Unreadable):
    """Reading the answer exactly would take more time or memory than one answer may."""
