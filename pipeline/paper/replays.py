"""*Replays*: makes the paper's strategies, replays each once, and chooses tuned ones on halves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipeline.answers.answer_rules import AnswerRule
from pipeline.config.science import ScienceConfig
from pipeline.config.strategies import strategy_of
from pipeline.core.arrays import FloatArray, IntArray
from pipeline.core.protocol import Strategy
from pipeline.paper.beliefs import Believed
from pipeline.replay.chain_arrays import (
    ChainArrays,
    chain_arrays,
)
from pipeline.replay.costs import TOKENS, Cost, needs_scores
from pipeline.replay.fast import FastReplay, replays_as_arrays
from pipeline.replay.judging import (
    Answers,
    Judged,
    Setting,
    answers_of,
    judged_by_arrays,
    judged_by_state_machine,
    rights,
)
from pipeline.replay.pools import CompletionPool
from pipeline.replay.sweep import HALVES
from pipeline.results.column import HELD_OUT, TEST

BUDGETS = (8, 16, 32, 64)
"""N of the paper's tables."""
TAUS = tuple(round(0.80 + 0.01 * step, 2) for step in range(20))
GAMMAS = (1.0, 4.0, 7.0, 10.0, 20.0)
GAMMA = 10.0
"""The paper's choice, wherever gamma is not what is tried."""
SAMPLERS = ("best_of_n", "self_consistency", "esc", "asc", "dsc")
"""Kinds that read the parallel pool."""


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes strategies with the prompts and the decoding of a pool."""

    science: ScienceConfig
    p0_source: str = "auto"
    """``first_score`` where nothing predicts p0."""

    @property
    def scored(self) -> bool:
        """Whether the pool has verifier scores."""
        return self.science.verifier is not None

    def __call__(self, kind: str, **values: Any) -> Strategy:
        """One setting of a strategy; the rest of its fields at their defaults."""
        shared: dict[str, Any] = {"profile": "paper", "p0_source": self.p0_source}
        if kind == "best_of_n":
            shared["aggregation"] = "mean"
        return strategy_of(kind, self.science, **shared | values)


def budgets_of(rounds: int, samples: int) -> tuple[int, ...]:
    """The paper's budgets that a pool is deep enough for; its own depth where it is below all."""
    deepest = max(rounds, samples)
    return tuple(n for n in BUDGETS if n <= deepest) or (deepest,)


JUDGED, TUNED = "judged", "tuned"
"""Which priors a setting is replayed with (`Believed`)."""

