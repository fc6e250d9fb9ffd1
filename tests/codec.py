"""Values of the core (states, observations, statistics) to JSON text and back."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


@cache
def _adapter(cls: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


def encode(value: Any) -> str:
    """A frozen dataclass of primitives, tuples and further such dataclasses, as JSON text."""
    cls: Any = type(value)
    return _adapter(cls).dump_json(value).decode()


def decode(cls: type[T], text: str) -> T:
    """The value of class `cls` that `encode` wrote, equal to what it was.

    Raises:
        ValueError: (of pydantic) if `text` does not describe a `cls`.
    """
    wanted: Any = cls
    value: T = _adapter(wanted).validate_json(text)
    return value
