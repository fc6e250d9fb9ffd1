"""*SampleOrders*: averages strategies over samples over random orders of a pool's samples.

A pool holds more samples than a budget of N asks for. Instead of the first N alone, the samples of
every question are put in random orders, and right and tokens are means over them; the recorded
order is one. `judged` of one order is what the state machine decides on the samples in that order.

Axes: Q questions, S samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.core.arrays import BoolArray, FloatArray, IntArray
from pipeline.core.protocol import Completion, Strategy
from pipeline.replay.chain_arrays import RIGHT, WRONG, verdict_code
from pipeline.replay.pools import CompletionPool
from pipeline.statistics.agreement import NO_FORM, count_votes, recent_leader, runs
from pipeline.strategies.best_of_n import BestOfN, aggregate
from pipeline.strategies.self_consistency import (
    AdaptiveConsistency,
    EarlyStoppingSelfConsistency,
    SelfConsistency,
)

ORDERS = 16
"""How many orders are averaged over."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Order:
    """The samples of every question in one order."""

    at_QS: IntArray
    """Which sample stands at each place."""
    form_QS: IntArray
    """Number of each answer as written among the distinct ones in order of appearance, "no answer"
    among them; `NO_FORM` for a failure."""
    leader_QS: IntArray
    """The most frequent answer of the first samples, the first seen on ties."""
    lasts_QS: FloatArray
    """ASC's test after each sample."""


