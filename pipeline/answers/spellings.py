"""Answers that are known by their spelling: numerals in a base, choices, labels, times, words."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

from pipeline.answers.algebra import expression as ex
from pipeline.answers.algebra.tokens import Token, Type
from pipeline.answers.normalise import without_separators
from pipeline.answers.values import BaseNumeral, Scalar, Unread, Value, Words

PLAIN = re.compile(r"([-+]?)(\d{1,300})(?:\.(\d{1,300})|/(\d{1,300}))?", re.ASCII)
_BASE = re.compile(
    r"\{?(-?)\s*([0-9A-F]+(?:\.[0-9A-F]+)?)\s*(?:_\s*\{?\s*(?:\\text\s*\{)?\s*(?:base\s*)?|\\?(?:text\s*\{)?\s*base\}?\s*)"
    r"(-?\d{1,2}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|sixteen)[\s}]*",
    re.ASCII,
)
_CHOICE = re.compile(
    r"(?:(?:[Tt]he )?(?:[Cc]orrect )?(?:[Oo]ption|[Cc]hoice|[Aa]nswer|选项?|選項?)\s*:?\s*)?"
    r"(?:[(\[]\s*([A-K])\s*[)\]]?|([A-K])\s*[).:]?|([a-k])\s*\))"
)
_CHOICE_WITH = re.compile(
    r"(?:(?:[Oo]ption|[Cc]hoice)\s+)?(?:\(\s*([A-K])\s*\)|([A-Ka-k])\s*\)"
    r"|([A-K])(?:\s*(?:[:](?=\s)|[.])|\s+-(?=[^\\]*[A-Za-z]{4}[^\\]*$)))\s*(?:[:.]\s*)?(\S.*)"
)
_COUNT_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen", "twenty",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
COUNTS = {word: Fraction(value) for value, word in enumerate(_COUNT_WORDS)} | {
    ten + (f"-{one}" if one != "zero" else ""): Fraction(20 + 10 * tens + ones)
    for tens, ten in enumerate(_TENS)
    for ones, one in enumerate(_COUNT_WORDS[:10])
}
SYMBOLS = {
    "infinity": r"\infty", "positive infinity": r"\infty", "negative infinity": r"-\infty",
    "empty set": r"\emptyset", "half": r"\frac12", "one half": r"\frac12",
    **dict.fromkeys((
        "all real numbers", "all reals", "real numbers", "any real number", "every real number",
        "all real number", "set of all real numbers", "set of real numbers", "all real values",
    ), r"\mathbb{R}"),
}  # fmt: skip
"""Words that are the names of values."""
_SAME_WORDS = {
    "no solutions": "no solution", "there is no solution": "no solution",
    "there are no solutions": "no solution", "dne": "does not exist",
}  # fmt: skip
_LABELS = re.compile(r"(?:\(\s*\d{1,2}\s*\)(?:\s|,|;|\\cdot|and|\\text\s*\{\s*and\s*\})*){2,12}")
_SEPARATOR_WORDS = re.compile(r"\s*,?\s*(?:and|or|,|和|或|y|e|и|et|und)\s*,?\s*")
_CLOCK = re.compile(
    r"\d{1,2}(?:(?::[0-5]\d){1,2}|(?=.*m))(?:\s*(?:\\text\s*\{)?\s*[ap]\.?\s*m\.?\s*\}?)?",
    re.IGNORECASE,
)
_REMAINDER = re.compile(
    r"(\d{1,9})[\s,(]*(?:\\text\s*\{\s*)?(?:with )?(?:a )?(?:[Rr]|remainder)(?: of)?"
    r"\s*\}?\s*(\d{1,9})\)?"
)
_STATED = re.compile(
    r"(?:the |its |so |hence |thus |therefore,? )?(?:[^\W\d_]+ ){0,5}(?:is|are|equals)"
    r"\s*:?\s*((?:[-+\\\[({$.]|\d).*)",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:not|no|never|less|more|least|most|than|between|if|when|where|there)\b", re.IGNORECASE
)


def base_numeral(text: str) -> BaseNumeral | None:
    """A numeral whose base is stated: 413_5, 413_{\\text{five}}, 413 base 5."""
    match = _BASE.fullmatch(text)
    if match is None or not re.search(r"\d", match[2]):
        return None
    base = int(COUNTS.get(match[3]) or match[3])
    digits = match[2].lstrip("0") or "0"
    digits = f"0{digits}" if digits.startswith(".") else digits
    if not 2 <= abs(base) <= 36 or any(
        int(digit, 36) >= abs(base) for digit in digits.replace(".", "")
    ):
        return None
    return BaseNumeral(match[1] + digits, base)


def clock(text: str) -> Words | None:
    """A time of day, which is no ratio: 12:00, 6:30 p.m."""
    if not _CLOCK.fullmatch(text):
        return None
    letters = re.sub(r"\\text|[^0-9a-z:]", "", text.lower())
    return Words(re.sub(r"^(\d+)(?=[ap])", r"\1:00", letters))


def remainder(text: str) -> Words | None:
    """A quotient with its remainder, which is no product: 9 R2, 9 remainder 2."""
    match = _REMAINDER.fullmatch(text)
    return Words(f"{match[1]} remainder {match[2]}") if match else None


def labels(text: str) -> Words | None:
    """Numbers of statements: (1)(3), (1), (3), or circled digits."""
    if not _LABELS.fullmatch(text):
        return None
    numbers = sorted(set(re.findall(r"\d+", text)), key=int)
    return Words("".join(f"({number})" for number in numbers), tuple(numbers))


def choice(text: str, small: bool = False) -> tuple[str, str | None] | None:
    """The letter of a multiple choice and what stands behind it: C, (C), Option C, C. 45, c) 45.

    Args:
        text: a cleaned answer.
        small: whether a small letter in parentheses is one too.
    """
    plain = re.sub(r"\\text\s*\{([^{}]*)\}|^\{ *(\([A-K]\)) *\}", r" \1\2 ", text).strip()
    if small and re.fullmatch(r"\(\s*[a-k]\s*\)", plain):
        plain = plain.upper()
    if letter := _CHOICE.fullmatch(plain):
        return (letter[1] or letter[2] or letter[3]).upper(), None
    match = _CHOICE_WITH.fullmatch(plain)
    return None if match is None else ((match[1] or match[2] or match[3]).upper(), match[4])


def stated(text: str) -> str | None:
    """The value of a sentence that states one: "The mode is 1/3" is 1/3."""
    match = _STATED.fullmatch(text)
    return match[1] if match and not _NEGATED.search(text) else None


def as_words(text: str) -> str:
    """Comparable words: case, punctuation, articles and LaTeX dressing off."""
    text = re.sub(r"[{}$\\\\]", " ", re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text)).casefold()
    text = re.sub(r"(\d)(?:st|nd|rd|th)\b|(?<=[^\W\d])\.(?=[\s\w])", r"\1", text)
    for _ in range(4):  # an article may stand in quotes, quotes behind an article
        text = re.sub(r"\s+", " ", text).strip(" .,;:!?'\"()")
        text = re.sub(r"^(?:(?:the|a|an) )+(?=\S)", "", text)
    return _SAME_WORDS.get(text, text)


def is_separator(token: Token) -> bool:
    """Whether a token stands between the items of a list: a comma, a semicolon, and, or."""
    if token.type is Type.TEXT:
        return _SEPARATOR_WORDS.fullmatch(token.text) is not None
    return token.type is Type.SIGN and token.text in ",;"


def ungrouped(text: str) -> str:
    """`text` without thousands separators; in brackets a comma always separates."""
    pieces = re.split(r"((?:\\\{|[(\[]).*)", text, maxsplit=1)
    return without_separators(pieces[0]) + "".join(pieces[1:])


def plain_number(match: re.Match[str]) -> Value:
    """A plain integer, decimal or fraction, without the way through tokens and parser."""
    sign, whole, decimals, below = match.groups()
    factor = -1 if sign == "-" else 1
    if below is not None:
        if not below.strip("0"):
            return Unread(match[0], malformed=True)
        return Scalar(ex.number(Fraction(factor * int(whole), int(below))))
    if decimals is None:
        return Scalar(ex.number(factor * int(whole)))
    value = Fraction(factor * int(whole + decimals), 10 ** len(decimals))
    digits = len((whole + decimals).lstrip("0"))
    return Scalar(ex.number(value), places=len(decimals), digits=digits)


def with_places(value: Scalar, tokens: list[Token]) -> Scalar:
    """`value`, its decimal places noted where it is a plain decimal numeral."""
    unsigned = tokens[1:] if tokens[0].text in ("-", "+") else tokens
    if len(unsigned) != 1 or "." not in unsigned[0].text or "e" in unsigned[0].text.lower():
        return value
    whole, _, decimals = unsigned[0].text.partition(".")
    digits = len((whole + decimals).lstrip("0"))
    return replace(value, places=len(decimals), digits=digits)
