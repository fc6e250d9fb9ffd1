"""*grade*, *find*: parse a gold answer and a prediction, compare them and return a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from pipeline.answers.algebra.polynomial import FULL, Work
from pipeline.answers.compare import Comparison, Prove
from pipeline.answers.extract import extract, last_box
from pipeline.answers.reading import Manner, read
from pipeline.answers.spellings import PLAIN, same_formula
from pipeline.answers.values import BaseNumeral, Choice, ListOf, Scalar, Unread, Value
from pipeline.answers.verdict import TooLarge, Verdict
from pipeline.core.thinking import parts

_REPLY = re.compile(r"\\boxed|^####|\banswer is\b", re.MULTILINE | re.IGNORECASE)
_READINGS = 5
_CONSTANT = re.compile(r"(?<=[+-])\s*[CK]\W*$|C(?=_\s*\{?\s*\d)")
_LETTERS_BEHIND = re.compile(
    r"[\d)}\s~](?:\\mu\b *|\\(?=Omega\b))?[A-Za-zμ]{1,5}[\w^{}/. ·-]{0,12}\W*$"
)
_VARIABLE_BEHIND = re.compile(r"[-+]?[\d.,]+[A-Za-z]")
_SPACED_UNIT = re.compile(  # a plain numeral and a unit set apart, or LaTeX's space before a unit
    r"\$?\s*[-+]?[\d.,]+(?:\s|~|\\[,;: ])+(?![A-Za-z]\b(?<![mgshLNJWV]))(?:[^\\\s]|\\Omega).*"
    r"|.*(?:~|\\[,;:])\s*[A-Za-z].*",
    re.DOTALL,
)


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
    is its own cleaned spelling, as are values that arithmetic alone does not relate: sin^2 + cos^2
    and 1 are two votes.
    """
    text = read(answer).text
    for _ in range(_READINGS):
        before, text = text, read(text).text
        if text == before:
            break
    return text


def grade(gold: str, prediction: str | None) -> Verdict:
    """Whether `prediction` answers what `gold` does.

    Equal canonical forms are always RIGHT; beyond that a leniency may make it so.

    Args:
        gold: the reference answer.
        prediction: an extracted answer; a whole reply is extracted from first; None is WRONG.

    Returns:
        UNGRADED where exact comparison decides nothing (see `find` for why).
    """
    finding = find(gold, prediction)
    if finding in (Finding.RIGHT, Finding.WRONG):
        return Verdict(finding.value)
    return Verdict.UNGRADED


def _other_manners(expected: Value, given: Value, written: tuple[str, str]) -> Iterator[Manner]:
    """Ways of reading both answers again that a leniency allows and that could matter."""
    texts = expected.text + given.text
    bars = re.search(r"\||vert|abs", "".join(written)) is not None
    digits = [sorted(re.findall(r"\d+", text)) for text in written]  # 40,00 is not 40,000
    logarithm = "ln(" in texts or "log(" in texts
    if logarithm or ("abs(" in texts and not bars):
        yield Manner.POSITIVE
    lists = [isinstance(value, ListOf) for value in (expected, given)]
    one = any(lists) and not all(lists)
    if one and digits[0] == digits[1]:
        yield Manner.COMMAS_SEPARATE
    if one:
        yield Manner.MIXED_NUMBERS
    if isinstance(expected, Choice):
        yield Manner.SMALL_CHOICES


def _letter_units(gold: str, prediction: str, comparison: Comparison, limit: int) -> bool | None:
    """The decision where letters behind a number are its unit: 5 m is five metres.

    Against a bare number the letter may as well be a variable: that is open, unless a space sets it
    apart from a plain numeral. False where nothing would be read otherwise.
    """
    if not any(map(_LETTERS_BEHIND.search, (gold, prediction))):
        return False
    pair = [read(text, Manner.LETTER_UNITS, limit) for text in (gold, prediction)]
    if all(
        a.text == read(b, limit=limit).text for a, b in zip(pair, (gold, prediction), strict=True)
    ):
        return False
    if any(isinstance(value, Unread) for value in pair):
        return False
    decision = comparison.equal(*pair)
    if decision and any(
        _VARIABLE_BEHIND.fullmatch(text.strip(" $")) for text in (gold, prediction)
    ):
        return None  # 2g may be two grams
    bare = [isinstance(value, Scalar) and value.unit is None for value in pair]
    if not any(bare) or decision is not True:
        return decision
    return True if _SPACED_UNIT.fullmatch((gold, prediction)[bare.index(False)].strip()) else None


