"""Text from outside: cleans it for files and terminals."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

_NO_WIDTH = (0x00AD, 0x061C, 0x180E, 0xFEFF, *range(0x200B, 0x2010), *range(0x2060, 0x2070))
_HIDDEN = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n\r"},
    0x7F: "\N{SYMBOL FOR DELETE}",
    **{
        code: f"[U+{code:04X}]" for code in (*range(0x80, 0xA0), *range(0x2028, 0x202F), *_NO_WIDTH)
    },
}
"""Control characters, those without width, and those that change the direction of what follows."""


NOT_RECORDED = "(not recorded)"
"""What stands for a question, or a reference answer, that an imported log does not have."""


def encodable(text: str) -> str:
    """Text as any file can hold it: what is no character (a lone surrogate) becomes ``?``."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def visible(text: str) -> str:
    """Text in which no character hides, moves or changes others; see also `encodable`."""
    return encodable(text).translate(_HIDDEN)


def one_line(text: str, most: int | None = None) -> str:
    """`visible` text on one line; cut after `most` characters."""
    words = visible(" ".join(text.split()))
    return words if most is None or len(words) <= most else f"{words[:most]} ..."


def folded(text: str) -> str:
    """A text with every run of white space as one space."""
    return " ".join(text.split())


def has_content(text: str) -> bool:
    """Whether a text has a letter or a digit; ``-`` stands where a question's text is not known."""
    return any(sign.isalnum() for sign in text)


def copies_of(asked: Iterable[tuple[K, str]]) -> dict[K, K]:
    """The first question with the same text, by the key of each later one; texts that were not
    recorded are copies of none."""
    first: dict[str, K] = {}
    found = {}
    for key, text in asked:
        if has_content(text) and text != NOT_RECORDED:
            earlier = first.setdefault(folded(text), key)
            if earlier != key:
                found[key] = earlier
    return found
