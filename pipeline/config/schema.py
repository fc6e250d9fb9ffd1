"""The base of every section of a configuration file: frozen, and no unknown field passes."""

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
