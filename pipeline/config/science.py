"""The `science` section: what results depend on; a resume with another value is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from pipeline.answers.answer_rules import AnswerRule
from pipeline.benchmarks import BenchmarkSource
from pipeline.config.answer_rules import DEFAULT, AnswerRuleEntry, check_labels, listed
from pipeline.config.models import GeneratorModel, JudgeModel, ModelConfig, VerifierModel
from pipeline.config.schema import Section, short_form
from pipeline.core.decoding import Decoding
from pipeline.core.origin import Origin, text_digest, value_digest
from pipeline.core.plugins import short_name
from pipeline.core.prompts import Prompts
from pipeline.statistics.agreement import AgreementWeights
from pipeline.store.local import read_text
from pipeline.strategies.registry import strategy_class

_MAP_FIELDS = ("scores", "probabilities", "slope", "intercept", "fitted_on", "origin")


def with_weights(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a strategy, with ``weights: FILE`` and ``calibration: FILE`` replaced by what the
    files hold: the digest of the configuration covers the numbers, and a resume needs no file.

    Raises:
        ValueError: where it is no JSON file of that kind.
    """
    return {
        name: _PARSERS[name](_read(name, value))
        if name in _PARSERS and isinstance(value, str)
        else value
        for name, value in fields.items()
    }


def _read(name: str, given: str) -> Mapping[str, Any]:
    try:
        values = json.loads(read_text(given))
    except (OSError, ValueError) as error:
        raise ValueError(f"{name} must be a readable JSON file, got {error}") from error
    if not isinstance(values, Mapping):
        raise ValueError(f"{name} must be an object, got {type(values).__name__} in {given}")
    return values


def _weights(values: Mapping[str, Any]) -> dict[str, Any]:
    weights = AgreementWeights.parse(values)
    read: dict[str, Any] = {"w": list(weights.w), "v": list(weights.v)}
    if weights.fitted_on:
        read["fitted_on"] = weights.fitted_on
    if weights.origin is not None:
        read["origin"] = asdict(weights.origin)
    return read


def _map(values: Mapping[str, Any]) -> dict[str, Any]:
    """The strategy's own check says what is wrong with the numbers."""
    return {name: values[name] for name in _MAP_FIELDS if name in values}


_PARSERS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "weights": _weights,
    "calibration": _map,
}


class PriorsConfig(Section):
    """What is known of questions before the run; never made from gold answers of the run's own."""

    a: float | None = Field(None, ge=0, le=1)
    """P(right -> wrong) between two rounds, for every question."""
    b: float | None = Field(None, ge=0, le=1)
    """P(wrong -> right)."""
    file: str | None = None
    """JSON with ``a`` and ``b`` for every question, or a table (JSONL, CSV, Parquet) with
    ``question_id`` and any of ``benchmark``, ``p0``, ``a``, ``b``, ``tokens_per_round``. Values
    above win over the file's."""
    predictor: str | None = None
    """Folder that ``jobs.train`` wrote: heads for p0, a, b and tokens on backbone features."""
    transitions: Literal["pooled", "average", "question"] = "pooled"
    """a and b of a predictor: shares of all transitions of its training questions, the paper's mean
    of each question's own shares, or what its heads say of each question. The paper's mean is
    inconsistent: in chains of 8 rounds with a = 0.1 and b = 0.25 it tends to 0.155 and 0.385."""

    @model_validator(mode="after")
    def _both_or_none(self) -> PriorsConfig:
        if (self.a is None) != (self.b is None):
            raise ValueError("a and b must be given together")
        return self


