"""*Item*: reads question, gold answer and id of a row, in every form that benchmarks have."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pipeline.answers.extract import boxes, extract
from pipeline.answers.graders import ASKS_FOR_A_LETTER
from pipeline.answers.units import is_unit
from pipeline.benchmarks.fields import AnswerIs, Fields, concrete, expected, names_of, value_at
from pipeline.core.errors import DataError
from pipeline.store.row_files import Row

_GROUPED = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_WHOLE = re.compile(r"(-?\d+)\.0")
_OF_WORDS = re.compile(r"(-?\d[\d.,/:]*) \(([^\W\d_]{2}[^\W\d_ ./-]*(?:[ ./-][^\W\d_]+)*)\)")
_BLANK_NUMBER = re.compile(r"\bN_0\d\b")  # MAWPS as some distribute it, its numbers apart
_SHORT = 80  # characters of an answer that stands alone, without a worked solution
_NOTHING = ("", "nan", "none", "null", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question of a benchmark with its gold answer."""

    benchmark: str
    question_id: str
    """Unique within the benchmark."""
    text: str
    gold: str | None
    """None in a benchmark without gold answers, which is not graded."""
    level: str | None = None
    """How hard it is, as the benchmark says."""
    subject: str | None = None


def item_of(
    row: Row,
    benchmark: str,
    fields: Fields,
    position: int,
    *,
    has_ids: bool,
    has_golds: bool = True,
    seed: int = 0,
    as_it_is: bool = False,
) -> Item:
    """The item that a row holds.

    Args:
        row: field values as they were read.
        benchmark: its benchmark's name.
        fields: mapped field names.
        position: the row's place from 0 on: its id where the benchmark has none.
        has_ids: whether rows of this benchmark carry ids.
        has_golds: whether they carry gold answers.
        seed: decides the order of choices that are to be shuffled.
        as_it_is: whether gold answers are texts or programs, several in a list, not formulas.

    Raises:
        DataError: naming what must hold and what came; the caller adds where.
    """
    own = concrete(row, fields)
    question = _chosen(row, fields, own, "question")
    if not isinstance(question, str) or not question.strip():
        raise DataError(f"a question must be text that is not empty, got {question!r}")
    question = question.strip()
    if _BLANK_NUMBER.search(question):
        raise DataError(f"a question must have its numbers, got {question[:_SHORT]!r}")
    question_id = _id_text(_chosen(row, fields, own, "id")) if has_ids else str(position)
    if not has_golds and own.answer is not None:
        raise DataError(f"all rows must have gold answers or none, got one in {own.answer}")
    answer = _chosen(row, fields, own, "answer") if has_golds else None
    listed = _choices(row, own) if has_golds else None
    gold: str | None
    if not has_golds:
        gold = None
    elif as_it_is:
        gold = _gold_as_it_is(answer)
    elif listed is None:
        gold = _with_unit(_gold(answer, own), _optional(row, own.unit))
    else:
        labels, texts = choices_of(listed)
        right = right_choice(answer, labels, texts, own.answer_is)
        order = shuffled(len(texts), seed, question_id) if own.shuffle else range(len(texts))
        question = with_choices(question, [texts[place] for place in order])
        gold = LETTERS[list(order).index(right)]
    item = Item(
        benchmark=benchmark,
        question_id=question_id,
        text=question,
        gold=gold,
        level=_optional(row, own.level, fields.level),
        subject=_optional(row, own.subject, fields.subject),
    )
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        if isinstance(value, str) and not _is_text(value):
            raise DataError(f"{field.name} must be text, got half a character in {value[:80]!r}")
    return item


