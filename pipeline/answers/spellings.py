"""Answers that are known by their spelling: numerals in a base, choices, times, count words."""

from __future__ import annotations

import re

from pipeline.answers.normalise import without_separators
from pipeline.answers.tokens import Token, Type
from pipeline.answers.values import BaseNumeral, Words

_BASE = re.compile(
    r"(-?)\s*([0-9A-F]+(?:\.[0-9A-F]+)?)\s*(?:_\s*\{?\s*(?:\\text\s*\{)?\s*(?:base\s*)?|\\?(?:text\s*\{)?\s*base\}?\s*)"
    r"(\d{1,2}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|sixteen)[\s}]*",
    re.ASCII,
)
_BASE_NAMES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "sixteen": 16,
}  # fmt: skip
_CHOICE = re.compile(r"\(?\s*([A-J])\s*(?:\)|[.:]|\))?")
_CHOICE_WITH = re.compile(
    r"(?:\(\s*([A-J])\s*\)|([A-J])(?:\s*[):.](?=\s)|\s+-(?=[^\\]*[A-Za-z]{4}[^\\]*$)))"
    r"\s*(?:[:.]\s*)?(\S.*)"
)
_COUNT_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen", "twenty",
)  # fmt: skip
COUNTS = {word: value for value, word in enumerate(_COUNT_WORDS)}
_SEPARATOR_WORDS = re.compile(r"\s*,?\s*(?:and|or|,)\s*,?\s*")
_CLOCK = re.compile(
    r"\d{1,2}:[0-5]\d(?::[0-5]\d)?(?:\s*(?:\\text\s*\{)?\s*[ap]\.?\s*m\.?\s*\}?)?", re.IGNORECASE
)


def base_numeral(text: str) -> BaseNumeral | None:
    """A numeral whose base is stated: 413_5, 413_{\\text{five}}, 413 base 5."""
    match = _BASE.fullmatch(text)
    if match is None or not re.search(r"\d", match[2]):
        return None
    base = _BASE_NAMES.get(match[3]) or int(match[3])
    digits = match[2].lstrip("0") or "0"
    digits = f"0{digits}" if digits.startswith(".") else digits
    if not 2 <= base <= 36 or any(int(digit, 36) >= base for digit in digits.replace(".", "")):
        return None
    return BaseNumeral(match[1] + digits, base)


def clock(text: str) -> Words | None:
    """A time of day, which is no ratio: 12:00, 6:30 p.m."""
    if not _CLOCK.fullmatch(text):
        return None
    letters = re.sub(r"\\text|[^0-9a-z:]", "", text.lower())
    return Words(letters)


def choice(text: str) -> tuple[str, str | None] | None:
    """The letter of a multiple choice and what stands behind it: C, (C), C. 45."""
    plain = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text).strip()
    if letter := _CHOICE.fullmatch(plain):
        return letter[1], None
    match = _CHOICE_WITH.fullmatch(plain)
    return None if match is None else (match[1] or match[2], match[3])


def is_separator(token: Token) -> bool:
    """Whether a token stands between the items of a list: a comma, a semicolon, and, or."""
    if token.type is Type.TEXT:
        return _SEPARATOR_WORDS.fullmatch(token.text) is not None
    return token.type is Type.SIGN and token.text in ",;"


def ungrouped(text: str) -> str:
    """`text` without thousands separators; in brackets a comma always separates."""
    pieces = re.split(r"((?:\\\{|[(\[]).*)", text, maxsplit=1)
    return without_separators(pieces[0]) + "".join(pieces[1:])
