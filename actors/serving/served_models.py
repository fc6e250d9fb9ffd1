"""*ServedModels*: the strategies of a configuration as models, and budgets of requests. Pure.

A request is one question, so what needs a whole data set is not served.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import Any

from actors.serving.chat_request import Budget, refused
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

    def within(self, budget: Budget, usd: float | None) -> tuple[ServedModel, tuple[str, ...]]:
        """The model within a budget, and the fields that have no effect on its strategy.

        Args:
            budget: of a request; never more completions than the configuration has.
            usd: what one completion costs at most; None where that is not known.

        Raises:
            ApiError: 400 where not even one completion is worth ``usd``, or that is not known.
        """
        strategy, names = self.strategy, {field.name for field in fields(self.strategy)}
        limits = {"reasoning_effort": budget.share, "n": budget.n, "usd": budget.usd}
        unused, most = [name for name in limits if limits[name] is not None], []
        if budget.usd is not None:
            if usd is None:
                rule = "must come with prices in the configuration (usd_per_million)"
                raise refused("markovscale.usd", rule, budget.usd)
            if usd > budget.usd:
                rule = f"must be at least {usd:.2g}, the most that one completion may cost"
                raise refused("markovscale.usd", rule, budget.usd)
            most.append(int(budget.usd / usd) if usd else strategy.n)
        if "n" in names:
            unused = []
            most += [strategy.n, budget.n or strategy.n]
            most.append(strategy.n if budget.share is None else ceil(budget.share * strategy.n))
            strategy = _changed(strategy, n=max(1, min(most)))
        if budget.target is not None:
            name = next((name for name in ("tau", "threshold") if name in names), None)
            if name is None:
                unused.append("target")
            else:
                strategy = _changed(strategy, **{name: budget.target})
        own = ("n", "usd", "target")
        ignored = (f"markovscale.{name}" if name in own else name for name in unused)
        return replace(self, strategy=strategy), tuple(ignored)


def _changed(strategy: Strategy, **values: Any) -> Strategy:
    try:
        return replace(strategy, **values)
    except ValueError as error:
        raise refused("markovscale", "must be a budget of the strategy", str(error)) from error


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
    question = question_of(template_question(science))
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
    """A row of questions.parquet with the priors of every request.

    Raises:
        ConfigError: where the priors are of single questions.
        DataError: where the file of priors cannot be read.
    """
    priors = science.priors
    if priors.predictor is not None:
        raise ConfigError(
            "science.priors.predictor must not be set for jobs.serve, which gives all requests the "
            f"same a and b, got {priors.predictor}: set science.priors.a and b"
        )
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
    is_single = strategy.phases() == Strategy.phases(strategy)
    if not is_single or type(strategy).prepare is not Strategy.prepare:
        raise ConfigError(
            "it runs in phases over a whole data set (jobs.evaluate), a request is one question"
        )
