"""Grading in one place: read both sides, compare, say what was found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from pipeline.answers.compare import Comparison
from pipeline.answers.extract import extract
from pipeline.answers.leniency import ALL_LENIENCIES, Leniency
from pipeline.answers.reading import Manner, read
from pipeline.answers.values import ListOf, Unread, Value
from pipeline.answers.verdict import Verdict
from pipeline.core.thinking import parts

_REPLY = re.compile(r"\\boxed|^####|\banswer is\b", re.MULTILINE | re.IGNORECASE)


class Finding(StrEnum):
    """What exact comparison came to, and whether more could be tried."""

    RIGHT = "right"
    WRONG = "wrong"
    UNPROVEN = "unproven"
    """Both are read and agree to 50 digits, or have no digits; no proof either way."""
    UNREAD = "unread"
    """One of them has no reading here; a computer algebra system may have one."""
    TOO_LARGE = "too_large"
    """One of them is beyond the limits of one answer; nothing else should be tried."""


def canonical(answer: str) -> str:
    """One string per value: 1/2, 0.5, \\frac12 and 3/6 give the same one.

    The only relation that votes use; reading it again gives itself. An answer that cannot be read
    is its own cleaned spelling.
    """
    return read(answer).text


def grade(
    gold: str, prediction: str | None, *, leniencies: frozenset[Leniency] = ALL_LENIENCIES
) -> Verdict:
    """Whether `prediction` answers what `gold` does.

    Equal canonical forms are always RIGHT; beyond that each switched-on leniency may make it so.

    Args:
        gold: the reference answer.
        prediction: an extracted answer; a whole reply is extracted from first; None is WRONG.
        leniencies: the rules that are on.

    Returns:
        UNGRADED where exact comparison decides nothing (see `find` for why).
    """
    finding = find(gold, prediction, leniencies=leniencies)
    if finding in (Finding.RIGHT, Finding.WRONG):
        return Verdict(finding.value)
    return Verdict.UNGRADED


def _other_manners(
    expected: Value, given: Value, leniencies: frozenset[Leniency]
) -> Iterator[Manner]:
    """Ways of reading both answers again that a leniency allows and that could matter."""
    texts = expected.text + given.text
    if any(name in texts for name in ("abs(", "ln(", "log(")) and (
        Leniency.POSITIVE_DOMAIN in leniencies
    ):
        yield Manner.POSITIVE
    lists = [isinstance(value, ListOf) for value in (expected, given)]
    if any(lists) and not all(lists) and Leniency.COMMAS_AS_LIST in leniencies:
        yield Manner.COMMAS_SEPARATE


def find(
    gold: str, prediction: str | None, *, leniencies: frozenset[Leniency] = ALL_LENIENCIES
) -> Finding:
    """As `grade`, saying what is open where nothing was decided."""
    if prediction is None or not prediction.strip():
        return Finding.WRONG
    thinking = parts(prediction)
    if thinking.open or thinking.mark or _REPLY.search(prediction):
        extracted = extract(prediction)
        if extracted is None:
            return Finding.WRONG
        prediction = extracted
    expected, given = read(gold), read(prediction)
    comparison = Comparison(leniencies)
    decision = comparison.equal(expected, given)
    if decision is not True:
        for manner in _other_manners(expected, given, leniencies):
            other = comparison.equal(read(gold, manner), read(prediction, manner))
            decision = True if other else decision
    if decision is not None:
        return Finding.RIGHT if decision else Finding.WRONG
    unread = [value for value in (expected, given) if isinstance(value, Unread)]
    if any(value.too_large for value in unread):
        return Finding.TOO_LARGE
    return Finding.UNREAD if unread else Finding.UNPROVEN
