"""*SweepConfig*: grids of strategies to try on a pool."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from pydantic import Field, ValidationError, field_validator, model_validator

from pipeline.answers.answer_rules import AnswerRule, chooses_of_those
from pipeline.config.answer_rules import DEFAULT, AnswerRuleEntry
from pipeline.config.errors import described
from pipeline.config.models import VerifierModel
from pipeline.config.run import override_field
from pipeline.config.schema import Section, short_form
from pipeline.config.science import PriorsConfig, ScienceConfig, StrategyEntry
from pipeline.config.strategies import FORMER, own_rules_of, strategies_of
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Strategy
from pipeline.store.local import read_fields


class GridEntry(Section):
    """One strategy with fields that are lists: every combination is one setting."""

    kind: str
    label: str = ""
    """Names the strategy in tables; defaults to its kind."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """Fields of the strategy; a list is a list of values to try."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        """``{kind: esc, n: [8, 16], window: 5}`` and ``base`` as well as the full form."""
        return short_form(value)

    @field_validator("fields")
    @classmethod
    def _tries_something(cls, fields: dict[str, Any]) -> dict[str, Any]:
        plain = {name: _plain(values) for name, values in fields.items()}
        for name, values in plain.items():
            if values == []:
                raise ValueError(f"{name} must have at least one value to try, got []")
        return plain

    def settings(self) -> list[dict[str, Any]]:
        """Every combination, the last field changing fastest."""
        lists = [v if isinstance(v, list) else [v] for v in self.fields.values()]
        return [dict(zip(self.fields, values, strict=True)) for values in itertools.product(*lists)]


class SweepConfig(Section):
    """A sweep: which strategies with which settings, and what is chosen on held-out questions."""

    strategies: tuple[GridEntry, ...] = Field(min_length=1)
    benchmarks: tuple[str, ...] = ()
    """Of the pool; all of them where none is named."""
    priors: PriorsConfig = PriorsConfig()
    """p0, a and b of the questions; never made from gold answers of the pool's own questions."""
    choose: tuple[str, ...] = ("tau", "gamma")
    """Fields that are tuned: their best values are chosen on one half of the questions and judged
    on the other, and, apart from that, on the very questions that they are judged on."""
    seed: int = Field(0, ge=0)
    """Of the split into halves."""
    answer_rules: tuple[AnswerRuleEntry, ...] | None = None
    """Rules of one's own, added to the shipped ones; by default those of the run that is read."""

    @classmethod
    def load(cls, path: str, overrides: Sequence[str] = ()) -> SweepConfig:
        """Read a YAML file and apply ``dotted.field=value`` overrides, values being YAML.

        Raises:
            ConfigError: naming the field, what must hold and what came.
        """
        values = read_fields(path, "a sweep")
        if "science" in values:
            raise ConfigError(
                f"a sweep must have its own file (strategies, priors, choose; such as --config "
                f"paper), got the file of a run, {path}"
            )
        for override in overrides:
            if override.startswith("science."):
                raise ConfigError(
                    f"--set {override} is of a run: in a sweep it is "
                    f"{override.removeprefix('science.')}"
                )
            override_field(values, override)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError(described(error, root=cls)) from error


def science_of(config: SweepConfig, science: ScienceConfig) -> ScienceConfig:
    """The science of a pool or run with the strategies and own answer rules of a sweep; each rule
    has been imported and tried.

    Raises:
        ConfigError: naming a strategy or a rule that cannot be had.
    """
    entries = science.answer_rules if config.answer_rules is None else config.answer_rules
    known = [DEFAULT, *AnswerRule, *(entry.label for entry in entries)]
    swept = science.model_copy(
        update={
            "strategies": tuple(_entry(entry.kind) for entry in config.strategies),
            "answer_rules": entries,
            "answer_rule": science.answer_rule if science.answer_rule in known else DEFAULT,
        }
    )
    for rule in own_rules_of(swept):
        chooses_of_those(rule)
    return swept


def grid(config: SweepConfig, science: ScienceConfig) -> list[tuple[str, Strategy]]:
    """(label, strategy) of every setting, with the prompts and the decoding of the pool.

    Raises:
        ConfigError: naming a field that the strategy does not have, or a value that it refuses.
    """
    built: list[tuple[str, Strategy]] = []
    for entry in config.strategies:
        if gone := FORMER.keys() & entry.fields.keys():
            raise ConfigError(f"strategies.{entry.kind}.{min(gone)} is no field any more")
        for values in entry.settings():
            one = _entry(entry.kind, values)
            single = science.model_copy(update={"strategies": (one,), "strategy": {}})
            (strategy,) = strategies_of(single).values()
            built.append((entry.label or one.label, strategy))
    return built


def possible_grid(
    config: SweepConfig, science: ScienceConfig
) -> tuple[list[tuple[str, Strategy]], list[str]]:
    """As `grid`, without the settings that need scores where the pool has none, and their labels.

    Raises:
        ConfigError: as `grid`, and where nothing is left.
    """
    if science.verifier is not None:
        return grid(config, science), []
    scored = science.model_copy(update={"verifier": VerifierModel(model="none")})
    made = grid(config, scored)
    kept = [(label, strategy) for label, strategy in made if not strategy.needs_score]
    left = list(dict.fromkeys(label for label, strategy in made if strategy.needs_score))
    if not kept:
        raise ConfigError(f"a pool must have scores for {', '.join(left)}, it has none")
    return [(label, replace(cast(Any, strategy), score=False)) for label, strategy in kept], left


def _entry(kind: str, values: dict[str, Any] | None = None) -> StrategyEntry:
    try:
        return StrategyEntry.model_validate({"kind": kind, "fields": values or {}})
    except ValidationError as error:
        raise ConfigError(described(error, f"strategies.{kind}")) from error


def _plain(value: Any) -> Any:
    """A value, or the values of a list, without the numbers and arrays of numpy of a notebook."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
