"""Multiple choice: the choices of a row, their order, and the letter of the right one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.answers.graders import ASKS_FOR_A_LETTER
from pipeline.benchmarks.fields import AnswerIs, Fields, concrete, names_of
from pipeline.core.errors import DataError

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LABEL = re.compile(r"\s*\(?([A-Za-z])\s?[).:]\s*")
_IN_TEXT = re.compile(r"(?:^|[\s,;])\(?([A-Za-z])\s?[).:]\s")
_LETTER = re.compile(r"\s*\(?([A-Z])\)?(?:[.:)].*)?\s*", re.DOTALL)


def choices_of(value: Any) -> tuple[list[str], list[str]]:
    """Labels and texts of a row's choices, in their order.

    A list of texts (``A)`` in front of each is taken off), a mapping from labels to texts, a
    mapping with ``label`` and ``text`` lists, or one text ``A) 3 B) 4``.

    Raises:
        DataError: if there are not at least two.
    """
    labels: list[Any] = []
    texts: list[Any] = []
    match value:
        case {"text": [*texts], "label": [*labels]}:
            pass
        case Mapping():
            labels, texts = list(value), list(value.values())
        case str():
            texts = _split(value)
        case Sequence():
            texts = list(value)
    while texts and texts[-1] in (None, "", "N/A"):
        del texts[-1]
    if not 2 <= len(texts) <= len(LETTERS) or any(
        isinstance(text, bool) or not isinstance(text, str | int | float) or not str(text).strip()
        for text in texts
    ):
        raise DataError(f"choices must be 2 to {len(LETTERS)} texts, got {value!r}")
    said = [str(text).strip() for text in texts]
    marks = [_LABEL.match(text) for text in said]
    if all(mark and mark[1].upper() == LETTERS[i] for i, mark in enumerate(marks)):
        said = [text[mark.end() :].strip() for text, mark in zip(said, marks, strict=True) if mark]
    return [str(label) for label in labels[: len(said)]] or list(LETTERS[: len(said)]), said


def right_choice(
    answer: Any, labels: Sequence[str], texts: Sequence[str], answer_is: AnswerIs | None
) -> int:
    """Position of the choice that an answer names.

    Raises:
        DataError: if it names none, or may name two.
    """
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    text = str(answer).strip() if isinstance(answer, str | int) and answer is not True else ""
    letter = _LETTER.fullmatch(text)
    number = int(text) if re.fullmatch(r"\d{1,2}", text) else None
    by: dict[str, int | None] = {
        "letter": _position(labels, text) if text in labels else _letter(letter, texts),
        "index": number if number is not None and number < len(texts) else None,
        "number": number - 1 if number is not None and 1 <= number <= len(texts) else None,
        "text": _position(texts, text),
    }
    if answer_is is not None:
        possible = {by[answer_is]} - {None}
    elif isinstance(answer, int):
        possible = {by["index"]} - {None}
    elif text in labels and list(labels) != list(LETTERS[: len(labels)]):
        possible = {by["letter"]}  # labels of the row's own
    else:
        possible = {by[way] for way in ("letter", "text")} - {None}
        if number is not None:
            possible |= {by["index"]} - {None}
    if len(possible) > 1:
        raise DataError(
            f"an answer must name one choice, got {answer!r}, which is the text of one and the "
            "place of another: set fields.answer_is to letter, index, number or text"
        )
    if not possible:
        how = f" as {answer_is}" if answer_is else ""
        raise DataError(
            f"an answer must name one of the choices {list(texts)}{how}, got {answer!r}"
        )
    (position,) = possible
    assert position is not None
    return position


def looks_like_a_choice(row: Mapping[str, Any], fields: Fields, gold: str, question: str) -> bool:
    """Whether a gold answer seems to name one of choices that the question does not show.

    It does where it is a small number or a letter and the row has a list of several texts, or
    fields A, B, C, that are not read; and where it is a letter and the question has no ``A)``.
    """
    own = concrete(row, fields)
    is_letter = re.fullmatch(r"\(?[A-J]\)?", gold) is not None
    if own.choices is not None or not (is_letter or re.fullmatch(r"\d", gold)):
        return False
    unread = {name: value for name, value in row.items() if name not in names_of(own)}
    several = any(
        isinstance(value, list | dict)
        and 2 <= len(value) <= len(LETTERS)
        and (is_letter or int(gold) <= len(value))
        for value in unread.values()
    )
    lettered = {"a", "b", "c"} <= {re.split(r"[ _]", name.lower())[-1] for name in unread}
    return several or lettered or (is_letter and not _IN_TEXT.search(question))


def shuffled(count: int, seed: int, question_id: str) -> list[int]:
    """The order of a question's choices, the same for the same seed and id."""

    def key(position: int) -> bytes:
        return hashlib.sha256(f"choices\x1f{seed}\x1f{question_id}\x1f{position}".encode()).digest()

    return sorted(range(count), key=key)


def with_choices(question: str, texts: Sequence[str]) -> str:
    """A question with its lettered choices, and what is to be answered."""
    listed = "\n".join(f"{letter}) {text}" for letter, text in zip(LETTERS, texts, strict=False))
    return f"{question}\n\n{listed}\n\n{ASKS_FOR_A_LETTER}"


def _split(text: str) -> list[str]:
    """The choices in one text, where their letters follow each other from A on."""
    starts: list[re.Match[str]] = []
    for match in _IN_TEXT.finditer(text):
        if match[1].upper() == LETTERS[len(starts) % len(LETTERS)]:
            starts.append(match)
    ends = [match.start() for match in starts[1:]] + [len(text)]
    return [text[a.end() : b].strip(" ,;\n") for a, b in zip(starts, ends, strict=True)]


def _letter(letter: re.Match[str] | None, texts: Sequence[str]) -> int | None:
    position = LETTERS.index(letter[1]) if letter else len(texts)
    return position if position < len(texts) else None


def _position(texts: Sequence[str], text: str) -> int | None:
    return texts.index(text) if text and text in texts else None
