"""The stopping rules of sequential chains; each says here all that others need to know of it.

Live chains ask `Rule.holds`, the replay of arrays `prepared` and `holds_QN`, the order of work
`rounds`, a sweep's table `settings`, and the report `words`. A new rule is a subclass, a member of
`StopRule` and a line of `STOP_RULES`; settings of its own are fields of `Settings`, of
`pipeline.strategies.sequential.ChainSettings` and of the strategies that offer it.

Axes: Q questions, T rounds of a recording, N the rounds of a budget.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Protocol

import numpy as np

from pipeline.core.arrays import BoolArray, FloatArray
from pipeline.theory.markov import (
    accuracy_after,
    eq12_holds,
    rounds_to_reach,
    second_eigenvalue,
)

Written = Callable[[float, int], str]
"""Writes a number to so many digits."""

_TOLERANCE = 1e-12


class StopRule(StrEnum):
    """When a chain is good enough to end before its budget."""

    PRINTED = "printed"
    """Algorithm 1 as printed: lambda^i ((a+b) p_MAP - b) >= (a+b) tau - b with i = r + 1."""
    FORECAST = "forecast"
    """The present belief reaches tau, or no number of the rounds still to come is expected to be
    better than the present one."""


class Settings(Protocol):
    """What a rule may ask of a chain's plan or strategy."""

    @property
    def n(self) -> int:
        """Completions drawn at most."""
        ...

    @property
    def tau(self) -> float:
        """Confidence asked for, in [0, 1]."""
        ...


class Rule(ABC):
    """One stopping rule. a = P(right -> wrong) and b = P(wrong -> right), in [0, 1]."""

    settings: ClassVar[tuple[str, ...]] = ("tau", "gamma")
    """Numeric fields of a strategy that tune it."""

    @abstractmethod
    def holds(self, p_map: float, drawn: int, *, a: float, b: float, plan: Settings) -> bool:
        """Whether a chain stops.

        Args:
            p_map: mode of the posterior, in [0, 1].
            drawn: completions so far, >= 1 (the paper's i = r + 1 after round r).
            a: see above.
            b: see above.
            plan: the chain's.
        """

    @abstractmethod
    def prepared(self, map_QT: FloatArray, a_Q: FloatArray, b_Q: FloatArray, n: int) -> Any:
        """What `holds_QN` needs and settings other than n share; kept between them."""

    @abstractmethod
    def holds_QN(
        self, prepared: Any, map_QN: FloatArray, a_Q: FloatArray, b_Q: FloatArray, plan: Settings
    ) -> BoolArray:
        """(Q, N): `holds` after each round, to the last bit; False where `map_QN` is nan."""

    def rounds(self, plan: Settings, *, p0: float, a: float, b: float) -> int | None:
        """Rounds after round 0 that a chain is expected to take; None for the whole budget."""
        return rounds_to_reach(plan.tau, p0=p0, a=a, b=b, first=0)

    @abstractmethod
    def words(
        self, p_map: float, drawn: int, *, a: float, b: float, plan: Settings, number: Written
    ) -> str:
        """Why a chain stopped, as the end of a sentence"""


class Printed(Rule):
    """`StopRule.PRINTED` (Eq. 12)."""

    def holds(self, p_map: float, drawn: int, *, a: float, b: float, plan: Settings) -> bool:
        """See `pipeline.theory.markov.eq12_holds`."""
        return eq12_holds(drawn, p_map=p_map, a=a, b=b, tau=plan.tau)

    def prepared(self, map_QT: FloatArray, a_Q: FloatArray, b_Q: FloatArray, n: int) -> FloatArray:
        """(Q, N): the left side."""
        total = a_Q + b_Q
        powers = {
            base: [base ** float(i) for i in range(1, n + 1)]  # as Python rounds it
            for base in set((1.0 - total).tolist())
        }
        power_QN = np.array([powers[base] for base in (1.0 - total).tolist()])
        return np.asarray(power_QN * (total[:, None] * map_QT[:, :n] - b_Q[:, None]))

    def holds_QN(
        self,
        prepared: FloatArray,
        map_QN: FloatArray,
        a_Q: FloatArray,
        b_Q: FloatArray,
        plan: Settings,
    ) -> BoolArray:
        """Left side against right."""
        total = a_Q + b_Q
        holds = prepared >= (total * plan.tau - b_Q)[:, None]
        return np.where((total == 0)[:, None], map_QN >= plan.tau, holds)

    def words(
        self, p_map: float, drawn: int, *, a: float, b: float, plan: Settings, number: Written
    ) -> str:
        """Both sides in numbers."""
        left = second_eigenvalue(a, b) ** drawn * ((a + b) * p_map - b)
        right = (a + b) * plan.tau - b
        return (
            f"with p_MAP = {number(p_map, 3)} the stopping rule holds at i = {drawn}: "
            f"λ^i((a+b)p_MAP − b) = {number(left, 4)} ≥ (a+b)τ − b = {number(right, 4)} "
            f"(τ = {plan.tau:g}, a = {number(a, 3)}, b = {number(b, 3)})"
        )


