"""Self-consistency, and two ways to end it early: ESC and ASC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pipeline.answers.voting import clusters, top_two
from pipeline.core.protocol import Decisions, PhaseStats, Question, StopReason, Strategy
from pipeline.strategies.samples import Profile, Samples
from pipeline.strategies.sequential import check_budget, check_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfConsistency(Strategy):
    """Draw `n` samples at once and vote, ties to the answer seen first (arXiv 2203.11171).

    Profiles: ``upstream`` clusters answers by canonical form and samples without an answer do not
    vote; ``paper`` compares answers as written and "no answer" is a vote like any other.
    """

    kind: ClassVar[str] = "self_consistency"
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Samples a question, >= 1."""
    weighted: bool = False
    """Whether a vote weighs its verifier score."""
    profile: Profile = "upstream"

    def __post_init__(self) -> None:
        check_budget(self.n)

    @property
    def needs_score(self) -> bool:
        """Only the weighted vote does."""
        return self.weighted

    @property
    def default_rule(self) -> str:
        """The vote that defines its answer."""
        return "prm_weighted_vote" if self.weighted else "vote"

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Draw all samples and vote."""
        samples = Samples(question, self)
        yield from samples.draw(self.n, needs_scores=self.weighted)
        weights = samples.scores if self.weighted else None
        return samples.stop_on_vote(StopReason.BUDGET, self.profile, weights=weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStoppingSelfConsistency(Strategy):
    """ESC: draw windows of `window` samples, at most `n` in all, until one window agrees in full
    (arXiv 2401.10480).

    A failed sample keeps its window from agreeing. "No answer" is a vote like any other, as in both
    codes, unless `no_answer_votes` is off: then it never wins, and keeps its window from agreeing.
    A budget smaller than one window is a single window, which ``paper`` does not test.

    Profiles: ``upstream`` draws whole windows only (N = 8 draws 5), and a unanimous window answers
    alone, while without one all samples vote. ``paper`` draws the remainder too (without testing
    it), and always votes over all samples so far, answers as written and "no answer" included.
    """

    kind: ClassVar[str] = "esc"
    default_rule: ClassVar[str] = "vote"
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Samples a question at most, >= 1."""
    window: int = 5
    """Samples a window, >= 1."""
    profile: Profile = "upstream"
    no_answer_votes: bool = True
    """Whether samples without an answer vote for none, as in the authors' code."""

    def __post_init__(self) -> None:
        check_budget(self.n)
        if self.window < 1:
            raise ValueError(f"window must be >= 1, got {self.window!r}")
        if not self.no_answer_votes and self.profile == "paper":
            raise ValueError("no_answer_votes must be on in the profile paper, got false")

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Draw windows until one agrees or the budget does not allow another."""
        samples, paper = Samples(question, self), self.profile == "paper"
        size = min(self.window, self.n)
        while size:
            first = samples.drawn
            yield from samples.draw(size)
            if (size == self.window or not paper) and self._agrees(samples, first):
                if paper:
                    return samples.stop_on_vote(StopReason.AGREED, self.profile)
                return samples.stop(StopReason.AGREED, range(first, samples.drawn))
            size = min(self.window, self.n - samples.drawn)
            if size < self.window and not paper:
                break
        silent = self.no_answer_votes
        return samples.stop_on_vote(StopReason.BUDGET, self.profile, silent=silent)

    def _agrees(self, samples: Samples, first: int) -> bool:
        window = [c.answer for position, c in samples.completions.items() if position >= first]
        if not self.no_answer_votes and None in window:
            return False
        votes = clusters(window, as_written=self.profile == "paper", silent=True)
        return len(window) == samples.drawn - first and len(votes) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveConsistency(Strategy):
    """ASC: draw samples until P(Beta(v1+1, v2+1) > 1/2) >= `threshold`, at most `n`, and vote
    (arXiv 2305.11860).

    v1 and v2 are the votes of the two largest clusters; a unanimous question stops at its 4th
    sample under the default threshold.

    Profiles: ``upstream`` clusters by canonical form and "no answer" does not vote; ``paper`` draws
    at least 2 samples, compares answers as written, and "no answer" votes.
    """

    kind: ClassVar[str] = "asc"
    default_rule: ClassVar[str] = "vote"
    pool_replayable: ClassVar[bool] = True

    n: int = 8
    """Samples a question at most, >= 1; 40 in the method's code."""
    threshold: float = 0.95
    """Probability that the majority must reach, in [0, 1]."""
    batch: int = 1
    """Samples drawn between two tests, >= 1; more than 1 saves waiting and costs samples."""
    profile: Profile = "upstream"

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_unit("threshold", self.threshold)
        if self.batch < 1:
            raise ValueError(f"batch must be >= 1, got {self.batch!r}")

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Draw batches until the majority is likely to last or the budget is spent."""
        samples, paper = Samples(question, self), self.profile == "paper"
        while samples.drawn < self.n:
            yield from samples.draw(min(self.batch, self.n - samples.drawn))
            v1, v2 = top_two(clusters(samples.answers, as_written=paper))
            enough = v1 > 0 and samples.drawn >= (2 if paper else 1)
            if enough and p_majority_lasts(v1, v2) >= self.threshold:
                return samples.stop_on_vote(StopReason.AGREED, self.profile)
        return samples.stop_on_vote(StopReason.BUDGET, self.profile)


def p_majority_lasts(v1: int, v2: int) -> float:
    """P(Beta(v1 + 1, v2 + 1) > 1/2) for the counts of the two largest clusters, v1 >= v2 >= 0.

    By the regularised incomplete beta function, which neither under- nor overflows for large
    counts: P(X > 1/2) = I_{1/2}(v2 + 1, v1 + 1).
    """
    from scipy.special import betainc  # here, since a verb's --help imports this module

    return float(betainc(v2 + 1, v1 + 1, 0.5))
