"""What a row means: question, gold answer and id, in every form in which benchmarks circulate."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pipeline.answers.extract import boxes
from pipeline.benchmarks.source import Fields
from pipeline.core.errors import DataError
from pipeline.store.row_files import Row

_QUESTION = ("problem", "question", "prompt")
_ANSWER = ("answer", "final_answer", "expected_answer", "gold")
_ID = ("question_id", "unique_id", "id")
_LEVEL = ("level", "difficulty")
_SUBJECT = ("subject", "type")
_GROUPED = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_WHOLE = re.compile(r"(-?\d+)\.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question of a benchmark with its gold answer."""

    benchmark: str
    question_id: str
    """Unique within the benchmark."""
    text: str
    gold: str
    level: str | None = None
    """How hard it is, as the benchmark says."""
    subject: str | None = None


def item_of(row: Row, benchmark: str, fields: Fields, position: int, *, has_ids: bool) -> Item:
    """The item that a row holds.

    Args:
        row: field values as they were read.
        benchmark: its benchmark's name.
        fields: mapped field names.
        position: the row's place from 0 on: its id where the benchmark has none.
        has_ids: whether rows of this benchmark carry ids.

    Raises:
        DataError: naming what must hold and what came; the caller adds where.
    """
    question = _chosen(row, fields.question, _QUESTION, "question")
    if not isinstance(question, str) or not question.strip():
        raise DataError(f"a question must be text that is not empty, got {question!r}")
    question_id = str(position)
    if has_ids:
        question_id = _id_text(_chosen(row, fields.id, _ID, "id"))
    item = Item(
        benchmark=benchmark,
        question_id=question_id,
        text=question.strip(),
        gold=gold_text(_chosen(row, fields.answer, _ANSWER, "answer")),
        level=_optional(row, fields.level, _LEVEL),
        subject=_optional(row, fields.subject, _SUBJECT),
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
    return fields.id is not None or any(row.get(name) not in (None, "") for name in _ID)


def gold_text(answer: Any) -> str:
    """A gold answer as text: 27.0 is 27, a worked solution gives what stands behind ``####``.

    Raises:
        DataError: if there is no answer in it.
    """
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise DataError(f"an answer must be text or a number, got {answer!r}")
    if isinstance(answer, int):
        return str(answer)
    if isinstance(answer, float):
        if not math.isfinite(answer):
            raise DataError(f"an answer must be a finite number, got {answer!r}")
        whole = answer.is_integer()
        return str(int(answer)) if whole else format(Decimal(repr(answer)), "f")
    text = answer.rpartition("####")[2].strip()
    found = boxes(text)
    if len(found) == 1 and found[0].start == 0 and (found[0].end or 0) >= len(text) - 1:
        text = found[0].content.strip()
    if not text:
        raise DataError(f"an answer must not be empty, got {answer[-80:]!r}")
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    whole_number = _WHOLE.fullmatch(text)
    return whole_number[1] if whole_number else text


def _chosen(row: Row, mapped: str | None, usual: tuple[str, ...], what: str) -> Any:
    names = (mapped,) if mapped is not None else usual
    for name in names:
        if row.get(name) is not None:
            return row[name]
    raise DataError(f"a row must have the {what} in {' or '.join(names)}, got fields {sorted(row)}")


def _optional(row: Row, mapped: str | None, usual: tuple[str, ...]) -> str | None:
    if mapped is not None and mapped not in row:
        raise DataError(f"a row must have the field {mapped}, got fields {sorted(row)}")
    for name in (mapped,) if mapped is not None else usual:
        value = row.get(name)
        if isinstance(value, str | int | float) and str(value).strip():
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