def find(
    gold: str,
    prediction: str | None,
    *,
    limit: int = FULL,
    prove: Prove | None = None,
    ordered: bool = False,
) -> Finding:
    """As `grade`, saying what is open where nothing was decided.

    Args:
        gold: the reference answer; of a whole solution, what stands in its last box.
        prediction: as for `grade`.
        limit: units of work that reading and comparing may take each, about 1.5 microseconds long.
        prove: decides pairs of expressions that exact comparison leaves open.
        ordered: whether bare lists are in order.
    """
    if prediction is None or not prediction.strip():
        return Finding.WRONG
    thinking = parts(prediction)
    if thinking.open or thinking.mark or _REPLY.search(prediction):
        extracted = extract(prediction)
        if extracted is None:
            return Finding.WRONG
        prediction = extracted
    if "boxed" in gold:
        gold = last_box(gold) or gold
    numbers = PLAIN.fullmatch(gold) and PLAIN.fullmatch(prediction)
    if not numbers and _spelling(gold) == _spelling(prediction):
        return Finding.RIGHT
    formulas = None if numbers else same_formula(gold, prediction)
    if formulas is not None:
        return {True: Finding.RIGHT, False: Finding.WRONG, None: Finding.UNREAD}[formulas[0]]
    expected, answer = read(gold, limit=limit), read(prediction, limit=limit)
    numeral = isinstance(expected, BaseNumeral) and expected.digits
    if numeral == prediction.strip(" $").upper():
        return Finding.RIGHT
    if any(isinstance(value, Unread) and value.too_large for value in (expected, answer)):
        return Finding.TOO_LARGE if expected.text != answer.text else Finding.RIGHT
    texts = (expected.text, answer.text)
    if len({"abs(" in text for text in texts}) > 1 and "ln(" not in texts[0] + texts[1]:
        prove = None  # a computer algebra system takes variables as positive
    comparison = Comparison(Work(limit), prove)
    try:
        if ordered and isinstance(expected, ListOf) and isinstance(answer, ListOf):
            in_order = comparison.in_order(expected.items, answer.items)
            return {True: Finding.RIGHT, False: Finding.WRONG, None: Finding.UNPROVEN}[in_order]
        decision = comparison.equal(expected, answer)
        scalars = isinstance(expected, Scalar) and isinstance(answer, Scalar)
        if decision is False and scalars:
            decision = _letter_units(gold, prediction, comparison, limit)
        constants = [
            _CONSTANT.sub(lambda m: re.sub("[CK]", "c", m[0]), text) for text in (gold, prediction)
        ]
        if decision is not True and constants not in ([gold, prediction], [prediction, gold]):
            decision = comparison.equal(*(read(text, limit=limit) for text in constants))
        others = _other_manners(expected, answer, (gold, prediction))
        for manner in others if decision is not True else ():
            other = comparison.equal(read(gold, manner, limit), read(prediction, manner, limit))
            decision = True if other else decision
        if decision is None and isinstance(answer, Unread):
            decision = _approximated(expected, answer, comparison, limit)
            decision = decision or _by_sides(expected, answer, comparison, limit)
    except TooLarge:
        return Finding.TOO_LARGE
    if decision is not None:
        return Finding.RIGHT if decision else Finding.WRONG
    unread = [isinstance(value, Unread) for value in (expected, answer)]
    if any(unread) and _squeezed(expected.text) == _squeezed(answer.text):
        return Finding.RIGHT
    return Finding.UNREAD if any(unread) else Finding.UNPROVEN


def _approximated(
    expected: Value, given: Unread, comparison: Comparison, limit: int
) -> bool | None:
    """True where a value is given with its decimal, 2/3 \\approx 0.667, and one of the two is
    expected."""
    exact, sign, decimal = given.text.partition("\\approx")
    if not sign:
        return None
    value, rounded = read(exact, limit=limit), read(decimal, limit=limit)
    if not (isinstance(value, Scalar) and isinstance(rounded, Scalar)) or rounded.places is None:
        return None
    number = rounded.expression.rational
    if number is None or not comparison.rounds(value.expression, number, rounded.places):
        return None
    return True if any(comparison.equal(expected, side) for side in (value, rounded)) else None


def _by_sides(expected: Value, given: Unread, comparison: Comparison, limit: int) -> bool | None:
    """The decision where every side of an equation that has no reading as one decides alike:
    3 + 5 = 8 apples for 8, and 2 + 2 = 5 for 7; open for 4, and for 5."""
    sides = [read(side, limit=limit) for side in given.text.split("=")]
    scalars = isinstance(expected, Scalar) and all(isinstance(side, Scalar) for side in sides)
    if len(sides) < 2 or not scalars:
        return None
    decisions = {comparison.equal(expected, side) for side in sides}
    return decisions.pop() if len(decisions) == 1 else None


def _spelling(text: str) -> str:
    """What is printed, where it is said in words."""
    return " ".join(re.sub(r"\\text\s?\{([^{}]*)\}|\$", r"\1", text).split())


def _squeezed(text: str) -> str:
    """A spelling without what LaTeX does not print (spaces beside signs, braces around one sign),
    nor the set around a condition; its clauses, and the sides of a relation without direction, in
    order."""
    text = re.sub(r"\\text\s?\{([^{}]*)\}", r" \1 ", text)
    text = re.sub(r"\bis\b|^[a-z]\s?\\equiv(?=[\s\d-]+\\pmod)", " ", text)
    text = (
        re.sub(r"(?<=[0-9A-Za-z])\s+(?=[0-9A-Za-z])", "\n", text)
        .replace(" ", "")
        .replace("\n", " ")
        .replace("\\pmod ", "\\pmod")
    )
    text = re.sub(r"\{(\w)\}", r"\1", re.sub(r"\{(\d)\}(?=\d)", r"\1 ", text))
    text = re.sub(r"^\\?\{(?:([a-z])\s?(?:\||:)(?=\1))?(.+?)\\?\}$", r"\2", text)
    clauses = re.split(r",(?![^()\[\]]*[)\]])", text)
    sides = [sorted(re.split(r"\\(parallel|perp)\s?", clause)) for clause in clauses]
    return ",".join(sorted("".join(side) for side in sides))
