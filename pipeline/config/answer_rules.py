"""Users' own answer rules in a configuration: the place of their code, names of their columns."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pydantic import Field, ValidationError, field_validator, model_validator

from pipeline.answers.answer_rules import GROUP, AnswerRule, OwnRule
from pipeline.config.schema import Section, short_form
from pipeline.core.plugins import is_import_path, names_of, short_name

DEFAULT = "default"
"""The headline rule that is each strategy's own."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


class AnswerRuleEntry(Section):
    """An answer rule of one's own; its code is not imported to read a configuration."""

    kind: str
    """``package.module:name`` of a function or class, or an entry point's name."""
    label: str = ""
    """Names its columns (``answer_LABEL``); by default the name of the function."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """Fields of a class."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        """``early.rules:first_twice`` and ``{kind: early.rules:Twice, times: 3}`` too."""
        entry = short_form(value)
        if isinstance(entry, dict):
            entry["label"] = entry.get("label") or short_name(str(entry.get("kind", "")))
        return entry

    @field_validator("label")
    @classmethod
    def _names_columns(cls, label: str) -> str:
        if not _NAME.fullmatch(label):
            raise ValueError(
                "an answer rule must have a label of at most 40 letters, digits and _, since it "
                f"names columns, got {label!r}: write package.module:name, or give it a label"
            )
        if label.lower() in {DEFAULT, *AnswerRule}:
            raise ValueError(
                f"an answer rule must have a label of its own, got {label!r}, which is shipped"
            )
        return label

    @property
    def rule(self) -> OwnRule:
        """The rule that it stands for."""
        return OwnRule(self.label, self.kind, json.dumps(self.fields, sort_keys=True))


def check_labels(rules: Sequence[OwnRule]) -> None:
    """Refuse two rules whose columns would be the same, also where case is ignored.

    Raises:
        ValueError: naming both.
    """
    seen: dict[str, OwnRule] = {}
    for rule in rules:
        other = seen.setdefault(rule.value.lower(), rule)
        if other is not rule:
            raise ValueError(
                f"answer rules must have different labels, got {other.value!r} of {other.kind} "
                f"and {rule.value!r} of {rule.kind}: give one a label"
            )


def listed(values: Any) -> Any:
    """The values of a science section whose headline rule is named by its label: one that is given
    by its place, its entry point or its fields is put among the own rules."""
    headline = values.get("answer_rule") if isinstance(values, dict) else None
    if not isinstance(headline, str | dict) or headline in [DEFAULT, *AnswerRule]:
        return values  # the field says what it must be
    entries = values.get("answer_rules") or []
    try:
        own = [AnswerRuleEntry.model_validate(entry) for entry in entries]
    except ValidationError:
        return values  # the list says what is wrong with it
    if headline in [entry.label for entry in own]:
        return values
    if (
        isinstance(headline, str)
        and not is_import_path(headline)
        and headline not in names_of(GROUP)
    ):
        return values
    for entry in own:
        if entry.kind == headline:
            return {**values, "answer_rule": entry.label}
    entry = AnswerRuleEntry.model_validate(headline)
    more = entry.model_dump()
    return {**values, "answer_rule": entry.label, "answer_rules": [*entries, more]}
