"""MarkovScale^0: no training; the prior is a heuristic, a and b are counted on the run itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pipeline.core.decoding import Decoding
from pipeline.core.errors import ConfigError
from pipeline.core.phases import Phase, QuestionRecord, WholePhase
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import Action, Completion, Observation, Question, Statistics
from pipeline.statistics.calibration_maps import CalibrationMap
from pipeline.strategies.mr_thinking import MRThinking
from pipeline.strategies.samples import Profile
from pipeline.strategies.sequential import (
    ChainState,
    Plan,
    advance,
    begin,
    check_budget,
    check_unit,
)
from pipeline.theory.posterior import BetaPosterior
from pipeline.theory.stopping import StopRule
from pipeline.theory.transitions import Labels, count, labels_of_scores, total


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkovScale0:
    """MarkovScale^0: a heuristic prior, and a and b from the run's own first rounds.

    Two phases: `warm_up` rounds for every question; then, with a and b counted over the data set
    (an answer counts as right where its verifier score is at least `right_from`, never by gold),
    the chains go on under the stopping rule, first tested once the warm-up rounds are told.

    ``profile: paper`` neither waits for the warm-up nor bills it: a and b are taken for known, and
    each question stops as early as its first round lets it, which is what the published token
    counts can come from. A run draws the warm-up all the same, so its bill is less than it made.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "markovscale_0"
    default_rule: ClassVar[str] = "prm_argmax"
    needs_score: ClassVar[bool] = True
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Completions a question at most, >= 1."""
    tau: float = 0.95
    """Confidence asked for, in [0, 1]."""
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
    stop_rule: StopRule = StopRule.PRINTED
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score: bool = True
    """Whether completions are scored by the verifier."""
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
        return (
            WarmUp(
                strategy=rounds,
                right_from=self.right_from,
                calibration=self.calibration,
                stream=None if self.profile == "paper" else "",
            ),
            WholePhase(name="continue", strategy=self),
        )

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[ChainState, Action]:
        """Ask the plain question; rounds already drawn in the warm-up are told again for free."""
        if statistics is None or statistics.a is None or statistics.b is None:
            raise ConfigError("markovscale_0 needs statistics with a and b, run its warm-up phase")
        plan = Plan(
            n=self.n,
            decoding=self.decoding,
            prompts=self.prompts,
            score=self.score,
            calibration=self.calibration,
            gate=self.gate,
            stop_rule=self.stop_rule,
            rounds_before_stopping=1 if self.profile == "paper" else min(self.warm_up, self.n),
            tau=self.tau,
            sigma=self.sigma,
            a=statistics.a,
            b=statistics.b,
            p0=self.alpha0 / (self.alpha0 + self.beta0),
            p0_source="heuristic",
        )
        return begin(question, plan, BetaPosterior(self.alpha0, self.beta0))

    def step(
        self, state: ChainState, observations: Sequence[Observation]
    ) -> tuple[ChainState, Action]:
        """Update the posterior; stop or revise."""
        return advance(state, observations)


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """The rounds that MarkovScale^0 draws for every question to count a and b."""

    name: ClassVar[str] = "warm_up"
    answers: ClassVar[bool] = False
    reads_texts: ClassVar[bool] = False
    strategy: MRThinking
    right_from: float
    calibration: CalibrationMap | None = None
    stream: str | None = ""
    """None where nobody is billed for them (`pipeline.core.phases.stream_of`)."""

    def selects(self, question_id: str, statistics: Statistics | None) -> bool:
        """Every question takes part."""
        return True

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: Statistics | None
    ) -> Statistics:
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
        return Statistics(
            a=(counts.right_wrong + 0.5) / (counts.from_right + 1.0),
            b=(counts.wrong_right + 0.5) / (counts.from_wrong + 1.0),
            labels=Labels.SCORE.value,
        )

    def _score(self, observation: Observation) -> float | None:
        score = observation.score if isinstance(observation, Completion) else None
        if score is None or self.calibration is None:
            return score
        return self.calibration(score)
