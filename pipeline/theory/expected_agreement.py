"""Expected agreement: when another answer of the same question is worth its price.

The answers of a question are taken for draws of a Chinese restaurant process: after m answers the
next one repeats an answer that was seen c times with chance c / (m + alpha) and is new with chance
alpha / (m + alpha). The value of stopping is the expected share of the leading answer, its count
over m + alpha. With a price c of a draw and at most n draws

    W_c(s) = max(value(s), -c + E W_c(next state)),   W_c = value where m = n,

and the index of a state is the largest price at which going on is better than stopping (0 where
none is): the greatest expected gain per expected draw of any plan. Stop where index <= price.

A state is the counts of the distinct answers, falling: 67 states up to n = 8, 915 up to 16. No
label, score or model is looked at. docs/strategies.md names prior work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.core.arrays import BoolArray, FloatArray, IntArray

MOST = 32
"""The largest n: it has 43,820 states."""
_SURE = 1e-12  # a gain below this is rounding

State = tuple[int, ...]
"""Counts of the distinct answers, falling."""


def after(state: State, times: int) -> State:
    """The state after an answer that had been seen `times` times; 0 is a new one."""
    if not times:
        return (*state, 1)
    first = state.index(times)  # of equal counts the first grows, so that the order stands
    return (*state[:first], times + 1, *state[first + 1 :])


@dataclass(frozen=True, slots=True, eq=False)
class AgreementTable:
    """All states of at most n answers, as arrays. Make it with `agreement_table`.

    Axes: S states, B branches of a state, C times an answer was seen, P prices.
    """

    n: int
    alpha: float
    states: tuple[State, ...]
    """By number; the first is the empty one, m never falls."""
    value_S: FloatArray
    drawn_S: IntArray
    """m of each state."""
    next_SC: NDArray[np.int32]
    """The state after an answer that was seen C times before; 0 (a state that is never returned to)
    where that cannot be."""
    _child_SB: IntArray
    _chance_SB: FloatArray
    _number: dict[State, int] = field(repr=False)
    _index: dict[int, float] = field(default_factory=dict, repr=False)

    def number(self, counts: Sequence[int]) -> int:
        """The number of the state with these counts of distinct answers, in any order."""
        return self._number[tuple(sorted(counts, reverse=True))]

    def stops(self, price: float) -> BoolArray:
        """(S,): whether to stop, the index being at most `price` or nothing left to draw."""
        return np.asarray(self._going_on(np.array([price]))[:, 0] <= _SURE)

    def index(self, number: int) -> float:
        """The index of one state, exact but for rounding."""
        if number not in self._index:
            self.indices(np.array([number]))
        return self._index[number]

    def indices(self, number_N: IntArray) -> FloatArray:
        """The indices of states, by Dinkelbach's method on all of them at once."""
        wanted = [s for s in dict.fromkeys(number_N.tolist()) if s not in self._index]
        if wanted:
            self._index.update(zip(wanted, self._dinkelbach(wanted).tolist(), strict=True))
        return np.array([self._index[s] for s in number_N.tolist()])

    def _going_on(self, price_P: FloatArray) -> FloatArray:
        """(S, P): what one more draw and the best plan after it add to stopping; 0 at m = n."""
        worth = np.repeat(self.value_S[:, None], len(price_P), axis=1)
        gain = np.zeros_like(worth)
        for at in self._levels():
            later = np.einsum("sb,sbp->sp", self._chance_SB[at], worth[self._child_SB[at]])
            gain[at] = later - price_P - self.value_S[at, None]
            worth[at] += np.maximum(gain[at], 0.0)
        return gain

    def _dinkelbach(self, wanted: list[int]) -> FloatArray:
        price_P = np.zeros(len(wanted))
        columns = np.arange(len(wanted))
        while True:
            gain, draws = self._best_plan(price_P)
            own_gain, own_draws = gain[wanted, columns], draws[wanted, columns]
            better = own_gain - price_P * own_draws > _SURE
            if not better.any():
                return price_P
            price_P = np.where(better, own_gain / np.where(own_draws > 0, own_draws, 1), price_P)

    def _best_plan(self, price_P: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(S, P) gain in value and draws of going on once and then by the best plan; 0 at m = n."""
        shape = (len(self.states), len(price_P))
        gain, draws = np.zeros(shape), np.zeros(shape)
        gain_after, draws_after = np.zeros(shape), np.zeros(shape)  # of the best plan, or stopping
        for at in self._levels():
            chance, child = self._chance_SB[at], self._child_SB[at]
            later = self.value_S[child][:, :, None] + gain_after[child]
            gain[at] = np.einsum("sb,sbp->sp", chance, later) - self.value_S[at, None]
            draws[at] = 1 + np.einsum("sb,sbp->sp", chance, draws_after[child])
            on = gain[at] - price_P * draws[at] > 0
            gain_after[at] = np.where(on, gain[at], 0.0)
            draws_after[at] = np.where(on, draws[at], 0.0)
        return gain, draws

    def _levels(self) -> Sequence[slice]:
        """The states with m = n - 1, n - 2, ..., 1, in pieces that fit into memory."""
        ends = np.searchsorted(self.drawn_S, np.arange(self.n + 1))
        return [
            slice(first, min(first + _PIECE, int(ends[m + 1])))
            for m in range(self.n - 1, 0, -1)
            for first in range(int(ends[m]), int(ends[m + 1]), _PIECE)
        ]


_PIECE = 512


@lru_cache(maxsize=8)
def agreement_table(n: int, alpha: float) -> AgreementTable:
    """The states of at most n answers.

    Args:
        n: answers at most, from 1 to `MOST`.
        alpha: how readily new answers come, > 0.

    Raises:
        ValueError: at another n or alpha.
    """
    if not 1 <= n <= MOST:
        raise ValueError(f"n must be from 1 to {MOST} for expected agreement, got {n!r}")
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha must be > 0, got {alpha!r}")
    number: dict[State, int] = {(): 0}
    level: list[State] = [()]
    children: list[list[tuple[int, State, float]]] = []
    for m in range(n):
        following: dict[State, None] = {}
        for state in level:
            branches = []
            for times in (*dict.fromkeys(state), 0):
                then = after(state, times)
                seats = times * state.count(times) if times else alpha
                branches.append((times, then, seats / (m + alpha)))
                following[then] = None
            children.append(branches)
        level = list(following)
        for state in level:
            number[state] = len(number)
    states = tuple(number)
    most = max(map(len, children), default=1)
    child_SB = np.zeros((len(states), most), np.int64)
    chance_SB = np.zeros((len(states), most))
    next_SC = np.zeros((len(states), n + 1), np.int32)
    for s, branches in enumerate(children):
        for b, (times, then, chance) in enumerate(branches):
            child_SB[s, b], chance_SB[s, b] = number[then], chance
            next_SC[s, times] = number[then]
    drawn_S = np.array([sum(state) for state in states])
    lead_S = np.array([state[0] if state else 0 for state in states])
    return AgreementTable(
        n, alpha, states, lead_S / (drawn_S + alpha), drawn_S, next_SC, child_SB, chance_SB, number
    )


@lru_cache(maxsize=64)
def _stopping(n: int, price: float, alpha: float) -> tuple[AgreementTable, BoolArray]:
    table = agreement_table(n, alpha)
    return table, table.stops(price)


def stops_on(counts: Sequence[int], n: int, price: float, alpha: float) -> bool:
    """Whether to stop on these counts of distinct answers: their index is at most the price."""
    table, stops_S = _stopping(n, price, alpha)
    return bool(stops_S[table.number(counts)])


def walk(form_QT: IntArray, table: AgreementTable) -> IntArray:
    """(Q, T): the state of each question after each answer.

    Args:
        form_QT: number of each answer among the distinct ones of its question; negative where there
            is none, which counts as an answer of its own. T is at most the table's n.
    """
    questions, rounds = form_QT.shape
    rows = np.arange(questions)
    seen_QK = np.zeros((questions, max(int(form_QT.max(initial=0)) + 1, 1)), np.int64)
    state_QT = np.zeros((questions, rounds), np.int64)
    state_Q = np.zeros(questions, np.int64)
    for t in range(rounds):
        form_Q = np.maximum(form_QT[:, t], 0)
        voted_Q = form_QT[:, t] >= 0
        times_Q = np.where(voted_Q, seen_QK[rows, form_Q], 0)
        state_Q = table.next_SC[state_Q, times_Q].astype(np.int64)
        seen_QK[rows[voted_Q], form_Q[voted_Q]] += 1
        state_QT[:, t] = state_Q
    return state_QT


def first_stop(form_QT: IntArray, n: int, price: float, alpha: float, batch: int = 1) -> IntArray:
    """(Q,): answers drawn before the rule stops, tested after each batch; at most n."""
    table, stops_S = _stopping(n, price, alpha)
    stops_QT = stops_S[walk(form_QT[:, :n], table)]
    tested = (np.arange(1, stops_QT.shape[1] + 1) % batch == 0)[None] & stops_QT
    return np.where(tested.any(axis=1), tested.argmax(axis=1) + 1, n)


def counts_of(forms: Sequence[int]) -> list[int]:
    """Counts of the distinct answers of one question, each answer without a form (negative) one of
    its own."""
    counts: dict[Any, int] = {}
    for place, form in enumerate(forms):
        key: Any = form if form >= 0 else ("none", place)
        counts[key] = counts.get(key, 0) + 1
    return list(counts.values())
