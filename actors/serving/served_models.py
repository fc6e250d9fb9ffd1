"""Which strategies of a configuration are served, and under which names of models. Pure.

A request is one question, so what needs a whole data set is not served.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from pipeline.answers.answer_rules import Rule
from pipeline.benchmarks import Item
from pipeline.config.science import ScienceConfig
from pipeline.config.strategies import rule_of, strategies_of
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Strategy, decisions
from pipeline.records.questions import question_of, questions_table
from pipeline.records.run_dir import rows_of
from pipeline.records.trajectory import Row

OWNER = "markovscale"
BENCHMARK = "served"
"""What questions are of that came as requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A strategy behind the name of a model."""

    name: str
    label: str
    """The strategy's label in its configuration."""
    strategy: Strategy
    rule: Rule
    """Which of the completions drawn is the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModels:
    """The models of an endpoint."""

    served: Mapping[str, ServedModel]
    """By name, in the order of the configuration."""
    refused: Mapping[str, str]
    """Names of strategies of the configuration that are not served, and why."""


def served_models(science: ScienceConfig) -> ServedModels:
    """What a configuration can serve.

    ``markovscale/KIND-N`` is a strategy with a budget of N completions, ``markovscale/KIND`` one
    without a budget, ``markovscale/LABEL`` one that has a label of its own.

    Raises:
        ConfigError: where nothing can be served.
    """
    template = template_question(science)
    if science.priors.predictor is not None:
        template |= {"p0": 0.5, "a": 0.5, "b": 0.5}  # it has some for every question
    question = question_of(template)
    served: dict[str, ServedModel] = {}
    refused: dict[str, str] = {}
    for label, strategy in strategies_of(science).items():
        name = f"{OWNER}/{_short(label, strategy)}"
        try:
            _check_alone(strategy)
            next(decisions(strategy, question))  # says which priors it lacks
        except ConfigError as error:
            refused[name] = str(error)
            continue
        if name in served:
            raise ConfigError(
                f"labels of science.strategies must name different models, got {name} for "
                f"{served[name].label} and {label}"
            )
        served[name] = ServedModel(
            name=name, label=label, strategy=strategy, rule=rule_of(science, strategy)
        )
    if not served:
        reasons = "; ".join(f"{name}: {why}" for name, why in refused.items())
        raise ConfigError(f"science.strategies must have one that can be served, got {reasons}")
    return ServedModels(served=served, refused=refused)


def template_question(science: ScienceConfig) -> Row:
    """A row of questions.parquet with the priors of every request, as far as no predictor tells.

    Raises:
        ConfigError: where the priors are of single questions that are known beforehand.
        DataError: where the file of priors cannot be read.
    """
    priors = science.priors
    if priors.file is not None and not priors.file.endswith(".json"):
        raise ConfigError(
            "science.priors.file must be JSON with a and b for every question, requests are not "
            f"among the questions of {priors.file}"
        )
    item = Item(benchmark=BENCHMARK, question_id="question", text="1 + 1 = ?", gold="")
    (row,) = rows_of(questions_table([item], science.seed, priors))
    return {**row, "gold": None}


def _short(label: str, strategy: Strategy) -> str:
    names = {field.name for field in fields(strategy)}
    return f"{label}-{strategy.n}" if label == strategy.kind and "n" in names else label


def _check_alone(strategy: Strategy) -> None:
    alone = strategy.phases() == Strategy.phases(strategy)
    if not alone or type(strategy).prepare is not Strategy.prepare:
        raise ConfigError(
            "it runs in phases over a whole data set (jobs.evaluate), a request is one question"
        )