Candidate = tuple[Strategy, AnswerRule]
"""A setting, and how its answer is read."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """A candidate for the questions of each half."""

    picked: tuple[Candidate, ...]
    """One a half; the same twice where nothing was chosen apart."""
    chosen_on: str | None
    tied: tuple[int, ...] = ()
    """For each half, candidates that decide as the picked one does where it was chosen."""
    tried: int = 0
    """Candidates that there were."""


def fixed(strategy: Strategy, rule: AnswerRule | None = None) -> Choice:
    """A setting that was not chosen, read by its own rule unless another is given."""
    candidate = (strategy, rule or AnswerRule(strategy.default_rule))
    return Choice(picked=(candidate, candidate), chosen_on=None)


@dataclass(slots=True, eq=False)
class Replays:
    """One benchmark of a pool under many settings."""

    believed: Believed
    make: Maker
    chains: ChainArrays
    cost: Cost = TOKENS
    """What ``tokens`` of every column are."""
    _fast: dict[str, list[FastReplay]] = field(default_factory=dict)
    """One a chain of the questions; settings are chosen on the first."""
    _judged: dict[tuple[str, int, Strategy], Judged] = field(default_factory=dict)
    _answers: Answers = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        believed: Believed,
        make: Maker,
        chains: ChainArrays | None = None,
        cost: Cost = TOKENS,
    ) -> Replays:
        """The benchmark as it was recorded; `chains` may be those of the same pool with other
        beliefs, which are then replayed alone."""
        pool, tuned = believed.judged, believed.tuned
        every = (
            [chains]
            if chains is not None
            else [chain_arrays(pool.with_chain(chain)) for chain in range(max(1, pool.chains))]
        )
        questions, seen = (tuple(q.question for q in one.questions) for one in (pool, tuned))
        every = [replace(one, question_Q=questions) for one in every]
        replays = cls(believed, make, every[0], cost)
        replays._fast = {
            JUDGED: [FastReplay(one) for one in every],
            TUNED: [FastReplay(replace(every[0], question_Q=seen))],
        }
        return replays

    def with_p0(self, p0_Q: FloatArray) -> Replays:
        """The same with a p0 of every question in place of the first score."""

        def told(pool: CompletionPool) -> CompletionPool:
            questions = []
            for q, p0 in zip(pool.questions, p0_Q.tolist(), strict=True):
                priors = replace(q.question.priors, p0=p0, p0_source="predictor")
                questions.append(replace(q, question=replace(q.question, priors=priors)))
            return replace(pool, questions=tuple(questions))

        of = self.believed
        believed = replace(of, judged=told(of.judged), tuned=told(of.tuned))
        make = replace(self.make, p0_source="auto")
        return Replays.of(believed, make, self.chains, self.cost)

    def judged(self, strategy: Strategy, world: str = JUDGED, chain: int = 0) -> Judged:
        """A setting on every question, with one chain of each."""
        key = (world, chain, strategy)
        if key not in self._judged:
            self._judged[key] = self._replay(strategy, world, chain)
        return self._judged[key]

    def _replay(self, strategy: Strategy, world: str, chain: int) -> Judged:
        if replays_as_arrays(strategy):
            fast = self._fast[world][chain]
            return judged_by_arrays(fast.chains, fast.decide(strategy))
        if not self._answers:
            self._answers = answers_of(self.believed.judged)
        return judged_by_state_machine(self.believed.judged, strategy, self._answers)

    def _setting(self, strategy: Strategy) -> Setting:
        """A setting with all chains of the questions, where it reads chains."""
        chains = len(self._fast[JUDGED]) if replays_as_arrays(strategy) else 1
        judged = tuple(self.judged(strategy, JUDGED, chain) for chain in range(chains))
        return Setting(label=strategy.kind, strategy=strategy, judged_C=judged)

    def right(self, choice: Choice) -> FloatArray:
        """(Q,) 1 right, 0 wrong, nan where nobody can say; the share of right ones of several
        chains."""
        right = [self._setting(strategy).right_Q(rule) for strategy, rule in choice.picked]
        return np.asarray(self._merged(right))

    def tokens(self, choice: Choice) -> FloatArray:
        """(Q,) what every question costs: completion tokens, or another axis."""
        spent = [
            self.cost.of(self._setting(strategy).spent_Q, scored=needs_scores(strategy, rule))
            for strategy, rule in choice.picked
        ]
        return np.asarray(self._merged(spent), float)

    def cost_QD(self, *, scored: bool) -> FloatArray:
        """(Q, D) what the first d completions of every chain cost."""
        return self.cost.of(self.chains.spent_QD, scored=scored)

    def drawn(self, choice: Choice) -> IntArray:
        """(Q,) completions."""
        return np.asarray(self._merged([self.judged(s).completions_Q for s, _ in choice.picked]))

    def _merged(self, by_half: Sequence[Any]) -> Any:
        return np.where(self.believed.half_Q == 0, by_half[0], by_half[1])

    def on_other_half(self, candidates: Sequence[Candidate]) -> Choice:
        """For each half the candidate that does best on the other one."""
        picked = tuple(
            self._best(candidates, self.believed.half_Q == 1 - half, TUNED)
            for half in range(HALVES)
        )
        tied = tuple(
            self._alike(candidates, one, self.believed.half_Q == 1 - half)
            for half, one in enumerate(picked)
        )
        return Choice(picked=picked, chosen_on=HELD_OUT, tied=tied, tried=len(candidates))

    def _alike(self, candidates: Sequence[Candidate], picked: Candidate, at_Q: Any) -> int:
        """How many candidates stop every chain where the picked one does, read by the same rule."""
        drawn_Q = self.judged(picked[0], TUNED).completions_Q[at_Q]
        return sum(
            rule == picked[1]
            and bool(np.array_equal(self.judged(strategy, TUNED).completions_Q[at_Q], drawn_Q))
            for strategy, rule in candidates
        )

    def on_test(self, candidates: Sequence[Candidate]) -> Choice:
        """The candidate that does best on the very questions that it is judged on: too good."""
        best = self._best(candidates, np.ones(len(self.believed.half_Q), np.bool_), JUDGED)
        return Choice(picked=(best, best), chosen_on=TEST)

    def _best(self, candidates: Sequence[Candidate], chosen_Q: Any, world: str) -> Candidate:
        """The most accurate; of equals the one with fewest tokens, the first."""

        def key(candidate: Candidate) -> tuple[float, int]:
            judged = self.judged(candidate[0], world)
            right_Q = rights(judged, candidate[1])[chosen_Q]
            known = right_Q[~np.isnan(right_Q)]
            return (
                -float(known.mean()) if len(known) else 0.0,
                int(judged.tokens_Q[chosen_Q].sum()),
            )

        return min(candidates, key=key)
