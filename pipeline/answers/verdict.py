"""The verdicts of grading, and why an answer could not be parsed."""

from __future__ import annotations

from enum import StrEnum

from pipeline.core.errors import MarkovScaleError


class Verdict(StrEnum):
    """What grading an answer came to."""

    RIGHT = "right"
    """Equal to the gold answer, or equal under a leniency that is switched on."""
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


class Leniency(StrEnum):
    """Ways in which grading goes beyond equality of values, each a switch.

    No two of them add up, and votes never see them. docs/grading.md lists what each allows.
    """

    ROUNDING = "rounding"
    """Gold 5/12, predicted a decimal of six digits or more, rounded or cut, never for integers;
    gold a float of nine places or 15 digits, predicted the value that it stands for."""
    PERCENT_SIGN = "percent_sign"
    """A percent sign that one side lacks: gold 35\\%, prediction 35, and back. Not 50 for 0.5."""
    UNITS = "units"
    """A unit, counted things or a degree sign that one side lacks: gold 14, prediction 14 cm, and
    back; an angle in degrees against the same one in radians as a multiple of pi."""
    NAMES = "names"
    """The name that one side lacks: gold x = 9, prediction 9, and back; 0 <= x <= 1 for [0,1]; a
    prediction that ends a chain, x = 3 + 4 = 7 for 7, or gives a value with its decimal."""
    BRACKETS = "brackets"
    """A bare list against the same one in parentheses or brackets, in its order, or against the
    set of its members, in any; a one-column or one-row matrix against the tuple of its entries."""
    NUMERALS = "numerals"
    """The base that only the gold answer names: 413 for 413_5; a ratio against its quotient; 5 and
    1/3 for 16/3; digits grouped by commas against a list: 100,200 for 100, 200."""
    CHOICES = "choices"
    """The text behind the letter of a choice: gold C, prediction (C) 45, and back; (a) for A."""
    POSITIVE_DOMAIN = "positive_domain"
    """Variables taken as positive: gold x, prediction \\sqrt{x^2}, and back."""


ALL_LENIENCIES: frozenset[Leniency] = frozenset(Leniency)
"""Every rule; the default of `pipeline.answers.grade`."""
