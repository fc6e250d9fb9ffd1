"""The two-state chain of right and wrong answers, in closed form.

===========  ==========================  =======================================
paper        here                        meaning
===========  ==========================  =======================================
p_0          ``p0``                      P(the first answer, round 0, is right)
a            ``a``                       P(right -> wrong) between two rounds
b            ``b``                       P(wrong -> right)
L            ``stationary_accuracy``     b / (a + b)
lambda       ``second_eigenvalue``       1 - a - b
p_i          ``accuracy_after``          P(right) after i further rounds
i*           ``rounds_to_reach``         least i with p_i >= tau
===========  ==========================  =======================================

Every (a, b) of [0, 1]^2 is valid: a = b = 0 never moves (L is not defined), a + b = 1 is at L
after one round, a + b > 1 alternates around L. Equation numbers are the paper's, and
``docs/math.md`` says where its case list errs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from pipeline.core.arrays import FloatArray

_TOLERANCE = 1e-12


class Regime(StrEnum):
    """The sign of the asymptotic benefit (Section 3.3)."""

    BENEFICIAL = "beneficial"
    """p0 < L + sigma: further rounds raise accuracy."""
    NEUTRAL = "neutral"
    """p0 = L + sigma, or a chain that never moves."""
    DETRIMENTAL = "detrimental"
    """p0 > L + sigma: further rounds lower accuracy."""


def _probability(name: str, value: ArrayLike) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if not np.all((array >= 0) & (array <= 1)):  # also refuses nan
        bad = array[~((array >= 0) & (array <= 1))].flat[0]
        raise ValueError(f"{name} must be in [0, 1], got {float(bad)!r}")
    return array


def _round_count(name: str, value: ArrayLike) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    valid = np.isfinite(array) & (array >= 0) & (array == np.floor(array))
    if not np.all(valid):
        raise ValueError(
            f"{name} must be a whole number >= 0, got {float(array[~valid].flat[0])!r}"
        )
    return array


def _finite(name: str, value: ArrayLike) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError(
            f"{name} must be finite, got {float(array[~np.isfinite(array)].flat[0])!r}"
        )
    return array


def _plain(value: Any) -> Any:
    """A float where every argument was a scalar, else the array."""
    return float(value) if np.ndim(value) == 0 else value


@overload
def second_eigenvalue(a: float, b: float) -> float: ...
@overload
def second_eigenvalue(a: ArrayLike, b: ArrayLike) -> float | FloatArray: ...
def second_eigenvalue(a: ArrayLike, b: ArrayLike) -> float | FloatArray:
    """lambda = 1 - a - b, in [-1, 1]; how much of the distance to L a round keeps."""
    return _plain(1.0 - _probability("a", a) - _probability("b", b))  # type: ignore[no-any-return]


@overload
def stationary_accuracy(a: float, b: float) -> float: ...
@overload
def stationary_accuracy(a: ArrayLike, b: ArrayLike) -> float | FloatArray: ...
def stationary_accuracy(a: ArrayLike, b: ArrayLike) -> float | FloatArray:
    """L = b / (a + b) (Eq. 9), in [0, 1]; nan where a = b = 0, a chain that never moves."""
    leave, fix = _probability("a", a), _probability("b", b)
    total = leave + fix
    safe = np.where(total > 0, total, 1.0)
    return _plain(np.where(total > 0, fix / safe, np.nan))  # type: ignore[no-any-return]


@overload
def accuracy_after(rounds: int, *, p0: float, a: float, b: float) -> float: ...
@overload
def accuracy_after(
    rounds: ArrayLike, *, p0: ArrayLike, a: ArrayLike, b: ArrayLike
) -> float | FloatArray: ...
def accuracy_after(
    rounds: ArrayLike, *, p0: ArrayLike, a: ArrayLike, b: ArrayLike
) -> float | FloatArray:
    """p_i = L + lambda^i (p0 - L) after `rounds` further rounds (Eq. 4).

    Args:
        rounds: whole numbers >= 0; broadcasts with the others.
        p0: P(round 0 is right), in [0, 1].
        a: P(right -> wrong), in [0, 1].
        b: P(wrong -> right), in [0, 1].

    Returns:
        A float for scalars, else float64 of the broadcast shape. a = b = 0 stays at p0.

    Raises:
        ValueError: naming the argument that is out of range.
    """
    i, p = _round_count("rounds", rounds), _probability("p0", p0)
    leave, fix = _probability("a", a), _probability("b", b)
    total = leave + fix
    limit = np.where(total > 0, fix / np.where(total > 0, total, 1.0), p)
    value = limit + (1.0 - total) ** i * (p - limit)
    return _plain(np.clip(value, 0.0, 1.0))  # type: ignore[no-any-return]


def regime(*, p0: float, a: float, b: float, sigma: float = 0.0) -> Regime:
    """Whether further rounds help in the limit (Theorem 1); equality within 1e-12 is NEUTRAL.

    a = b = 0 is NEUTRAL whatever sigma is; a = b = 1 alternates for ever and is judged by L.
    """
    p = float(_probability("p0", p0))
    limit = float(stationary_accuracy(float(a), float(b)))
    margin = float(_finite("sigma", sigma))
    if np.isnan(limit):
        return Regime.NEUTRAL
    distance = limit + margin - p
    if abs(distance) <= _TOLERANCE:
        return Regime.NEUTRAL
    return Regime.BENEFICIAL if distance > 0 else Regime.DETRIMENTAL


def eq12_holds(i: int, *, p_map: float, a: float, b: float, tau: float) -> bool:
    """Algorithm 1's test: lambda^i ((a+b) p_map - b) >= (a+b) tau - b (Eq. 12).

    Args:
        i: completions drawn so far, >= 1 (the paper's i = r + 1 after round r).
        p_map: mode of the posterior, in [0, 1].
        a: P(right -> wrong), in [0, 1].
        b: P(wrong -> right), in [0, 1].
        tau: required confidence.

    At a = b = 0 both sides of the printed test vanish; it is then p_map >= tau.
    """
    p = float(_probability("p_map", p_map))
    leave, fix = float(_probability("a", a)), float(_probability("b", b))
    power = float(_round_count("i", i))
    threshold = float(_finite("tau", tau))
    total = leave + fix
    if total == 0:
        return p >= threshold
    return bool((1.0 - total) ** power * (total * p - fix) >= total * threshold - fix)


def rounds_to_reach(
    tau: float, *, p0: float, a: float, b: float, first: int = 1, most: int = 10_000
) -> int | None:
    """The least r from `first` to `most` with p_r >= tau - 1e-12 (Eq. 10); None where there is
    none.

    Costs r + 1 completions, since round 0 is one. The judge is the definition and not the paper's
    case list. tau within 1e-12 of L counts as L, which a chain with 0 < lambda < 1 that starts
    below it comes near to and does not reach.

    Args:
        tau: required accuracy; above 1 there is no such round.
        p0: P(round 0 is right), in [0, 1].
        a: P(right -> wrong), in [0, 1].
        b: P(wrong -> right), in [0, 1].
        first: the first round that may be returned, >= 0.
        most: the last round that may be returned.

    Raises:
        ValueError: naming the argument that is out of range, nan or infinite.
    """
    wanted, start = float(_finite("tau", tau)), int(_round_count("first", first))
    rounds = np.arange(start, max(start, most) + 1)
    reached = np.asarray(accuracy_after(rounds, p0=p0, a=a, b=b)) >= wanted - _TOLERANCE
    kept, limit = second_eigenvalue(a, b), stationary_accuracy(a, b)
    climbs = 0 < kept < 1 and p0 < wanted - _TOLERANCE  # towards L, from below
    if wanted > 1 or not reached.any() or (climbs and wanted >= limit - _TOLERANCE):
        return None
    return int(rounds[reached.argmax()])
