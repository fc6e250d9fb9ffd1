"""Independent samples of one prompt, as all parallel strategies draw them.

Samples stand at round 0 of the parallel pool and are numbered in the order in which they are asked
for, whatever the strategy and its budget, so all of them draw the same completions. A failed sample
keeps its place, counts against the budget and does not vote.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Literal

from pipeline.answers.voting import Cluster, clusters, leader
from pipeline.core.protocol import (
    Completion,
    Generate,
    Observation,
    Pool,
    Question,
    Stop,
    StopReason,
    Strategy,
)

Profile = Literal["upstream", "paper"]
"""``upstream`` follows the method's own code, ``paper`` the code behind the paper's tables."""


class Samples:
    """The samples of one question so far."""

    def __init__(self, question: Question, strategy: Strategy) -> None:
        self.question, self.strategy = question, strategy
        self.drawn = 0
        """Samples requested, failed ones included."""
        self.completions: dict[int, Completion] = {}
        """By position, ascending, without the failed ones."""

    @property
    def answers(self) -> list[str | None]:
        """Of the completions; None where one has none."""
        return [completion.answer for completion in self.completions.values()]

    @property
    def scores(self) -> list[float]:
        """Of the completions that have one."""
        return [c.score for c in self.completions.values() if c.score is not None]

    def draw(
        self, count: int, *, needs_scores: bool = False
    ) -> Generator[Generate, Sequence[Observation], None]:
        """Ask for the next `count` samples at once; they share a prompt, computed once."""
        messages = self.strategy.prompts_of(self.question).ask(self.question.text)
        requests = tuple(
            self.strategy.request(self.question, messages, pool=Pool.PARALLEL, sample=position)
            for position in range(self.drawn, self.drawn + count)
        )
        self.add((yield Generate(requests, needs_scores)))

    def add(self, observations: Sequence[Observation]) -> None:
        """Add what came for the next samples."""
        for position, observation in enumerate(observations, start=self.drawn):
            if isinstance(observation, Completion):
                self.completions[position] = observation
        self.drawn += len(observations)

    def stop(self, reason: StopReason, rounds: Iterable[int] | None = None) -> Stop:
        """Stop on the samples at `rounds`, by default on all; failed where all samples did."""
        if not self.completions:
            return Stop(reason=StopReason.FAILED, rounds=())
        return Stop(reason=reason, rounds=tuple(self.completions if rounds is None else rounds))

    def stop_on_vote(
        self,
        reason: StopReason,
        profile: Profile,
        *,
        weights: Sequence[float] | None = None,
        silent: bool = False,
    ) -> Stop:
        """Stop on all samples, for a vote.

        Where "no answer" is a vote (`silent`) and wins, the stop rests on those samples alone,
        which give none. In the paper's profile answers are compared as written and "no answer" is a
        vote like any other, which no answer rule does: there the stop rests on the winning cluster
        alone, and every rule returns its answer.
        """
        winner: Cluster | None
        if profile == "paper":
            winner = leader(clusters(self.answers, weights, as_written=True))
        else:
            winner = leader(clusters(self.answers, silent=silent))
            if winner is not None and winner.answer is not None:
                winner = None
        if winner is None:
            return self.stop(reason)
        positions = list(self.completions)
        return self.stop(reason, [positions[member] for member in winner.members])
