"""*profiles*: known verifiers by name: how each is asked, and where its score is read.

The prompts are those that the models were trained with, as their pages and published code give
them; docs/verifiers.md says what was run here. A profile is expanded into its fields before the
digest is made, so a name and the same fields are the same science, and a change here is another.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from pipeline.config.schema import check_numbers
from pipeline.core.judging import Judge
from pipeline.core.plugins import load_object
from pipeline.core.step_format import StepFormat
from pipeline.store.local import package_text, read_yaml

GROUP = "markovscale.verifier_profiles"
"""The group of entry points in which a package names its profiles."""

VerifierKind = Literal["qwen_prm", "token_pair", "one_column", "generative"]


@cache
def profiles() -> dict[str, dict[str, dict[str, Any]]]:
    """Fields of the known profiles (``profiles.yaml``), by kind and name."""
    found: dict[str, dict[str, dict[str, Any]]] = read_yaml(
        package_text("pipeline.config", "profiles.yaml")
    )
    return found


def profile_of(kind: VerifierKind, value: Any) -> StepFormat | Judge | None:
    """The profile that a configuration names or gives.

    Raises:
        ValueError: naming the field, what must hold and what came.
    """
    if value is None or isinstance(value, StepFormat | Judge):
        return value
    if isinstance(value, str):
        value = {"like": value}
    if not isinstance(value, dict):
        raise ValueError(f"must be a profile's name or its fields, got {value!r}")
    fields = dict(value)
    if (name := fields.pop("like", None)) is not None:
        fields = {**_named(kind, name), **fields}
    shape: type[Any] = Judge if kind == "generative" else StepFormat
    check_numbers(shape, fields)
    try:
        made: StepFormat | Judge = TypeAdapter(shape).validate_python(fields)
    except ValidationError as error:
        raise ValueError(_message(error)) from error
    if kind == "token_pair" and isinstance(made, StepFormat) and not (made.good and made.bad):
        raise ValueError("good and bad must be given for token_pair: the two tokens, got none")
    return made


def _named(kind: VerifierKind, name: Any) -> dict[str, Any]:
    if not isinstance(name, str):
        raise ValueError(f"like must be the name of a profile, got {name!r}")
    if name not in profiles()[kind]:
        own = load_object(name, GROUP)
        if isinstance(own, Mapping):
            return dict(own)
        if own is not None:
            raise ValueError(f"{name} must be a mapping of a profile's fields, got {own!r}")
        others = [other for other, known in profiles().items() if name in known]
        of_another = f", which is one of the kind {others[0]}" if others else ""
        raise ValueError(
            f"must be a profile of the kind {kind}: {', '.join(profiles()[kind])}, "
            f"got {name!r}{of_another}"
        )
    return profiles()[kind][name]


def _message(error: ValidationError) -> str:
    """The errors of a profile's fields, one after the other."""
    from pipeline.config.errors import described

    return "; ".join(line.removeprefix(": ") for line in described(error).splitlines())
