"""The base of every section of a configuration file: frozen, and no unknown field passes."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from pipeline.config.numbers import check_numbers


class Section(BaseModel):
    """A section: unknown fields are errors, values never change, docs stand under the fields."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=()
    )

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        check_numbers(cls.model_fields[info.field_name or ""].annotation, value)
        return value


def merged_fields(entry: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
    """The ``fields`` of an entry and those that stand beside them; what is no mapping stays as it
    is, for the section to refuse it."""
    given = entry.get("fields", {})
    return {**given, **own} if isinstance(given, Mapping) else given
