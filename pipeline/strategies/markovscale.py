"""MarkovScale^t, the gate alone, MarkovScale^*, gate and stopping rule (Algorithm 1), and
MarkovScale^0, without training: its prior is a heuristic, a and b are counted on the run itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pipeline.core.errors import ConfigError
from pipeline.core.prices import Prices
from pipeline.core.protocol import (
    Completion,
    Observation,
    Phase,
    PhaseStats,
    Question,
    QuestionRecord,
)
from pipeline.statistics.calibration_maps import CalibrationMap
from pipeline.strategies.samples import Profile
from pipeline.strategies.sequential import (
    ChainSettings,
    ChainStrategy,
    MRThinking,
    check_budget,
    check_unit,
)
from pipeline.theory.posterior import BetaPosterior
from pipeline.theory.transitions import Labels, count, labels_of_scores, total

P0Source = Literal["auto", "predictor", "priors_file", "first_score"]
"""Where p0 comes from; ``auto`` takes the first that exists in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkovScaleT(ChainStrategy):
    """MarkovScale^t: one completion where p0 >= L + sigma, else the whole budget (Section 4.1)."""

    kind: ClassVar[str] = "markovscale_t"
    belief_fields: ClassVar[tuple[str, ...]] = ("p0_source",)
    default_rule: ClassVar[str] = "prm_argmax"

    n: int = 8
    """Completions a question at most, >= 1."""
    sigma: float = 0.0
    """Margin of the gate, in [-1, 1]; the paper gives no value."""
    chain: Literal["homogeneous", "settling"] = "homogeneous"
    """The paper's chain, or U, whose changes die out (docs/math.md): a and b are then those of a
    fresh answer, and the gate compares p0 with L_U."""
    kept: float = 0.6
    """q of U, in (0, 1]: how much less likely a change is after each equal round."""
    p0_source: P0Source = "auto"
    calibration: CalibrationMap | None = None
    """Map of scores to chances of being right (``jobs.calibrate``), for beliefs alone: answers are
    chosen by the raw scores. In a configuration inline, or the file."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_unit("sigma", self.sigma, low=-1.0)
        if not 0 < self.kept <= 1:
            raise ValueError(f"kept must be in (0, 1], got {self.kept!r}")

    @property
    def needs_score(self) -> bool:
        """A p0 taken from the first score needs that score."""
        return self.p0_source in ("auto", "first_score")

    def settings(self, question: Question, statistics: PhaseStats | None = None) -> ChainSettings:
        """The gate after the first answer, then the whole budget."""
        return self._settings(question, statistics, gate=True)

    def _settings(
        self, question: Question, statistics: PhaseStats | None, **more: Any
    ) -> ChainSettings:
        p0, source = _first_belief(question, self.p0_source)
        a, b = _transitions(question, statistics, self.kind)
        return ChainSettings(
            n=self.n,
            score=self.score,
            sigma=self.sigma,
            kept=self.kept if self.chain == "settling" else None,
            calibration=self.calibration,
            a=a,
            b=b,
            p0=p0,
            p0_source=source,
            **more,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkovScaleStar(MarkovScaleT):
    """MarkovScale^*: gate, then stop once the posterior says so (Algorithm 1)."""

    kind: ClassVar[str] = "markovscale_star"
    belief_fields: ClassVar[tuple[str, ...]] = ("p0_source",)

    tau: float = 0.95
    """Required confidence, in [0, 1]."""
    gamma: float = 10.0
    """Strength of the prior, > 0, in observations (Eq. 16)."""
    price: float = 0.01
    """Of a round with ``chain: settling``, in [0, 1]: it stops where the belief reaches tau, or one
    more round is not expected to bring as much."""
    value_of_right_usd: float | None = None
    """What a right answer is worth in USD, > 0: stops as well where what one more round is expected
    to bring, times this, is not above what a round has cost so far on average."""
    usd_per_million: Prices | None = None
    """What tokens cost, for `value_of_right_usd`."""
    gate: bool = True
    """Off for the ablation without scaling gating."""
    stopping: bool = True
    """Off for the ablation without optimal stopping."""

    def __post_init__(self) -> None:
        MarkovScaleT.__post_init__(self)
        check_unit("tau", self.tau)
        check_unit("price", self.price)
        if not self.gamma > 0:
            raise ValueError(f"gamma must be > 0, got {self.gamma!r}")
        if (self.value_of_right_usd is None) != (self.usd_per_million is None):
            raise ValueError("value_of_right_usd and usd_per_million must be given together")
        if self.value_of_right_usd is not None and not self.value_of_right_usd > 0:
            raise ValueError(f"value_of_right_usd must be > 0, got {self.value_of_right_usd!r}")
        if self.value_of_right_usd is not None and not self.stopping:
            raise ValueError("value_of_right_usd must come with stopping: true, got false")

    @property
    def needs_score(self) -> bool:
        """The posterior is made of scores, and so is a p0 taken from the first one."""
        return self.stopping or (self.gate and self.p0_source in ("auto", "first_score"))

    def settings(self, question: Question, statistics: PhaseStats | None = None) -> ChainSettings:
        """The gate, and the stopping rule under the prior of Eq. 16."""
        return self._settings(
            question,
            statistics,
            gate=self.gate,
            stopping=self.stopping,
            tau=self.tau,
            gamma=self.gamma,
            price=self.price,
            value_of_right_usd=self.value_of_right_usd,
            usd_per_million=self.usd_per_million,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkovScale0(ChainStrategy):
    """MarkovScale^0: a heuristic prior, and a and b from the run's own first rounds.

    Two phases: `warm_up` rounds for every question; then, with a and b counted over the data set
    (an answer counts as right where its verifier score is at least `right_from`, never by gold),
    the chains go on under the stopping rule, first tested once the warm-up rounds are told.

    ``profile: paper`` neither waits for the warm-up nor bills it: a and b are taken for known, and
    each question stops as early as its first round lets it, which is what the published token
    counts can come from. A run draws the warm-up all the same, so its bill is less than it made.
    """

    kind: ClassVar[str] = "markovscale_0"
    belief_fields: ClassVar[tuple[str, ...]] = ("alpha0", "beta0")
    default_rule: ClassVar[str] = "prm_argmax"
    needs_score: ClassVar[bool] = True
    stopping: ClassVar[bool] = True

    n: int = 8
    """Completions a question at most, >= 1."""
    tau: float = 0.95
    """Required confidence, in [0, 1]."""
    alpha0: float = 9.0
    """Prior weight of right answers (the paper's value)."""
    beta0: float = 1.0
    """Prior weight of wrong answers (the paper's value)."""
    warm_up: int = 4
    """Rounds drawn for every question before a and b are counted; at most `n` are drawn."""
    right_from: float = 0.5
    """Least score that counts as right in those counts."""
    gate: bool = False
    """Whether a question stops after the warm-up where alpha0/(alpha0+beta0) >= L + sigma. Off: the
    prior is the same for every question, so this gate would decide for all of them at once."""
    sigma: float = 0.0
    calibration: CalibrationMap | None = None
    """Map of scores to chances of being right (``jobs.calibrate``), for beliefs alone: answers are
    chosen by the raw scores. In a configuration inline, or the file."""
    profile: Profile = "upstream"

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_unit("tau", self.tau)
        check_unit("right_from", self.right_from)
        check_unit("sigma", self.sigma, low=-1.0)
        BetaPosterior(self.alpha0, self.beta0)  # says which of the two is out of range
        if self.warm_up < 2:
            raise ValueError(f"warm_up must be >= 2 (one transition), got {self.warm_up!r}")

    def phases(self) -> tuple[Phase, ...]:
        """Warm up with plain revisions, then go on with what they taught."""
        rounds = MRThinking(
            n=min(self.warm_up, self.n),
            decoding=self.decoding,
            prompts=self.prompts,
            score=self.score,
        )
        warm_up = WarmUp(
            strategy=rounds,
            right_from=self.right_from,
            calibration=self.calibration,
            stream=None if self.profile == "paper" else "",
        )
        return (warm_up, Phase(name="continue", strategy=self))

    def settings(self, question: Question, statistics: PhaseStats | None = None) -> ChainSettings:
        """The stopping rule under the heuristic prior, once the warm-up is over."""
        if statistics is None or statistics.a is None or statistics.b is None:
            raise ConfigError("markovscale_0 needs statistics with a and b, run its warm-up phase")
        return ChainSettings(
            n=self.n,
            score=self.score,
            calibration=self.calibration,
            gate=self.gate,
            stopping=True,
            min_rounds=1 if self.profile == "paper" else min(self.warm_up, self.n),
            tau=self.tau,
            sigma=self.sigma,
            a=statistics.a,
            b=statistics.b,
            p0=self.alpha0 / (self.alpha0 + self.beta0),
            p0_source="heuristic",
            prior=BetaPosterior(self.alpha0, self.beta0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp(Phase):
    """Rounds that are drawn for every question to count a and b over the data set."""

    name: str = "warm_up"
    answers: bool = False
    reads_texts: bool = False
    right_from: float = 0.5
    """Least score, after calibration, that counts as right."""
    calibration: CalibrationMap | None = None

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: PhaseStats | None
    ) -> PhaseStats:
        """a and b over all transitions, by verifier scores; each (k + 1/2) / (n + 1), the mean
        under Jeffreys' prior, so that both exist where no transition was seen."""
        drawn = (record.completions for record in records.values())
        counts = total(
            count(
                labels_of_scores(
                    (self._score(c) for c in completions),
                    right_from=self.right_from,
                )
            )
            for completions in drawn
        )
        return PhaseStats(
            a=(counts.right_wrong + 0.5) / (counts.from_right + 1.0),
            b=(counts.wrong_right + 0.5) / (counts.from_wrong + 1.0),
            labels=Labels.SCORE.value,
        )

    def _score(self, observation: Observation) -> float | None:
        score = observation.score if isinstance(observation, Completion) else None
        if score is None or self.calibration is None:
            return score
        return self.calibration(score)


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
    question: Question, statistics: PhaseStats | None, kind: str
) -> tuple[float, float]:
    """a and b of the data set: measured in this run where statistics are given, else priors."""
    for source in (statistics, question.priors):
        if source is not None and source.a is not None and source.b is not None:
            return source.a, source.b
    raise ConfigError(
        f"{kind} needs a and b for every question, got none for question "
        f"{question.question_id!r} of {question.benchmark!r}: give priors (science.priors of a "
        "run, priors of a sweep, priors= of open_pool)"
    )
