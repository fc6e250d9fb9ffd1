"""*strategies_of*: builds strategies and answer rules from their sections of the configuration."""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from typing import Any, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from pipeline.answers.answer_rules import (
    RULES,
    AnswerRule,
    OwnRule,
    Rule,
    chooses_of_those,
    module_of,
    rule_named,
)
from pipeline.config.answer_rules import DEFAULT, AnswerRuleEntry, check_labels
from pipeline.config.errors import described
from pipeline.config.schema import check_numbers
from pipeline.config.science import ScienceConfig, StrategyEntry
from pipeline.core.errors import ConfigError
from pipeline.core.plugins import is_import_path
from pipeline.core.protocol import Pool, Strategy
from pipeline.strategies import STRATEGIES
from pipeline.strategies.registry import strategy_class

POOL_OF: dict[str, Pool] = {
    "mr_thinking": Pool.SEQUENTIAL,
    "self_consistency": Pool.PARALLEL,
    "best_of_n": Pool.PARALLEL,
}
"""Kinds that draw all that their budget allows, whatever comes, and the pool that they so draw: a
larger `n` asks for the same completions and some more."""


FORMER: dict[str, Any] = {"stop_rule": "printed", "score_every": 1, "truncated_last": False}
"""Fields that strategies of earlier versions had, which recorded configurations may hold, with the
values that decided as strategies do now."""


def former_of(science: ScienceConfig) -> dict[str, Any]:
    """The former fields of strategies that a configuration holds, by dotted name; they are
    ignored."""
    known = {entry.label: _field_names(entry.kind) for entry in science.strategies}
    fields_of = {"science.strategy": (science.strategy, set().union(*known.values()))} | {
        f"science.strategies.{entry.label}": (entry.fields, known[entry.label])
        for entry in science.strategies
    }
    return {
        f"{where}.{name}": value
        for where, (held, names) in fields_of.items()
        for name, value in held.items()
        if name in FORMER.keys() - names
    }


def require_same_decisions(science: ScienceConfig) -> None:
    """Refuse former fields by which strategies of earlier versions decided otherwise.

    Raises:
        ConfigError: naming the first.
    """
    for name, value in former_of(science).items():
        same = FORMER[name.rpartition(".")[2]]
        if value != same:
            raise ConfigError(
                f"{name} must be {same!r} or left out, got {value!r}: no strategy decides by it "
                "any more"
            )


def strategies_of(science: ScienceConfig) -> dict[str, Strategy]:
    """The strategies of a run by label, in the order of the configuration.

    Raises:
        ConfigError: naming the field, what must hold and what came.
    """
    kinds = dict.fromkeys([*STRATEGIES, *(entry.kind for entry in science.strategies)])
    known = {name for kind in kinds for name in _field_names(kind)}
    for name in [name for name in science.strategy if name not in FORMER]:
        if name not in known:  # of any kind: the list of strategies may be narrowed for one run
            near = get_close_matches(name, sorted(known), n=1)
            raise ConfigError(
                f"science.strategy.{name} must be a field of one of {', '.join(kinds)}"
                + (
                    f", did you mean {near[0]}?"
                    if near
                    else f", which have {', '.join(sorted(known))}"
                )
            )
    built = {entry.label: _build(science, entry) for entry in science.strategies}
    for label, strategy in built.items():
        _check_scores(science, label, strategy)
        rule = rule_of(science, strategy)
        if isinstance(rule, OwnRule) and rule not in rules_of(science):
            raise ConfigError(
                f"default_rule of {label} must be one for all settings, a class attribute, to be a "
                f"rule of your own, got {strategy.default_rule!r}"
            )
    if science.answer_rule in set(AnswerRule):
        _check_logprobs(science, AnswerRule(science.answer_rule))
    return built


def strategy_of(kind: str, science: ScienceConfig, **values: Any) -> Strategy:
    """A registered strategy with the prompts, the decoding and the verifier of a run; `values` for
    fields that it lacks are left out."""
    shared: dict[str, Any] = {
        "decoding": science.decoding,
        "prompts": science.prompts,
        "score": science.verifier is not None,
    }
    cls = STRATEGIES[kind]
    names = {field.name for field in fields(cls)}
    made: Strategy = cls(**shared, **{n: value for n, value in values.items() if n in names})
    return made


def rule_of(science: ScienceConfig, strategy: Strategy) -> Rule:
    """The headline answer rule of a strategy in this run."""
    if science.answer_rule == DEFAULT:
        return rule_named(strategy.default_rule)
    own = {entry.label: entry.rule for entry in science.answer_rules}
    return own.get(science.answer_rule) or AnswerRule(science.answer_rule)


def headlines_of(science: ScienceConfig, phase: int) -> dict[str, Rule]:
    """The headline rules of the strategies, by label, that answer questions in a phase (from 0)."""
    return {
        label: rule_of(science, strategy)
        for label, strategy in strategies_of(science).items()
        if any(each.answers for each in strategy.phases()[phase : phase + 1])
    }


