"""*Fields*: maps the fields of a row: names, nested names, and texts joined from several fields."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias

from pipeline.core.errors import DataError

AnswerIs: TypeAlias = Literal["letter", "index", "number", "text"]

_PART = re.compile(r"\{([^{}]+?)(\?)?\}")
_USUAL: dict[str, tuple[str, ...]] = {
    "question": ("problem", "question", "prompt", "problem_text", "input"),
    "answer": (
        "answer", "final_answer", "expected_answer", "gold", "answer_number", "target", "result",
        "solution",
    ),
    "id": ("question_id", "unique_id", "id"),
    "level": ("level", "difficulty"),
    "subject": ("subject", "type"),
    "choices": ("choices", "options"),
    "unit": ("unit", "units"),
}  # fmt: skip
_BEFORE_QUESTION = "body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Where a row holds what; None means the usual names are tried, in any case of letters.

    A name may be nested (``doc.problem``), or a text with names in braces that is filled in:
    ``"{Body} {Question}"``; ``{context?}`` may be absent or empty.
    """

    question: str | None = None
    """Else ``problem``, ``question``, ``prompt``, ``problem_text`` or ``input``; the first of them
    that the row has, behind its ``body`` if there is one."""
    answer: str | None = None
    """Else ``answer``, ``final_answer``, ``expected_answer``, ``gold``, ``answer_number``,
    ``target``, ``result`` or ``solution`` (whose last box or ``####`` line is the answer)."""
    id: str | None = None
    """Else ``question_id``, ``unique_id`` or ``id``; without any, the position from 0 on."""
    level: str | None = None
    """Else ``level`` or ``difficulty``; may be absent."""
    subject: str | None = None
    """Else ``subject`` or ``type``; may be absent."""
    choices: str | tuple[str, ...] | None = None
    """The choices of a question, which are put into its prompt: one field with all of them, or one
    a choice. Else ``choices`` or ``options``, where that holds several; may be absent."""
    answer_is: AnswerIs | None = None
    """How the answer names a choice: its letter, its index from 0, its number from 1, or its own
    text; None decides by the row, and refuses what is ambiguous."""
    shuffle: bool = False
    """Whether choices are put into a random order that the benchmark's seed and the question's id
    decide: needed where the right one is always the first."""
    unit: str | None = None
    """A field with the unit of the answer, put behind it; else ``unit`` or ``units``; may be
    absent."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    @property
    def named(self) -> tuple[str, ...]:
        """Names of a row's fields that must be there for this mapping to be meant."""
        texts = (self.question, self.answer)
        choices = (self.choices,) if isinstance(self.choices, str) else (self.choices or ())
        return tuple(
            name for text in (*texts, *choices) if text for name, maybe in _parts(text) if not maybe
        )


def meant(row: Mapping[str, Any], mappings: Sequence[Fields]) -> Fields:
    """The first of a known benchmark's mappings that fits a row, without what the row lacks; the
    usual names where none does."""
    for fields in mappings:
        if all(_nested(row, name) is not None or name in row for name in fields.named):
            lacking: dict[str, Any] = {
                what: None
                for what in ("id", "level", "subject", "unit")
                if (name := getattr(fields, what)) is not None and name not in row
            }
            return replace(fields, **lacking)
    return Fields()


def over(known: Fields, own: Fields) -> Fields:
    """A known mapping with what the user set himself in its place."""
    changed = {
        field.name: value
        for field in dataclasses.fields(Fields)
        if (value := getattr(own, field.name)) != field.default
    }
    return replace(known, **changed)


def concrete(row: Mapping[str, Any], fields: Fields) -> Fields:
    """`fields` with the usual names that `row` has in place of None; None where it has none."""
    chosen: dict[str, Any] = {}
    for what, usual in _USUAL.items():
        if getattr(fields, what) is None:
            chosen[what] = _usual(row, usual, what)
    body = _usual(row, (_BEFORE_QUESTION,), "question")
    if fields.question is None and chosen["question"] is not None and body is not None:
        chosen["question"] = f"{{{body}?}} {{{chosen['question']}}}"
    return replace(fields, **chosen)


def expected(what: str) -> str:
    """The usual names of something, in words."""
    return " or ".join(_USUAL[what])


def in_words(row: Mapping[str, Any], fields: Fields) -> str:
    """Which fields of a row are read as what, and which are not read."""
    own = concrete(row, fields)
    read = [
        f"{what} from {name if isinstance(name, str) else ', '.join(name)}"
        for what in _USUAL
        if (name := getattr(own, what)) is not None
    ]
    named = names_of(own)
    known = named | {name.partition(".")[0] for name in named}
    unread = [name for name in row if name not in known]
    return "; ".join([*read, *([f"not read: {', '.join(unread)}"] if unread else [])])


def names_of(fields: Fields) -> set[str]:
    """The row's own fields that a mapping reads."""
    texts = [getattr(fields, what) for what in _USUAL]
    flat = [name for text in texts for name in ((text,) if isinstance(text, str) else text or ())]
    return {name for text in flat for name, _ in _parts(text)}


def value_at(row: Mapping[str, Any], text: str) -> Any:
    """What a mapped name or text gives for a row; None where it is not there.

    Raises:
        DataError: for a joined text of which a part is missing.
    """
    if text in row:
        return row[text]
    if "{" not in text:
        return _nested(row, text)
    parts = []
    for name, may_miss in _parts(text):
        value = row[name] if name in row else _nested(row, name)
        if value is None or (isinstance(value, str) and not value.strip()):
            if not may_miss:
                raise DataError(f"a row must have {name} for {text!r}, got fields {sorted(row)}")
            value = ""
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = "\n".join(value)
        parts.append(str(value).strip())
    filled = iter(parts)
    return _PART.sub(lambda _: next(filled), text).strip()


def _parts(text: str) -> list[tuple[str, bool]]:
    found = [(match[1], bool(match[2])) for match in _PART.finditer(text)]
    return found or [(text, False)]


def _nested(row: Mapping[str, Any], name: str) -> Any:
    value: Any = row
    for part in name.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, Sequence) and not isinstance(value, str) and part.isdigit():
            value = value[int(part)] if int(part) < len(value) else None
        else:
            return None
    return value


def _usual(row: Mapping[str, Any], names: tuple[str, ...], what: str) -> str | None:
    """The first of `names` under which `row` holds something."""
    own = {name.lower(): name for name in reversed(list(row))} | {name: name for name in row}
    for name in names:
        value = row.get(own.get(name, ""))
        several = isinstance(value, list | dict | str) and len(value) > 1
        if value is None or (what == "id" and value == "") or (what == "choices" and not several):
            continue
        return own[name]
    return None
