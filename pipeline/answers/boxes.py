"""Boxes of a reply, ``\\boxed{...}``: where they stand, and what they hold."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BOX = re.compile(r"(?:\\(?:boxed|fbox)|\x08oxed|(?<![\\A-Za-z])boxed)(?=[ \t]{0,4}(\{)?)")
_BRACE = re.compile(r"\\[\\{}]|[{}]")
_BARE_BOX = re.compile(r"[ \t]{1,4}(\d[\d.,]{0,40}|[A-Za-z])(?![A-Za-z])")
_JOINT = re.compile(
    r"(?:[\s$,;]|\\[()\[\],;]|\\q?quad\b|\\text\{\s*(?:and|or)\s*\}|\b(?:and|or)\b"
    r"|\b[A-Za-z](?:_\{?\w\}?)?\s*=)*"
)


@dataclass(frozen=True, slots=True)
class Box:
    """One box, from its backslash to its closing brace."""

    start: int
    end: int | None  # None where the box never closes
    content: str


def last_box(text: str) -> str | None:
    """The content of the last complete box of `text`, whatever stands around it."""
    complete = [box for box in boxes(text) if box.end is not None]
    return complete[-1].content if complete else None


def boxes(text: str) -> list[Box]:
    """The outermost boxes of `text` in order; a box that never closes has no end."""
    first = min((at for at in map(text.find, ("oxed", "fbox")) if at >= 0), default=None)
    if first is None:
        return []
    first = max(0, first - len("\\b"))
    closing = _matching_braces(text, first)
    found: list[Box] = []
    reach = 0
    for match in _BOX.finditer(text, first):
        if match.start() < reach:
            continue  # inside the box before
        if match[1] is not None:
            opening = match.start(1)
            end = closing.get(opening)
            if end is None and _BOX.search(text, opening):
                continue  # never closed, but the reply goes on to another box
            content = text[opening + 1 : end]
            found.append(Box(match.start(), end, content))
            reach = len(text) if end is None else end
        elif bare := _BARE_BOX.match(text, match.end()):
            found.append(Box(match.start(), bare.end(), bare[1].rstrip(".,")))
            reach = bare.end()
    return found


def _matching_braces(text: str, first: int) -> dict[int, int]:
    """Position of the closing brace for each opening one from `first` on that has it."""
    stack: list[int] = []
    closing: dict[int, int] = {}
    for match in _BRACE.finditer(text, first):
        if match[0] == "{":
            stack.append(match.start())
        elif match[0] == "}" and stack:
            closing[stack.pop()] = match.start()
    return closing


def boxed_answer(reply: str, found: list[Box]) -> str | None:
    """The content of the last box, with those before it in one sentence as a list; None where the
    last one never closes."""
    if found[-1].end is None:
        return None
    filled = [box for box in found if box.content.strip()]
    joined = [filled[-1].content.strip(" \n")]
    for earlier, later in zip(filled[-2::-1], filled[:0:-1], strict=True):
        between = reply[(earlier.end or 0) + 1 : later.start]
        if len(between) > 40 or not re.search(r"[,;]|and|or", between):
            break
        if not _JOINT.fullmatch(between):
            break
        content = earlier.content.strip(" \n")
        if content not in joined:
            joined.insert(0, content)
    return ", ".join(joined)
