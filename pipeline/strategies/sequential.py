"""One sequential chain: ask, show the model its previous answer, ask again, and when to stop.

Base, MR-Thinking and the three MarkovScale variants are the same chain under different settings, as
is any rule of a user's own that derives from `ChainStrategy`.

Counting: N is the number of completions drawn; round r = 0 is the first answer. The paper's rule
is tested with i = r + 1 after round r was scored, so a gated question costs one completion.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from pipeline.answers.voting import forms
from pipeline.core.errors import ProtocolError
from pipeline.core.prices import Prices
from pipeline.core.protocol import (
    Belief,
    Completion,
    Decisions,
    Generate,
    Observation,
    PhaseStats,
    Question,
    Stop,
    StopReason,
    Strategy,
)
from pipeline.statistics.agreement import runs
from pipeline.statistics.calibration_maps import CalibrationMap
from pipeline.theory.markov import Regime, eq12_holds, regime
from pipeline.theory.posterior import BetaPosterior
from pipeline.theory.settling import Settling

_TOLERANCE = 1e-12
MOST = 32_767
"""Completions a question at most: positions among them take 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSettings:
    """What a chain decides by: the strategy's settings and what is believed of one question."""

    n: int
    """Completions at most."""
    score: bool = True
    """Whether completions are scored."""
    gate: bool = False
    stopping: bool = False
    min_rounds: int = 1
    """Completions before the gate and the stopping rule are first tested."""
    tau: float = 1.0
    sigma: float = 0.0
    gamma: float = 10.0
    kept: float | None = None
    """q of a chain whose changes die out (`pipeline.theory.settling`, U): the gate and the stopping
    rule are then its own. None for the paper's chain."""
    price: float = 0.0
    """Of a round of such a chain: the accuracy that it must be expected to bring."""
    value_of_right_usd: float | None = None
    """What a right answer is worth: a round must be expected to bring as much of it as the rounds
    before have cost on average at `usd_per_million`."""
    usd_per_million: Prices | None = None
    calibration: CalibrationMap | None = None
    """What a score is worth as a chance of being right; None takes it as it is."""
    a: float | None = None
    b: float | None = None
    p0: float | None = None
    p0_source: str | None = None
    """``first_score`` where p0 is the score of round 0."""
    prior: BetaPosterior | None = None
    """None makes it of p0 and gamma (Eq. 16)."""
    chain: int = 0
    """Which of several chains of the question this is; each has its own seeds."""


