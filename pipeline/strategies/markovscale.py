"""MarkovScale^t, the gate alone, and MarkovScale^*, gate and stopping rule (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pipeline.core.decoding import Decoding
from pipeline.core.errors import ConfigError
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import Action, Observation, Question, Statistics
from pipeline.statistics.calibration_maps import CalibrationMap
from pipeline.strategies.sequential import (
    ChainState,
    Plan,
    advance,
    begin,
    check_budget,
    check_score_every,
    check_unit,
)
from pipeline.theory.stopping import StopRule

P0Source = Literal["auto", "predictor", "priors_file", "first_score"]
"""Where p0 comes from; ``auto`` takes the first that exists in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkovScaleT:
    """MarkovScale^t: one completion where p0 >= L + sigma, else the whole budget (Section 4.1)."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "markovscale_t"
    default_rule: ClassVar[str] = "prm_argmax"
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Completions a question at most, >= 1."""
    sigma: float = 0.0
    """Margin of the gate, in [-1, 1]; the paper gives no value."""
    p0_source: P0Source = "auto"
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score_every: int = 1
    """Rounds from one score to the next, >= 1: spares the verifier. The first round and the last of
    the budget always have one."""
    score: bool = True
    """Whether completions are scored by the verifier."""
    calibration: CalibrationMap | None = None
    """Map of scores to chances of being right (``jobs.calibrate``), for beliefs alone: answers are
    chosen by the raw scores. In a configuration inline, or the file."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_score_every(self.score_every)
        check_unit("sigma", self.sigma, low=-1.0)

    @property
    def needs_score(self) -> bool:
        """A p0 taken from the first score needs that score."""
        return self.p0_source in ("auto", "first_score")

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[ChainState, Action]:
        """Ask the plain question; the gate is decided once it was answered."""
        p0, source = _first_belief(question, self.p0_source)
        a, b = _transitions(question, statistics, self.kind)
        plan = Plan(
            n=self.n,
            decoding=self.decoding,
            prompts=self.prompts,
            score=self.score,
            calibration=self.calibration,
            score_every=self.score_every,
            gate=True,
            sigma=self.sigma,
            a=a,
            b=b,
            p0=p0,
            p0_source=source,
        )
        return begin(question, plan)

    def step(
        self, state: ChainState, observations: Sequence[Observation]
    ) -> tuple[ChainState, Action]:
        """Gate after round 0, then revise to the budget."""
        return advance(state, observations)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkovScaleStar:
    """MarkovScale^*: gate, then stop once the posterior says so (Algorithm 1)."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "markovscale_star"
    default_rule: ClassVar[str] = "prm_argmax"
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Completions a question at most, >= 1."""
    tau: float = 0.95
    """Confidence asked for, in [0, 1]."""
    gamma: float = 10.0
    """Strength of the prior, > 0, in observations (Eq. 16)."""
    sigma: float = 0.0
    """Margin of the gate, in [-1, 1]; the paper gives no value."""
    stop_rule: StopRule = StopRule.PRINTED
    gate: bool = True
    """Off for the ablation without scaling gating."""
    stopping: bool = True
    """Off for the ablation without optimal stopping."""
    p0_source: P0Source = "auto"
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score_every: int = 1
    """Rounds from one score to the next, >= 1: spares the verifier. The first round and the last of
    the budget always have one, and the stopping rule is tested where there is one."""
    score: bool = True
    """Whether completions are scored by the verifier."""
    calibration: CalibrationMap | None = None
    """Map of scores to chances of being right (``jobs.calibrate``), for beliefs alone: answers are
    chosen by the raw scores. In a configuration inline, or the file."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_score_every(self.score_every)
        check_unit("tau", self.tau)
        check_unit("sigma", self.sigma, low=-1.0)
        if not self.gamma > 0:
            raise ValueError(f"gamma must be > 0, got {self.gamma!r}")

    @property
    def needs_score(self) -> bool:
        """The posterior is made of scores, and so is a p0 taken from the first one."""
        return self.stopping or (self.gate and self.p0_source in ("auto", "first_score"))

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[ChainState, Action]:
        """Ask the plain question under the prior of Eq. 16."""
        p0, source = _first_belief(question, self.p0_source)
        a, b = _transitions(question, statistics, self.kind)
        plan = Plan(
            n=self.n,
            decoding=self.decoding,
            prompts=self.prompts,
            score=self.score,
            calibration=self.calibration,
            score_every=self.score_every,
            gate=self.gate,
            stop_rule=self.stop_rule if self.stopping else None,
            tau=self.tau,
            sigma=self.sigma,
            gamma=self.gamma,
            a=a,
            b=b,
            p0=p0,
            p0_source=source,
        )
        return begin(question, plan)

    def step(
        self, state: ChainState, observations: Sequence[Observation]
    ) -> tuple[ChainState, Action]:
        """Update the posterior; gate, stop or revise."""
        return advance(state, observations)


def _first_belief(question: Question, source: P0Source) -> tuple[float | None, str]:
    """p0 and where it came from; ``first_score`` leaves p0 to the score of round 0."""
    priors = question.priors
    known = priors.p0 is not None and priors.p0_source is not None
    if source == "first_score" or (source == "auto" and not known):
        return None, "first_score"
    if not known or source not in ("auto", priors.p0_source):
        raise ConfigError(
            f"p0_source {source} needs a p0 from it for every question, got "
            f"{priors.p0_source or 'none'} for question {question.question_id!r} "
            f"of {question.benchmark!r}"
        )
    return priors.p0, str(priors.p0_source)


def _transitions(
    question: Question, statistics: Statistics | None, kind: str
) -> tuple[float, float]:
    """a and b of the data set: measured in this run where statistics are given, else priors."""
    for source in (statistics, question.priors):
        if source is not None and source.a is not None and source.b is not None:
            return source.a, source.b
    raise ConfigError(
        f"{kind} needs a and b for every question, got none for question "
        f"{question.question_id!r} of {question.benchmark!r}: give science.priors"
    )