class StrategyEntry(Section):
    """One strategy of a run: its registered kind, a label, and fields of its own."""

    kind: str
    """A registered name, an entry point's, or ``package.module:Class`` of one's own."""
    label: str = Field("", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$|^$")
    """Names the strategy in journal and tables; defaults to its kind, or to the class's name."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """Fields of the strategy, over those of ``science.strategy``."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        """``mr_thinking`` and ``{kind: mr_thinking, n: 16}`` as well as the full form."""
        entry = short_form(value)
        if isinstance(entry, dict):
            entry.setdefault("label", short_name(str(entry.get("kind", ""))))
            if isinstance(entry["fields"], dict):
                entry["fields"] = with_weights(entry["fields"])
        return entry

    @field_validator("kind")
    @classmethod
    def _registered(cls, kind: str) -> str:
        strategy_class(kind)
        return kind


class ScienceConfig(Section):
    """Questions, strategies, models and how answers are judged."""

    seed: int = Field(0, ge=0)
    """Every sampling seed of the run is derived from it."""
    benchmarks: tuple[BenchmarkSource, ...] = Field(min_length=1)
    strategies: tuple[StrategyEntry, ...] = Field(min_length=1)
    """Run side by side; each by name, or as a mapping with ``kind`` and its fields."""
    strategy: dict[str, Any] = Field(default_factory=dict)
    """Fields for every strategy that has them, such as ``n`` and ``tau``."""
    answer_rule: str = DEFAULT
    """The headline rule; ``default`` is each strategy's own. Every rule is reported. A rule
    of one's own by its label, or by its place, which puts it among ``answer_rules``."""
    answer_rules: tuple[AnswerRuleEntry, ...] = ()
    """Rules of one's own, reported with the shipped ones (docs/write-an-answer-rule.md):
    ``package.module:name``, an entry point's name, or a mapping with ``kind`` and ``label``."""
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    priors: PriorsConfig = PriorsConfig()
    generator: GeneratorModel
    verifier: VerifierModel | None = None
    judge: JudgeModel | None = None
    """The model that grades benchmarks with ``grader: {kind: judge}``, and remarks on answers where
    ``prompts.revise`` shows ``{feedback}``."""
    grader: Literal["markovscale", "math_verify", "paper"] = "markovscale"

    @field_validator("benchmarks", mode="before")
    @classmethod
    def _by_name(cls, values: Any) -> Any:
        """``gsm8k`` as well as ``{name: gsm8k}``."""
        if not isinstance(values, list | tuple):
            return values
        return [{"name": value} if isinstance(value, str) else value for value in values]

    @field_validator("strategy")
    @classmethod
    def _read_weights(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return with_weights(fields)

    @model_validator(mode="before")
    @classmethod
    def _headline_by_label(cls, values: Any) -> Any:
        return listed(values)

    @model_validator(mode="after")
    def _rules_known(self) -> ScienceConfig:
        own = [entry.rule for entry in self.answer_rules]
        check_labels(own)
        known = [DEFAULT, *AnswerRule, *(rule.value for rule in own)]
        if self.answer_rule not in known:
            near = get_close_matches(self.answer_rule, known, n=1)
            raise ValueError(
                f"answer_rule must be one of {', '.join(known)}, or package.module:name of your "
                f"own, got {self.answer_rule!r}" + "".join(f" (did you mean {n}?)" for n in near)
            )
        return self

    @model_validator(mode="after")
    def _labels_differ(self) -> ScienceConfig:
        labels = [entry.label for entry in self.strategies]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(
                    f"strategies must have different labels, got {label!r} {labels.count(label)} "
                    f"times: give each a label"
                )
        names = [source.name for source in self.benchmarks]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"benchmarks must have different names, got {name!r} twice")
        return self

    def origin(self, texts: Iterable[str] = ()) -> Origin:
        """What numbers that are fitted under this section come from.

        Args:
            texts: of the questions that they are fitted on.
        """
        decoding = {**asdict(self.decoding), "limits": [s.max_tokens for s in self.benchmarks]}
        return Origin(
            model=_named(self.generator),
            verifier="" if self.verifier is None else _named(self.verifier),
            prompts=value_digest(asdict(self.prompts)),
            decoding=value_digest(decoding),
            questions=tuple(sorted({text_digest(text) for text in texts})),
        )

    @property
    def most_tokens(self) -> int:
        """New tokens of a completion at most, on whichever benchmark allows most."""
        return max(source.max_tokens or self.decoding.max_tokens for source in self.benchmarks)

    @property
    def decoding_in_words(self) -> str:
        """`decoding`, with the limits that benchmarks have of their own."""
        own = [f"{s.max_tokens:,} in {s.name}" for s in self.benchmarks if s.max_tokens]
        return self.decoding.described() + (f" ({', '.join(own)})" if own else "")

    @property
    def models(self) -> dict[str, ModelConfig]:
        """The model of every role that the run has: the fields of this section that are models."""
        return {name: value for name, value in self if isinstance(value, ModelConfig)}


def _named(model: ModelConfig) -> str:
    return model.model + (f" at {model.revision}" if model.revision else "")
