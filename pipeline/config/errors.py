"""Validation errors as messages about the fields of the YAML file."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError


def described(
    error: ValidationError, where: str = "", places: Mapping[str, str] | None = None
) -> str:
    """One line an error: the field, what must hold, what came.

    Args:
        where: dotted place of the validated value.
        places: other places for fields that were set elsewhere, by name.
    """
    lines = []
    for item in error.errors(include_url=False):
        location = [str(part) for part in item["loc"]]
        name = ".".join(([where] if where else []) + location)
        if places and location and location[0] in places:
            name = places[location[0]]
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            lines.append(f"{name} is not a field of this section")
        elif item["type"] == "missing":
            lines.append(f"{name} must be given")
        elif ", got " in message:
            lines.append(f"{name}: {message}")
        else:
            lines.append(f"{name}: {message[0].lower()}{message[1:]}, got {item['input']!r}")
    return "\n".join(lines)
