"""The base of every section of a configuration file: frozen, and no unknown field passes."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator


def check_numbers(kind: Any, value: Any, place: str = "") -> None:
    """Refuse what pydantic would turn into a number: ``true`` into 1, ``nan`` into no number.

    Args:
        kind: the declared type; what it holds is checked as well.
        value: as it was read.
        place: dotted place of a value below that of the message, with a blank at its end.

    Raises:
        ValueError: naming the place below `value`, what must hold and what came.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        check_numbers(inner[0], value, place)
    elif origin in (Union, types.UnionType):
        if not (isinstance(value, bool) and bool in inner):
            for one in inner:
                check_numbers(one, value, place)
    elif kind in (int, float):
        if isinstance(value, bool):
            raise ValueError(f"{place}must be a number, got {str(value).lower()}")
        if not _finite(value):
            raise ValueError(f"{place}must be a finite number, got {value}")
        if kind is int and _long(value):
            raise ValueError(f"{place}must have at most 64 bits, got {value:.20}...")
    elif isinstance(value, dict):
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            for name, type_ in _fields(kind).items():
                check_numbers(type_, value.get(name), f"{place.rstrip()}.{name} ".lstrip("."))
        elif origin is dict:
            for name, item in value.items():
                check_numbers(inner[1], item, f"{place.rstrip()}.{name} ".lstrip("."))
    elif isinstance(value, list) and origin in (list, tuple):
        kinds = inner if origin is tuple and ... not in inner else inner[:1] * len(value)
        for number, (one, item) in enumerate(zip(kinds, value, strict=False)):
            check_numbers(one, item, f"{place.rstrip()}.{number} ".lstrip("."))


@cache
def _fields(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}


def _finite(value: Any) -> bool:
    """Also of text, which pydantic reads as a number where one must stand."""
    if not isinstance(value, float | str):
        return True
    try:
        return math.isfinite(float(value))
    except ValueError:
        return True  # the field says what it must be


def _long(value: Any) -> bool:
    """Of text; a number of a YAML file has that checked where it is read."""
    try:
        return isinstance(value, str) and abs(float(value)) > 2**63 - 1
    except ValueError:
        return False


class Section(BaseModel):
    """A section: unknown fields are errors, values never change, docs stand under the fields."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=()
    )

    former: ClassVar[frozenset[str]] = frozenset()
    """Fields of earlier versions; they are ignored, so that recorded configurations can be read."""

    @model_validator(mode="before")
    @classmethod
    def _without_former(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and not cls.former.isdisjoint(values):
            return {name: value for name, value in values.items() if name not in cls.former}
        return values

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        check_numbers(cls.model_fields[info.field_name or ""].annotation, value)
        return value


def former_fields(section: Section, values: Any, where: str = "") -> Iterator[str]:
    """The dotted names of former fields among the values that a section was made of."""
    for name, value in values.items() if isinstance(values, Mapping) else ():
        inner = getattr(section, str(name), None)
        if name in section.former:
            yield f"{where}{name}"
        elif isinstance(inner, Section):
            yield from former_fields(inner, value, f"{where}{name}.")


def short_form(value: Any) -> Any:
    """An entry with its own fields beside ``kind`` and ``label``, or its kind alone, in full:
    ``{kind: esc, n: 8}`` is ``{kind: esc, fields: {n: 8}}``; anything else stays as it is."""
    entry = {"kind": value} if isinstance(value, str) else value
    if not isinstance(entry, dict):
        return entry
    known = {name: entry[name] for name in ("kind", "label") if name in entry}
    own = {k: v for k, v in entry.items() if k not in ("kind", "label", "fields")}
    return {**known, "fields": merged_fields(entry, own)}


def merged_fields(entry: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
    """The ``fields`` of an entry and those that stand beside them; what is no mapping stays as it
    is, for the section to refuse it."""
    fields = entry.get("fields", {})
    return {**fields, **own} if isinstance(fields, Mapping) else fields
