"""The base of every section of a configuration file: frozen, and no unknown field passes."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section: unknown fields are errors, values never change, docs stand under the fields."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=()
    )
