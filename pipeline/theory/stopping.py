"""The stopping rule of sequential chains over arrays, in expected rounds and in words.

Live chains call `pipeline.theory.markov.eq12_holds`; what stands here follows it.

Axes: Q questions, T rounds of a recording, N the rounds of a budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeline.core.arrays import BoolArray, FloatArray
from pipeline.theory.markov import eq12_holds, rounds_to_reach, second_eigenvalue

Written = Callable[[float, int], str]
"""Writes a number to so many digits."""


def left_of_eq12(map_QT: FloatArray, a_Q: FloatArray, b_Q: FloatArray, n: int) -> FloatArray:
    """(Q, N): the left side of Eq. 12 after each round, which does not depend on tau."""
    total = a_Q + b_Q
    powers = {
        base: [base ** float(i) for i in range(1, n + 1)]  # as Python rounds it
        for base in set((1.0 - total).tolist())
    }
    power_QN = np.array([powers[base] for base in (1.0 - total).tolist()])
    return np.asarray(power_QN * (total[:, None] * map_QT[:, :n] - b_Q[:, None]))


def eq12_holds_QN(
    left_QN: FloatArray, map_QN: FloatArray, a_Q: FloatArray, b_Q: FloatArray, tau: float
) -> BoolArray:
    """(Q, N): `eq12_holds` after each round, to the last bit; False where `map_QN` is nan."""
    total = a_Q + b_Q
    holds = left_QN >= (total * tau - b_Q)[:, None]
    return np.where((total == 0)[:, None], map_QN >= tau, holds)


def expected_rounds(strategy: Any, *, p0: float, a: float, b: float) -> int | None:
    """Rounds after round 0 that a strategy is expected to take before it reaches its tau.

    Returns:
        None where it does not stop by a posterior, or is expected never to reach tau.
    """
    tau: float | None = getattr(strategy, "tau", None)
    if not getattr(strategy, "stopping", False) or tau is None:
        return None
    return rounds_to_reach(tau, p0=p0, a=a, b=b, first=0, most=strategy.n)


def why_stopped(
    strategy: Any, path: Sequence[float], *, a: float, b: float, number: Written
) -> str:
    """Why a chain of MarkovScale stopped, as the end of a sentence.

    Args:
        strategy: its strategy.
        path: posterior modes after each round.
        a: P(right -> wrong).
        b: P(wrong -> right).
        number: writes numbers.
    """
    p_map, drawn, tau = path[-1], len(path), strategy.tau
    worth = getattr(strategy, "value_of_right_usd", None)
    price = f"one more round is not expected to be worth its price, at {worth} USD a right answer"
    if getattr(strategy, "chain", "homogeneous") == "settling":
        return (
            f"p_MAP = {number(p_map, 3)} is at least τ = {tau:g}, or one more round of "
            f"a chain whose changes die out is not expected to bring {strategy.price:g}"
        ) + (f", or {price}" if worth is not None else "")
    if not eq12_holds(drawn, p_map=p_map, a=a, b=b, tau=tau):
        why = price if worth is not None else "a rule of an earlier version held"
        return f"with p_MAP = {number(p_map, 3)} {why}"
    left = second_eigenvalue(a, b) ** drawn * ((a + b) * p_map - b)
    right = (a + b) * tau - b
    return (
        f"with p_MAP = {number(p_map, 3)} the stopping rule holds at i = {drawn}: "
        f"λ^i((a+b)p_MAP − b) = {number(left, 4)} ≥ (a+b)τ − b = {number(right, 4)} "
        f"(τ = {tau:g}, a = {number(a, 3)}, b = {number(b, 3)})"
    )