class Forecast(Rule):
    """`StopRule.FORECAST`."""

    def holds(self, p_map: float, drawn: int, *, a: float, b: float, plan: Settings) -> bool:
        """Each number of rounds still to come is tried."""
        if p_map >= plan.tau:
            return True
        to_come = range(1, plan.n - drawn + 1)
        return bool(to_come) and all(
            accuracy_after(k, p0=p_map, a=a, b=b) <= p_map + _TOLERANCE for k in to_come
        )

    def prepared(self, map_QT: FloatArray, a_Q: FloatArray, b_Q: FloatArray, n: int) -> BoolArray:
        """(Q, N): whether rounds are to come, and no number of them is expected to be better.

        p_k - p has its largest value at k = 1 or at the last k: p_k runs to L from one side where
        lambda >= 0, and swings ever less around it where lambda < 0, below p again on p's own side.
        """
        map_QN = map_QT[:, :n]
        stays = np.zeros(map_QN.shape, dtype=np.bool_)
        known = ~np.isnan(map_QN)  # rounds after a failure are not tested
        p = np.where(known, map_QN, 0.0)
        a, b = a_Q[:, None], b_Q[:, None]
        left_N = n - 1 - np.arange(n)
        if n > 1:
            stays[:, :-1] = True
            for ahead in (np.ones(n - 1), left_N[:-1]):
                later = np.asarray(accuracy_after(ahead, p0=p[:, :-1], a=a, b=b))
                stays[:, :-1] &= later <= p[:, :-1] + _TOLERANCE
        return np.asarray(stays & known)

    def holds_QN(
        self,
        prepared: BoolArray,
        map_QN: FloatArray,
        a_Q: FloatArray,
        b_Q: FloatArray,
        plan: Settings,
    ) -> BoolArray:
        """The belief reaches tau, or nothing better is to come."""
        return np.asarray((map_QN >= plan.tau) | prepared)

    def words(
        self, p_map: float, drawn: int, *, a: float, b: float, plan: Settings, number: Written
    ) -> str:
        """Both reasons: which of them it was, the numbers show."""
        return (
            f"p_MAP = {number(p_map, 3)} is at least τ = {plan.tau:g}, or no round still to come "
            f"is expected to be better (a = {number(a, 3)}, b = {number(b, 3)})"
        )


STOP_RULES: dict[StopRule, Rule] = {StopRule.PRINTED: Printed(), StopRule.FORECAST: Forecast()}


def expected_rounds(strategy: Any, *, p0: float, a: float, b: float) -> int | None:
    """Rounds after round 0 that a strategy is expected to take before its rule holds.

    Returns:
        None where it has no rule, or the rule is expected never to hold.
    """
    name = getattr(strategy, "stop_rule", None)
    if name is None or not getattr(strategy, "stopping", True):
        return None
    return STOP_RULES[name].rounds(strategy, p0=p0, a=a, b=b)


def why_stopped(
    strategy: Any, path: Sequence[float], *, a: float, b: float, number: Written
) -> str:
    """`Rule.words` of a strategy's own rule, for the posterior modes after each round."""
    worth = getattr(strategy, "value_of_right_usd", None)
    price = f"one more round is not expected to be worth its price, at {worth} USD a right answer"
    if getattr(strategy, "chain", "homogeneous") == "settling":
        return (
            f"p_MAP = {number(path[-1], 3)} is at least τ = {strategy.tau:g}, or one more round of "
            f"a chain whose changes die out is not expected to bring {strategy.price:g}"
        ) + (f", or {price}" if worth is not None else "")
    rule = STOP_RULES[strategy.stop_rule]
    if worth is not None and not rule.holds(path[-1], len(path), a=a, b=b, plan=strategy):
        return f"with p_MAP = {number(path[-1], 3)} {price}"
    return rule.words(path[-1], len(path), a=a, b=b, plan=strategy, number=number)