def _is_text(value: str) -> bool:
    """Whether any file can hold it: a lone surrogate, half of a pair in JSON, is no character."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def has_id(row: Row, fields: Fields) -> bool:
    """Whether a row carries an id."""
    return concrete(row, fields).id is not None


def has_gold(row: Row, fields: Fields) -> bool:
    """Whether a row carries a gold answer, or should by the mapping."""
    own = concrete(row, fields)
    named = {name.lower() for name in row} & set(expected("answer").split(" or "))
    return bool(own.answer or own.choices or named)


def gold_text(answer: Any) -> str:
    """A gold answer as text: 27.0 is 27, a worked solution gives its last box or what stands behind
    ``####``, and ``9 (apples)`` is 9.

    Raises:
        DataError: if there is no answer in it.
    """
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if isinstance(answer, bool) or not isinstance(answer, str | int | float | Decimal):
        texts = isinstance(answer, bool | list)
        cure = ": grader: {kind: text} reads true and false, and lists of accepted answers"
        raise DataError(
            f"an answer must be text or a number, got {answer!r}{cure if texts else ''}"
        )
    if isinstance(answer, int):
        return str(answer)
    if isinstance(answer, float | Decimal):
        if not math.isfinite(answer):
            raise DataError(f"an answer must be a finite number, got {answer!r}")
        exact = Decimal(repr(answer)) if isinstance(answer, float) else answer
        return str(int(exact)) if exact == exact.to_integral_value() else f"{exact.normalize():f}"
    _, hashes, behind = answer.rpartition("####")
    text = behind.rstrip().lstrip(" \n")  # a tab may be what an escape made of \\tan
    if any(box.end is not None for box in boxes(text)):
        text = (extract(text) or "").strip()
    if len(text) > 1 and text[0] == text[-1] == "$" and "$" not in text[1:-1]:
        text = text[1:-1].strip()
    if not text:
        raise DataError(f"an answer must not be empty, got {answer[-80:]!r}")
    if _GROUPED.fullmatch(text) and (hashes or text.count(",") > 1):
        text = text.replace(",", "")  # "24,112" may as well be the answer to two blanks
    parts = [_OF_WORDS.fullmatch(part.strip()) for part in text.split(";")]
    if all(part and not is_unit(part[2].partition(" of ")[0]) for part in parts):
        text = ", ".join(part[1] for part in parts if part)
    whole_number = _WHOLE.fullmatch(text)
    return whole_number[1] if whole_number else text


def _gold(answer: Any, fields: Fields) -> str:
    """The gold answer of a row without choices."""
    if isinstance(answer, str):
        if answer.strip().lower() == "nan":
            raise DataError(f"an answer must be given, got {answer!r}")
        short = len(answer) <= _SHORT and "\n" not in answer.strip()
        worked = (fields.answer or "").rpartition(".")[2].lower() == "solution"
        if worked and not short and "####" not in answer and not boxes(answer):
            raise DataError(
                "a worked solution must give its answer in \\boxed{} or behind ####, "
                f"got {answer[-_SHORT:]!r}"
            )
    return gold_text(answer)


def _gold_as_it_is(answer: Any) -> str:
    """A gold answer that is text; several, or one with its aliases, as a JSON list."""
    if isinstance(answer, dict):
        answer = [answer.get("value"), *(answer.get("aliases") or ())]
    if isinstance(answer, bool):
        return "true" if answer else "false"
    if isinstance(answer, list) and answer:
        texts = [str(each).strip() for each in dict.fromkeys(answer) if each is not None]
        return texts[0] if len(texts) == 1 else json.dumps(texts, ensure_ascii=False)
    if not isinstance(answer, str | int | float | Decimal) or not str(answer).strip():
        raise DataError(f"an answer must be text, or a list of texts, got {answer!r}")
    return str(answer).strip()


def _with_unit(gold: str, unit: str | None) -> str:
    """A gold answer with the unit that stands in a field of its own."""
    stated = (unit or "").replace("$", "").strip()
    is_list = "," in gold or ";" in gold
    if is_list or stated.lower() in _NOTHING:
        return gold
    return f"{gold} \\times {stated}" if stated.startswith("10^") else f"{gold} {stated}"


def _choices(row: Row, own: Fields) -> Any:
    """What a row says of its choices; None where it has none."""
    if own.choices is None:
        return None
    if isinstance(own.choices, str):
        value = value_at(row, own.choices)
        if value is None:
            raise DataError(f"a row must have the choices in {own.choices}, got {sorted(row)}")
        return value
    return [value_at(row, name) for name in own.choices]


def _chosen(row: Row, mapped: Fields, own: Fields, what: str) -> Any:
    name = getattr(own, what)
    value = None if name is None else value_at(row, name)
    if value is not None:
        return value
    names = getattr(mapped, what) or expected(what)
    empty = sorted(key for key in row if key.lower() in str(names).lower().split(" or "))
    if empty or (name in row):
        raise DataError(f"a row must have the {what} in {names}, got null in {', '.join(empty)}")
    raise DataError(
        f"a row must have the {what} in {names}, got fields {sorted(row)}: name yours, "
        f"fields: {{{what}: COLUMN}}"
    )


def _optional(row: Row, name: str | None, mapped: str | None = None) -> str | None:
    value = None if name is None else value_at(row, name)
    if mapped is not None and value is None and mapped not in row:
        raise DataError(f"a row must have the field {mapped}, got fields {sorted(row)}")
    if isinstance(value, str | int | float | Decimal) and str(value).strip():
        return str(value).strip()
    return None


def _id_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise DataError(f"an id must be a number or text that is not empty, got {value!r}")
    text = str(value).strip()
    if len(text) > 500:
        raise DataError(f"an id must have at most 500 characters, got {len(text)}")
    return text


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
    options = [str(text).strip() for text in texts]
    marks = [_LABEL.match(text) for text in options]
    if all(mark and mark[1].upper() == LETTERS[i] for i, mark in enumerate(marks)):
        options = [
            text[mark.end() :].strip() for text, mark in zip(options, marks, strict=True) if mark
        ]
    return [str(label) for label in labels[: len(options)]] or list(
        LETTERS[: len(options)]
    ), options


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
