"""Words around an answer in a sentence that do not change it: "therefore 12", "he has 12 left"."""

from __future__ import annotations

import re

_ADVERBS = (
    "therefore|thus|hence|then|so|simply|clearly|obviously|just|still|exactly|precisely|about|around"
    "|approximately|roughly|actually|also|only|now|always|indeed|again|finally|equal to|given by"
    r"|(?:found|calculated|determined) to be|(?:a|the) total of|(?:the )?number|that"
)
_SUBJECT = (
    r"(?:he|she|it|they|we|you|there|(?-i:[A-Z][a-z]+)) (?:now )?(?:will )?(?:has|have|had|is|are"
    "|was|were|be|needs?|gets?|got|pays?|paid|earns?|earned|makes?|made|spends?|spent|sold|bought)"
)
_BEFORE = re.compile(
    rf"[,:]?[ \t]*(?:\b(?:(?:{_ADVERBS})|{_SUBJECT})\b[,:]?[ \t]+"
    r"|(?:[a-z]+[ \t]){0,3}[a-z]{2,}:[ \t]+)+(?=[$\\(]|[-+]?\.?\d)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?:[-*•]|1[.)])[ \t]+(?=\S)")
_CLOSING = re.compile(r"(?<=\w)\*\*(?=[\s.,;:]|$)")


def without_fillers(clause: str) -> str:
    """A clause from its value on, where nothing before that changes it: "at least 12" stays."""
    found = _BEFORE.match(clause)
    return clause[found.end() :] if found else clause


def without_bullet(line: str) -> str:
    """The only line of a list."""
    return line if "\n" in line else _BULLET.sub("", line, count=1)


def without_closing(text: str) -> str:
    """Text whose opening ``**`` was read already."""
    return _CLOSING.sub("", text, count=1) if text.count("**") == 1 else text