class ChainBelief:
    """What a chain believes of its question, round by round (Eq. 16 to 18)."""

    def __init__(self, settings: ChainSettings) -> None:
        self.settings = settings
        self.p0 = settings.p0
        self.path: tuple[float, ...] = ()
        """Posterior mode after each round."""
        self._answers: list[str | None] = []
        self._spent = dict.fromkeys(("prompt", "cached", "completion", "verifier"), 0)
        self._posterior = settings.prior
        if self._posterior is None and self.p0 is not None and settings.stopping:
            self._posterior = BetaPosterior.prior(p0_hat=self.p0, gamma=settings.gamma)

    def update(self, round: int, completion: Completion) -> None:
        """Add the score of a round (Eq. 17) and its mode (Eq. 18); without a score, keep both."""
        settings, score = self.settings, completion.score
        spent = self._spent
        spent["prompt"] += completion.prompt_tokens
        spent["cached"] += completion.cached_prompt_tokens
        spent["completion"] += completion.completion_tokens
        spent["verifier"] += completion.verifier_tokens
        self._answers.append(completion.answer)
        if score is None:
            return
        if settings.calibration is not None:
            score = settings.calibration(score)
        if round == 0 and settings.p0_source == "first_score":
            self.p0 = score
            if settings.stopping and self._posterior is None:
                self._posterior = BetaPosterior.prior(p0_hat=score, gamma=settings.gamma)
        if self._posterior is not None:
            self._posterior = self._posterior.update(score)
            self.path = (*self.path, self._posterior.map)

    def is_gated(self) -> bool:
        """Theorem 1: scaling is beneficial if and only if p0 < L + sigma."""
        settings = self.settings
        if self.p0 is None or settings.a is None or settings.b is None:
            raise ProtocolError("the gate needs p0, a and b")
        if settings.kept is not None:
            limit = Settling(a=settings.a, b=settings.b, kept=settings.kept).limit(self.p0)
            return not limit + settings.sigma - self.p0 > _TOLERANCE
        found = regime(p0=self.p0, a=settings.a, b=settings.b, sigma=settings.sigma)
        return found is not Regime.BENEFICIAL

    def is_confident(self, drawn: int) -> bool:
        """Whether the stopping rule holds after so many completions."""
        settings = self.settings
        if not settings.stopping:
            return False
        if settings.a is None or settings.b is None or not self.path:
            raise ProtocolError("the stopping rule needs p0, a and b")
        if settings.value_of_right_usd is not None and settings.usd_per_million is not None:
            usd = settings.usd_per_million.of(**self._spent) / drawn
            if self._gain(settings.a, settings.b) * settings.value_of_right_usd <= usd:
                return True
        if settings.kept is not None:
            gain = self._gain(settings.a, settings.b)
            return self.path[-1] >= settings.tau or gain <= settings.price
        return eq12_holds(drawn, p_map=self.path[-1], a=settings.a, b=settings.b, tau=settings.tau)

    def _gain(self, a: float, b: float) -> float:
        """What one more round is expected to add to the chance of a right answer."""
        kept = self.settings.kept
        if kept is None:
            return Settling(a=a, b=b, kept=1.0).gain(self.path[-1], 1)
        run = int(runs(np.array([forms(self._answers)]))[0, -1])
        return Settling(a=a, b=b, kept=kept).gain(self.path[-1], max(run, 1))

    def stop(self, reason: StopReason, drawn: int) -> Stop:
        """A stop on all rounds."""
        settings = self.settings
        believed = Belief(
            p0=self.p0, p0_source=settings.p0_source, a=settings.a, b=settings.b, path=self.path
        )
        return Stop(reason=reason, rounds=tuple(range(drawn)), belief=believed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStrategy(Strategy):
    """A chain whose every decision follows from its `settings`.

    Live runs and exact replay run `decide`; sweeps replay the settings as arrays.
    """

    pool_replayable: ClassVar[bool] = True
    belief_fields: ClassVar[tuple[str, ...] | None] = None
    """Fields on which a question's p0, a, b and prior depend, where all its other settings are the
    same for every question: strategies of a sweep with equal ones then share arrays. None is right
    for all settings, and slower."""

    @abstractmethod
    def settings(self, question: Question, statistics: PhaseStats | None = None) -> ChainSettings:
        """What the chain of a question decides by."""

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Ask, show the answer, ask again; the order of the tests is that of `StopReason`."""
        settings = self.settings(question, statistics)
        belief = ChainBelief(settings)
        reads_p0 = settings.gate and settings.p0_source == "first_score"
        needs_scores = settings.stopping or reads_p0
        revisions = Revisions(question, self, settings.chain)
        for round in range(settings.n):
            drawn = round + 1
            completion = yield from revisions.draw(score=settings.score, needs_scores=needs_scores)
            if completion is None:
                return belief.stop(StopReason.FAILED, round)
            belief.update(round, completion)
            if settings.gate and drawn == settings.min_rounds and belief.is_gated():
                return belief.stop(StopReason.GATED, drawn)
            if drawn >= settings.min_rounds and belief.is_confident(drawn):
                return belief.stop(StopReason.CONFIDENT, drawn)
        return belief.stop(StopReason.BUDGET, settings.n)


class Revisions:
    """The rounds of one chain: the same requests for every strategy that draws them."""

    def __init__(self, question: Question, strategy: Strategy, chain: int = 0) -> None:
        self.question, self.strategy, self.chain = question, strategy, chain
        self.completions: list[Completion] = []

    @property
    def answers(self) -> list[str | None]:
        """Of the rounds; None where one has none."""
        return [completion.answer for completion in self.completions]

    def draw(
        self, *, score: bool, needs_scores: bool = False
    ) -> Generator[Generate, Sequence[Observation], Completion | None]:
        """Ask plainly, or show the answer of the last round and ask again; None at a failure."""
        prompts, text = self.strategy.prompts_of(self.question), self.question.text
        if self.completions:
            last = self.completions[-1]
            shown = prompts.fed_back(last.text, last.answer)
            messages = prompts.ask_again(text, shown, last.feedback)
        else:
            messages = prompts.ask(text)
        request = self.strategy.request(
            self.question,
            messages,
            chain=self.chain,
            round=len(self.completions),
            score=score,
        )
        request = replace(request, check=prompts.shows_feedback)
        (observation,) = yield Generate((request,), needs_scores)
        if not isinstance(observation, Completion):
            return None
        self.completions.append(observation)
        return observation


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionStrategy(Strategy):
    """A chain that is revised until a test of its rounds says why it stops, at most `n` rounds."""

    default_rule: ClassVar[str] = "vote"
    pool_replayable: ClassVar[bool] = True

    @abstractmethod
    def reason_to_stop(self, chain: Revisions) -> StopReason | None:
        """Why the chain stops after its last round; None where it goes on."""

    def stop(self, chain: Revisions, reason: StopReason) -> Stop:
        """The stop, which rests on all rounds."""
        return Stop(reason=reason, rounds=tuple(range(len(chain.completions))))

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Revise until the test says stop or the budget is spent."""
        chain = Revisions(question, self)
        reason = None
        while reason is None and len(chain.completions) < self.n:
            last = yield from chain.draw(score=self.score, needs_scores=self.needs_score)
            reason = StopReason.FAILED if last is None else self.reason_to_stop(chain)
        return self.stop(chain, reason or StopReason.BUDGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Base(ChainStrategy):
    """One completion with the same decoding as every other strategy (not greedy)."""

    kind: ClassVar[str] = "base"
    belief_fields: ClassVar[tuple[str, ...]] = ()
    n: ClassVar[int] = 1

    def settings(self, question: Question, statistics: PhaseStats | None = None) -> ChainSettings:
        """One round."""
        return ChainSettings(n=1, score=self.score)


@dataclass(frozen=True, slots=True, kw_only=True)
class MRThinking(ChainStrategy):
    """MR-Thinking (arXiv 2503.19855): a chain of `n` completions, each but the first shown the
    answer before it."""

    kind: ClassVar[str] = "mr_thinking"
    belief_fields: ClassVar[tuple[str, ...]] = ()

    n: int = 8
    """Completions a question, >= 1."""
    chain: int = 0
    """Which of several independent chains of a question this is, >= 0."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        if self.chain < 0:
            raise ValueError(f"chain must be >= 0, got {self.chain!r}")

    def settings(self, question: Question, statistics: PhaseStats | None = None) -> ChainSettings:
        """All rounds, whatever is believed."""
        return ChainSettings(n=self.n, score=self.score, chain=self.chain)


def check_budget(n: int) -> None:
    """Refuse a budget under one completion, and one that nobody could draw or keep."""
    if n < 1:
        raise ValueError(f"n must be >= 1, got {n!r}")
    if n > MOST:
        raise ValueError(f"n must be at most {MOST}, got {n!r}")


def check_unit(name: str, value: float, *, low: float = 0.0) -> None:
    """Refuse a value outside [low, 1]."""
    if not low <= value <= 1:
        raise ValueError(f"{name} must be in [{low:g}, 1], got {value!r}")