@dataclass(slots=True, kw_only=True, eq=False)
class SampleOrders:
    """The samples of one benchmark of a pool, all of which were scored where any was."""

    form_QS: IntArray
    failed_QS: BoolArray
    silent_QS: BoolArray
    """Whether a sample has no answer: an elected one is wrong."""
    verdict_QS: NDArray[np.int8]
    tokens_QS: IntArray
    value_QS: FloatArray
    """What Best-of-N compares in the paper's profile; nan where it cannot be known."""
    gold_Q: BoolArray
    orders: int = ORDERS
    _made: list[_Order] = field(default_factory=list)

    @classmethod
    def of(cls, pool: CompletionPool, orders: int = ORDERS) -> SampleOrders:
        """All samples of a pool."""
        shape = (len(pool.questions), pool.samples)
        made = cls(
            form_QS=np.full(shape, NO_FORM, np.int64),
            failed_QS=np.zeros(shape, np.bool_),
            silent_QS=np.zeros(shape, np.bool_),
            verdict_QS=np.full(shape, verdict_code(None), np.int8),
            tokens_QS=np.zeros(shape, np.int64),
            value_QS=np.full(shape, np.nan),
            gold_Q=np.array([question.gold is not None for question in pool.questions]),
            orders=orders,
        )
        for q, question in enumerate(pool.questions):
            numbers: dict[str | None, int] = {}
            for s, entry in enumerate(question.samples[: pool.samples]):
                seen = entry.observation
                made.verdict_QS[q, s] = verdict_code(question.sample_verdicts[s])
                if not isinstance(seen, Completion):
                    made.failed_QS[q, s] = True
                    continue
                made.form_QS[q, s] = numbers.setdefault(seen.answer, len(numbers))
                made.silent_QS[q, s] = seen.answer is None
                made.tokens_QS[q, s] = seen.completion_tokens
                if not seen.text:
                    made.value_QS[q, s] = 0.0
                elif seen.step_scores is not None:
                    made.value_QS[q, s] = aggregate(seen, "mean", s)
        return made

    def expected(self, strategy: Strategy) -> tuple[FloatArray, FloatArray] | None:
        """(Q,) right, nan where no order was graded, and (Q,) tokens, means over the orders; None
        for strategies that are not read here."""
        judged = [one for order in self._all() if (one := self._judged(order, strategy))]
        if not judged:
            return None
        right, tokens = (np.array(values) for values in zip(*judged, strict=True))
        known = ~np.isnan(right)
        total = np.where(known, right, 0.0).sum(axis=0)
        mean = np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)
        return np.asarray(mean), np.asarray(tokens.mean(axis=0))

    def single(self) -> tuple[FloatArray, FloatArray]:
        """(Q,) right, nan where none is graded, and (Q,) tokens, means over all samples: avg@S."""
        known_QS = self.gold_Q[:, None] & np.isin(self.verdict_QS, (RIGHT, WRONG))
        known_QS |= self.gold_Q[:, None] & self.failed_QS  # a failure is no right answer
        right_Q = (known_QS & (self.verdict_QS == RIGHT)).sum(axis=1)
        known_Q = known_QS.sum(axis=1)
        mean_Q = np.where(known_Q > 0, right_Q / np.maximum(known_Q, 1), np.nan)
        return mean_Q, self.tokens_QS.mean(axis=1)

    def _all(self) -> Iterator[_Order]:
        rng = np.random.default_rng(0)
        for number in range(self.orders):
            if number == len(self._made):
                shape = self.form_QS.shape
                places = np.broadcast_to(np.arange(shape[1]), shape)
                shuffled = rng.random(shape).argsort(axis=1) if number else places
                self._made.append(self._in_order(np.asarray(shuffled)))
            yield self._made[number]

    def _in_order(self, at_QS: IntArray) -> _Order:
        form_QS = relabelled(np.take_along_axis(self.form_QS, at_QS, axis=1))
        return _Order(
            at_QS=at_QS,
            form_QS=form_QS,
            leader_QS=recent_leader(form_QS, 1.0),
            lasts_QS=count_votes(form_QS).lasts_QT,
        )

    def _judged(self, order: _Order, strategy: Strategy) -> tuple[FloatArray, FloatArray] | None:
        n = strategy.n
        size_Q = np.full(len(self.form_QS), n)
        if getattr(strategy, "profile", "") != "paper" or n > self.form_QS.shape[1]:
            return None
        if type(strategy) is BestOfN and strategy.aggregation == "mean":
            return self._best(order, n)
        if type(strategy) is AdaptiveConsistency and strategy.batch == 1:
            hit_QN = order.lasts_QS[:, :n] >= strategy.threshold
            hit_QN &= (np.arange(n) >= 1) & (order.leader_QS[:, :n] != NO_FORM)
            size_Q = np.where(hit_QN.any(axis=1), hit_QN.argmax(axis=1) + 1, n)
        elif type(strategy) is EarlyStoppingSelfConsistency:
            window = strategy.window
            hit_QN = (runs(order.form_QS) >= window)[:, :n]
            hit_QN &= (np.arange(1, n + 1) % window == 0)[None]
            size_Q = np.where(hit_QN.any(axis=1), hit_QN.argmax(axis=1) + 1, n)
        elif type(strategy) is not SelfConsistency or strategy.weighted:
            return None
        rows = np.arange(len(size_Q))
        leader_Q = order.leader_QS[rows, size_Q - 1]
        place_Q = (order.form_QS == leader_Q[:, None]).argmax(axis=1)
        none_Q = (leader_Q == NO_FORM) | self.silent_QS[rows, order.at_QS[rows, place_Q]]
        right_Q = self._right(order, np.where(none_Q, -1, place_Q))
        return right_Q, self._tokens(order, size_Q)

    def _best(self, order: _Order, n: int) -> tuple[FloatArray, FloatArray] | None:
        failed_QN = np.take_along_axis(self.failed_QS, order.at_QS, axis=1)[:, :n]
        value_QN = np.take_along_axis(self.value_QS, order.at_QS, axis=1)[:, :n]
        if np.isnan(value_QN[~failed_QN]).any():
            return None
        place_Q = np.where(failed_QN, -1.0, np.nan_to_num(value_QN)).argmax(axis=1)
        place_Q = np.where(failed_QN.all(axis=1), -1, place_Q)
        return self._right(order, place_Q), self._tokens(order, np.full(len(place_Q), n))

    def _right(self, order: _Order, place_Q: IntArray) -> FloatArray:
        """Of the samples at some places; -1 is none, which is wrong."""
        rows = np.arange(len(place_Q))
        verdict_Q = self.verdict_QS[rows, order.at_QS[rows, np.maximum(place_Q, 0)]]
        verdict_Q = np.where(place_Q < 0, WRONG, verdict_Q)
        known_Q = self.gold_Q & np.isin(verdict_Q, (RIGHT, WRONG))
        return np.where(known_Q, verdict_Q == RIGHT, np.nan)

    def _tokens(self, order: _Order, size_Q: IntArray) -> FloatArray:
        tokens_QS = np.take_along_axis(self.tokens_QS, order.at_QS, axis=1)
        spent_Q = np.cumsum(tokens_QS, axis=1)[np.arange(len(size_Q)), size_Q - 1]
        return np.asarray(spent_Q, np.float64)


def relabelled(form_QS: IntArray) -> IntArray:
    """Answers numbered anew in the order of their first appearance; negative ones stay."""
    kinds = max(int(form_QS.max(initial=0)) + 1, 1)
    first_QK = np.full((len(form_QS), kinds), form_QS.shape[1])
    rows = np.arange(len(form_QS))
    for s in reversed(range(form_QS.shape[1])):
        at = form_QS[:, s] >= 0
        first_QK[rows[at], form_QS[at, s]] = s
    rank_QK = first_QK.argsort(axis=1, kind="stable").argsort(axis=1)
    ranked = np.take_along_axis(rank_QK, np.maximum(form_QS, 0), axis=1)
    return np.where(form_QS >= 0, ranked, form_QS)
