"""What a grading can come to, and why an answer could not be read."""

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
    """The rules, tried in this order."""

    ROUNDED_DECIMAL = "rounded_decimal"
    """Gold 5/12, predicted a decimal of six digits or more, rounded or cut. Never for integers."""
    ROUNDED_GOLD = "rounded_gold"
    """Gold a float of nine places or 15 digits or more: gold 0.6666666667, prediction 2/3."""
    PERCENT_SIGN_OPTIONAL = "percent_sign_optional"
    """A percent sign that one side lacks: gold 35\\%, prediction 35, and back. Not 50 for 0.5."""
    UNIT_OPTIONAL = "unit_optional"
    """A unit or counted things that one side lacks: gold 14, prediction 14 cm, and back."""
    DEGREE_SIGN_OPTIONAL = "degree_sign_optional"
    """A degree sign that one side lacks: gold 90^\\circ, prediction 90, and back."""
    DEGREES_AS_RADIANS = "degrees_as_radians"
    """Gold in degrees, prediction the same angle in radians as a multiple of pi, and back."""
    BASE_OPTIONAL = "base_optional"
    """The base that only the gold answer names: gold 413_5, prediction 413. Never the other way."""
    NAME_OPTIONAL = "name_optional"
    """The name that one side lacks: gold x = 9, prediction 9, and back; 0 <= x <= 1 for [0,1]."""
    CHAIN_END = "chain_end"
    """A prediction that ends a chain of equalities in the gold answer, x = 3 + 4 = 7 for 7; or says
    what several variables come to, m + n = 7; or gives a value with its decimal, 2/3 ~ 0.667."""
    PARENTHESES_OPTIONAL = "parentheses_optional"
    """A bare list against the same list, in the same order, in parentheses or brackets."""
    BRACES_OPTIONAL = "braces_optional"
    """A bare list against the set of its members, in any order; a single value against its set."""
    COLUMN_AS_TUPLE = "column_as_tuple"
    """A one-column or one-row matrix against the tuple of its entries."""
    RATIO_AS_FRACTION = "ratio_as_fraction"
    """A ratio of two numbers against their quotient: gold 1:2, prediction 1/2, and back."""
    CHOICE_CONTENT_OPTIONAL = "choice_content_optional"
    """The text behind the letter of a choice: gold C, prediction (C) 45, and back."""
    COMMAS_AS_LIST = "commas_as_list"
    """Digits grouped by commas read as a list where the other side is one: 100,200 for 100, 200."""
    LETTERS_AS_LIST = "letters_as_list"
    """Capitals side by side as choices, and small letters as one: ABD for A, B, D; (a) for A."""
    MIXED_NUMBER_WITH_AND = "mixed_number_with_and"
    """A whole number and a fraction joined by "and" as one: gold 16/3, prediction 5 and 1/3."""
    POSITIVE_DOMAIN = "positive_domain"
    """Variables taken as positive: gold x, prediction \\sqrt{x^2}, and back."""


ALL_LENIENCIES: frozenset[Leniency] = frozenset(Leniency)
"""Every rule; the default of `pipeline.answers.grade`."""