def rules_of(science: ScienceConfig) -> tuple[Rule, ...]:
    """Every answer rule of a run: the shipped ones, those of its configuration, and those that its
    strategies name as their own. No code of theirs is imported.

    Raises:
        ConfigError: where two would have the same columns.
    """
    kinds = dict.fromkeys(entry.kind for entry in science.strategies)
    defaults = [getattr(strategy_class(kind), "default_rule", None) for kind in kinds]
    own = [entry.rule for entry in science.answer_rules]
    try:
        places = [d for d in defaults if isinstance(d, str) and is_import_path(d)]
        found = tuple(dict.fromkeys([*own, *(AnswerRuleEntry(kind=d).rule for d in places)]))
        check_labels(found)
    except ValidationError as error:
        raise ConfigError(described(error, "default_rule")) from error
    except ValueError as error:
        raise ConfigError(f"science.answer_rules: {error}") from error
    return (*RULES, *found)


def own_rules_of(science: ScienceConfig) -> tuple[OwnRule, ...]:
    """Those of `rules_of` that are users' own."""
    return tuple(rule for rule in rules_of(science) if isinstance(rule, OwnRule))


def check_own_rules(science: ScienceConfig) -> None:
    """Import a run's own answer rules and let each choose once, before anything is drawn.

    Raises:
        ConfigError: naming the rule, what must hold and what came.
    """
    own = own_rules_of(science)
    for rule in own:
        chooses_of_those(rule)
    for label, strategy in strategies_of(science).items():
        headline = rule_of(science, strategy)
        if headline in own:
            if science.verifier is None and headline.needs_score:
                raise _unscored(headline, label)
            _check_logprobs(science, headline)


def own_modules(science: ScienceConfig) -> tuple[str, ...]:
    """Top-level modules of users' own strategies and answer rules: what a cluster's workers must
    import."""
    kinds = [entry.kind for entry in science.strategies if entry.kind not in STRATEGIES]
    modules = [strategy_class(kind).__module__ for kind in kinds]
    modules += [module_of(rule) for rule in own_rules_of(science)]
    return tuple(dict.fromkeys(module.partition(".")[0] for module in modules))


def _field_names(kind: str) -> set[str]:
    own = {field.name for field in fields(strategy_class(kind))}
    return own - {"decoding", "prompts", "score"}


@cache
def _adapter(kind: type[Strategy]) -> TypeAdapter[Strategy]:
    """Made once: planning many splits builds the strategies of each."""
    return TypeAdapter(kind)


def _build(science: ScienceConfig, entry: StrategyEntry) -> Strategy:
    names = _field_names(entry.kind)
    shared = {name: value for name, value in science.strategy.items() if name in names}
    where = f"science.strategies.{entry.label}"
    own = {name: v for name, v in entry.fields.items() if name not in FORMER.keys() - names}
    for name in own:
        if name not in names:
            near = get_close_matches(name, sorted(names), n=1)
            raise ConfigError(
                f"{where}.{name} must be a field of {entry.kind}, which has "
                f"{', '.join(sorted(names)) or 'none'}"
                + "".join(f" (did you mean {one}?)" for one in near)
            )
    places = {name: f"science.strategy.{name}" for name in shared if name not in own}
    kind = strategy_class(entry.kind)
    hints = get_type_hints(kind)
    for name, value in {**shared, **own}.items():
        try:
            check_numbers(hints[name], value)
        except ValueError as error:
            raise ConfigError(f"{places.get(name, f'{where}.{name}')}: {error}") from error
    values = {
        **shared,
        **own,
        "decoding": science.decoding,
        "prompts": science.prompts,
        "score": science.verifier is not None,
    }
    try:
        adapter = _adapter(kind)
        strategy: Strategy = adapter.validate_python(values)
    except ValidationError as error:
        raise ConfigError(described(error, where, places)) from error
    except PydanticUserError as error:  # of a user's own class
        raise ConfigError(f"{where} must have fields of JSON types: {error.message}") from error
    return strategy


def _check_scores(science: ScienceConfig, label: str, strategy: Strategy) -> None:
    if strategy.needs_stop_flag and science.generator.stop_flag is None:
        raise ConfigError(
            f"science.generator.stop_flag must be given for {label}, which stops where a reply "
            "asks for no further revision: a pattern that is found in such replies"
        )
    if science.verifier is not None:
        return
    if strategy.needs_score:
        raise ConfigError(
            f"science.verifier must be given for {label}, which decides by its scores"
        )
    rule = rule_of(science, strategy)
    if isinstance(rule, AnswerRule) and rule.needs_score:
        raise _unscored(rule, label)


def _unscored(rule: Rule, label: str) -> ConfigError:
    return ConfigError(
        f"science.verifier must be given for the answer rule {rule} of {label}; "
        f"answer_rule last and vote need none"
    )


def _check_logprobs(science: ScienceConfig, headline: Rule) -> None:
    if headline.needs_logprobs and not science.generator.logprobs:
        raise ConfigError(
            f"science.answer_rule {headline} must come with science.generator.logprobs: true, "
            "which records what it weighs by"
        )
