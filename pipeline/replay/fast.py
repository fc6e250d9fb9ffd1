"""Replay of the sequential family over a whole pool at once, in numpy.

Decides what `pipeline.replay.exact` decides for `base`, `mr_thinking`, the MarkovScale variants,
`chain_asc` and `agree`, from the same numbers by the same arithmetic in the same order, so that not
even rounding differs; tests and ``benchmarks.replay`` compare the two outcome by outcome. The state
machine of a strategy is the definition: where the two should differ, this is wrong.

Axes: Q questions, T rounds of the pool, N = n rounds of a strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from pipeline.answers.answer_rules import Rule
from pipeline.core.arrays import BoolArray, FloatArray, IntArray
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.protocol import Statistics, StopReason, Strategy
from pipeline.replay.chain_arrays import (
    ChainArrays,
)
from pipeline.replay.fast_votes import VOTERS, first_hits, positions
from pipeline.statistics.calibration_maps import CalibrationMap
from pipeline.strategies.agree import Agree
from pipeline.strategies.base import Base
from pipeline.strategies.chain_asc import ChainASC
from pipeline.strategies.markovscale import MarkovScaleStar, MarkovScaleT
from pipeline.strategies.markovscale_0 import MarkovScale0
from pipeline.strategies.mr_thinking import MRThinking
from pipeline.strategies.sequential import ChainState, Plan
from pipeline.theory.markov import stationary_accuracy
from pipeline.theory.stopping import STOP_RULES, StopRule

FAMILY = (Base, MRThinking, MarkovScaleT, MarkovScaleStar, MarkovScale0, *VOTERS)

REASONS = (
    StopReason.FAILED,
    StopReason.GATED,
    StopReason.CONFIDENT,
    StopReason.AGREED,
    StopReason.BUDGET,
)
"""What a chain can stop for, in the order in which it is tested; codes are positions here."""

_NEVER = np.iinfo(np.int64).max
_KEPT = 64  # intermediate arrays held at once, of Q x T numbers each
_TOLERANCE = 1e-12

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """How every question stopped."""

    drawn_Q: IntArray
    """Completions that the answer rests on: those drawn, without a failed last request."""
    reason_Q: IntArray
    """Positions in `REASONS`."""
    position_RQ: dict[Rule, IntArray] | None = None
    """Round that each rule takes the answer from, where the stop rests on some rounds alone."""

    @property
    def failed_Q(self) -> BoolArray:
        """Whether the chain ended with a request that could not be served."""
        return np.asarray(self.reason_Q == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beliefs:
    """What a strategy believes of each question when it starts; nan where it waits for a score."""

    key: Hashable
    p0_Q: FloatArray
    a_Q: FloatArray
    b_Q: FloatArray
    first_score: bool
    prior: tuple[float, float] | None
    """alpha and beta where they are the same for all questions, else p0 and gamma make them."""


def replays_as_arrays(strategy: Strategy[Any]) -> bool:
    """Whether `FastReplay` knows a strategy: chains, with a score in every round. A strategy that
    is derived from one of these may decide otherwise, so it is not taken for it."""
    return type(strategy) in FAMILY and getattr(strategy, "score_every", 1) == 1


@dataclass(frozen=True, slots=True)
class FastReplay:
    """Replays strategies over the chains of a pool; keeps what settings share."""

    chains: ChainArrays
    _kept: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def decide(self, strategy: Strategy[Any]) -> Decisions:
        """Replay one strategy over all questions.

        Raises:
            ConfigError: where the strategy is of another family, needs more rounds than the pool
                has, or lacks a prior.
            DataError: where it needs scores that were not recorded.
        """
        if not replays_as_arrays(strategy) or not isinstance(strategy, FAMILY):
            raise ConfigError(
                f"only chains that score every round are replayed as arrays, got {strategy.kind} "
                f"with score_every {getattr(strategy, 'score_every', 1)}: use pipeline.replay.exact"
            )
        if strategy.n > self.chains.n_rounds:
            raise ConfigError(
                f"n must be at most {self.chains.n_rounds}, the rounds of the pool, "
                f"got {strategy.n}"
            )
        calibration = getattr(strategy, "calibration", None)
        if calibration is not None:  # decisions look at nothing of a score but its mapped value
            mapped = self._keep(
                ("calibrated", calibration), lambda: FastReplay(_mapped(self.chains, calibration))
            )
            raw: Any = strategy
            return mapped.decide(replace(raw, calibration=None))
        if isinstance(strategy, VOTERS):
            return self._voted(strategy)
        beliefs = self._beliefs(strategy)
        plan = self._start(strategy, 0).plan
        gated = confident = np.full_like(self.chains.length_Q, _NEVER)
        if plan.stop_rule is not None or (plan.gate and beliefs.first_score):
            self._check_scores(plan.n)
        if plan.gate:
            at = plan.rounds_before_stopping - 1
            gated = np.where(self._gated(plan, beliefs), at, _NEVER)
        if plan.stop_rule is not None:
            hits_QN = self._confident(plan, plan.stop_rule, beliefs)
            hits_QN[:, : plan.rounds_before_stopping - 1] = False
            confident = np.where(hits_QN.any(axis=1), hits_QN.argmax(axis=1), _NEVER)
        return self._stopped(plan.n, gated=gated, confident=confident)

    def _voted(self, strategy: ChainASC | Agree) -> Decisions:
        hits = first_hits(self.chains, strategy, self._keep)
        decided = self._stopped(strategy.n, confident=hits.confident_Q, agreed=hits.agreed_Q)
        if isinstance(strategy, ChainASC):
            return decided
        chosen = positions(self.chains, strategy, decided.drawn_Q, self._keep)
        return replace(decided, position_RQ=chosen)

    def _stopped(self, n: int, **first_Q: IntArray) -> Decisions:
        """The earliest of the rounds after which each test holds first, by reason."""
        failed = np.where(self.chains.failed_Q, self.chains.length_Q, _NEVER)
        never = np.full_like(failed, _NEVER)
        tests = [first_Q.get(name, never) for name in ("gated", "confident", "agreed")]
        rounds = np.stack([failed, *tests, np.full_like(failed, n - 1)])
        reason_Q = rounds.argmin(axis=0)  # the first of equals, as REASONS are ordered
        last_Q = rounds.min(axis=0)
        return Decisions(drawn_Q=np.where(reason_Q == 0, last_Q, last_Q + 1), reason_Q=reason_Q)

    def _start(self, strategy: Any, q: int) -> ChainState:
        """The strategy's own beginning of a question: its plan is what is vectorised."""
        question = self.chains.question_Q[q]
        state, _ = strategy.start(question, self._statistics(strategy).get(question.benchmark))
        assert isinstance(state, ChainState)  # of every strategy of the family
        return state

    def _beliefs(self, strategy: Any) -> _Beliefs:
        if isinstance(strategy, MarkovScale0):
            key: Hashable = (
                strategy.kind,
                strategy.alpha0,
                strategy.beta0,
                min(strategy.warm_up, strategy.n),
                strategy.right_from,
            )
        else:
            key = (strategy.kind, getattr(strategy, "p0_source", None))
        return self._keep(("beliefs", key), lambda: self._started(strategy, key))

    def _started(self, strategy: Any, key: Hashable) -> _Beliefs:
        plans = [self._start(strategy, q).plan for q in range(len(self.chains.question_Q))]
        first_score = {plan.p0_source == "first_score" for plan in plans}
        if len(first_score) > 1:
            raise ConfigError(
                "p0 must be known of every question or of none, got a mixture: set p0_source"
            )
        heuristic = isinstance(strategy, MarkovScale0)
        return _Beliefs(
            key=key,
            p0_Q=_array([plan.p0 for plan in plans]),
            a_Q=_array([plan.a for plan in plans]),
            b_Q=_array([plan.b for plan in plans]),
            first_score=first_score == {True},
            prior=(strategy.alpha0, strategy.beta0) if heuristic else None,
        )

    def _statistics(self, strategy: Any) -> dict[str, Statistics]:
        """What the warm-up of ^0 learns, by benchmark (`WarmUp.fold`)."""
        if not isinstance(strategy, MarkovScale0):
            return {}
        warm_up = min(strategy.warm_up, strategy.n)
        key = ("statistics", warm_up, strategy.right_from)
        return self._keep(key, lambda: self._counted(warm_up, strategy.right_from))

    def _counted(self, warm_up: int, right_from: float) -> dict[str, Statistics]:
        score_QN = self.chains.score_QT[:, :warm_up]
        known, right = ~np.isnan(score_QN), score_QN >= right_from
        both = known[:, :-1] & known[:, 1:]
        before, after = right[:, :-1], right[:, 1:]
        benchmark_Q = np.array([q.benchmark for q in self.chains.question_Q])
        counted = {}
        for benchmark in dict.fromkeys(benchmark_Q.tolist()):
            of = (benchmark_Q == benchmark)[:, None] & both
            from_right, from_wrong = int(np.sum(of & before)), int(np.sum(of & ~before))
            counted[benchmark] = Statistics(
                a=(int(np.sum(of & before & ~after)) + 0.5) / (from_right + 1.0),
                b=(int(np.sum(of & ~before & after)) + 0.5) / (from_wrong + 1.0),
                labels="score",
            )
        return counted

    def _gated(self, plan: Plan, beliefs: _Beliefs) -> BoolArray:
        """Theorem 1, as `pipeline.theory.markov.regime` decides it."""
        p0_Q = self.chains.score_QT[:, 0] if beliefs.first_score else beliefs.p0_Q
        limit_Q = np.asarray(stationary_accuracy(beliefs.a_Q, beliefs.b_Q))
        return np.asarray(~(limit_Q + plan.sigma - p0_Q > _TOLERANCE))  # nan, no L, is gated

    def _confident(self, plan: Plan, rule: StopRule, beliefs: _Beliefs) -> BoolArray:
        """(Q, N): whether the stopping rule holds after each round."""
        gamma = None if beliefs.prior is not None else plan.gamma
        key = (beliefs.key, gamma)
        map_QT = self._keep(("map", key), lambda: self._posterior_modes(beliefs, plan.gamma))
        map_QN = map_QT[:, : plan.n]
        asked = STOP_RULES[rule]
        prepared = self._keep(
            (rule, key, plan.n),
            lambda: asked.prepared(map_QT, beliefs.a_Q, beliefs.b_Q, plan.n),
        )
        return asked.holds_QN(prepared, map_QN, beliefs.a_Q, beliefs.b_Q, plan)

    def _posterior_modes(self, beliefs: _Beliefs, gamma: float) -> FloatArray:
        """(Q, T): Eq. 16 after each round; sums run round by round, as the updates do."""
        score_QT = self.chains.score_QT
        if beliefs.prior is not None:
            alpha0_Q, beta0_Q = (np.full(len(score_QT), value) for value in beliefs.prior)
        else:
            p0_Q = score_QT[:, 0] if beliefs.first_score else beliefs.p0_Q
            alpha0_Q, beta0_Q = p0_Q * gamma, (1 - p0_Q) * gamma
        alpha = np.cumsum(np.column_stack([alpha0_Q, score_QT]), axis=1)[:, 1:]
        beta = np.cumsum(np.column_stack([beta0_Q, 1 - score_QT]), axis=1)[:, 1:]
        with np.errstate(divide="ignore", invalid="ignore"):  # the branch not taken
            mode, mean = (alpha - 1) / (alpha + beta - 2), alpha / (alpha + beta)
        return np.where((alpha <= 1) | (beta <= 1), mean, mode)

    def _check_scores(self, n: int) -> None:
        told = np.arange(n) < self.chains.length_Q[:, None]
        missing = told & np.isnan(self.chains.score_QT[:, :n])
        if missing.any():
            q, r = np.argwhere(missing)[0]
            question = self.chains.question_Q[q]
            raise DataError(
                f"every round must carry a score, round {r} of question "
                f"{question.question_id!r} of {question.benchmark!r} has none"
            )

    def _keep(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._kept:
            while len(self._kept) >= _KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = make()
        kept: T = self._kept[key]
        return kept


def _mapped(chains: ChainArrays, calibration: CalibrationMap) -> ChainArrays:
    """The chains with calibrated scores, each by the very arithmetic of the map."""
    scores, where_QT = np.unique(chains.score_QT, return_inverse=True)
    values = np.array([calibration(score) for score in scores.tolist()])
    known_QT = ~np.isnan(chains.score_QT)
    score_QT = np.where(known_QT, values[where_QT.reshape(known_QT.shape)], np.nan)
    return replace(chains, score_QT=score_QT)


def _array(values: list[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values])
