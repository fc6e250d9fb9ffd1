"""Validation errors as messages about the fields of the YAML file."""

from __future__ import annotations

import dataclasses
import difflib
import types
from collections.abc import Mapping, Sequence
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError

from pipeline.strategies import STRATEGIES

_MANY = 20
_LONG = 200
_USUALLY = {"file": "path", "filename": "path", "dataset": "hf_dataset"}
"""Names that others have for a field, and that look like another one."""


def described(
    error: ValidationError,
    where: str = "",
    places: Mapping[str, str] | None = None,
    root: type | None = None,
) -> str:
    """One line an error: the field, what must hold, what came.

    Args:
        where: dotted place of the validated value.
        places: other places for fields that were set elsewhere, by name.
        root: the validated type, whose fields are named where one is misspelt.
    """
    lines = []
    found = error.errors(include_url=False)
    for item in found:
        if item["type"] == "too_short" and _has_within(found, item["loc"]):
            continue  # an item of it was refused, and says so itself
        location = [str(part) for part in item["loc"]]
        name = ".".join(([where] if where else []) + location)
        if places and location and location[0] in places:
            name = places[location[0]]
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            names = _fields_at(root, item["loc"][:-1])
            lines.append(
                f"{name} is not a field of this section{_instead(location[-1], names)}"
                f"{_elsewhere(location) if root is not None else ''}"
            )
        elif item["type"] == "tuple_type":  # what YAML calls a list
            lines.append(f"{name} must be a list, got {item['input']!r}")
        elif item["type"] == "missing":
            lines.append(f"{name} must be given")
        elif ", got " in message and not message.startswith("Input should"):
            lines.append(f"{name}: {message}")
        else:
            lines.append(f"{name}{_must(item, message)}, got {_short(item['input'])}")
    return "\n".join(lines)


_KINDS = {
    "model": "a section with fields",
    "dataclass": "a section with fields",
    "dict": "a section with fields",
    "mapping": "a section with fields",
    "list": "a list",
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}
"""What a value must be, by the first word of pydantic's type of error."""


def _must(item: Any, message: str) -> str:
    """What must hold, in words of a configuration file instead of pydantic's."""
    kind, _, rest = item["type"].partition("_")
    if item["type"] == "too_short":
        return f" must have at least {item['ctx']['min_length']} item"
    if kind in _KINDS and rest in ("type", "parsing", "from_float", "attributes_type"):
        return f" must be {_KINDS[kind]}"
    if message.startswith("Input should be "):
        return f" must be {message.removeprefix('Input should be ')}"
    return f": {message[0].lower()}{message[1:]}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."


def _has_within(found: Sequence[Any], place: tuple[Any, ...]) -> bool:
    return any(len(e["loc"]) > len(place) and e["loc"][: len(place)] == place for e in found)


def _instead(name: str, names: Sequence[str]) -> str:
    """What may have been meant, and every name there is, unless these are too many to read."""
    usual = _USUALLY.get(name)
    near = [usual] if usual in names else difflib.get_close_matches(name, names, n=1)
    meant = f", did you mean {near[0]}?" if near else ""
    if not names or (near and len(names) > _MANY):
        return meant
    return f"{meant or ','} {'it' if near else 'which'} has {', '.join(names)}"


def _elsewhere(location: Sequence[str]) -> str:
    """Where a field of strategies belongs that was set at the top of a run's configuration."""
    known = {field.name for made in STRATEGIES.values() for field in dataclasses.fields(made)}
    if len(location) > 1 or location[0] not in known:
        return ""
    return f"; strategies have it: science.strategy.{location[0]}"


def _fields_at(kind: Any, place: Sequence[Any]) -> list[str]:
    """Fields of the section at a place below a type; none where it is no section."""
    for part in place:
        kind = _section(kind)
        if isinstance(part, int):
            kind = get_args(kind)[0] if get_args(kind) else None
        else:
            hints = get_type_hints(kind) if isinstance(kind, type) else {}
            kind = hints.get(part)
    kind = _section(kind)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
    return list(kind.model_fields) if is_model else []


def _section(kind: Any) -> Any:
    """The section in ``Section | None``."""
    if get_origin(kind) in (Union, types.UnionType):
        kinds = [one for one in get_args(kind) if one is not type(None)]
        return kinds[0] if kinds else None
    return kind
