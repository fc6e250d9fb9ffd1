"""When to stop drawing from a normal distribution of unknown mean and variance, keeping the best.

Sequential search with recall and learning (Baucells and Zorc, "Search in the Dark"), on which
BEACON (arXiv 2510.15945) rests. A draw costs c, the reward is the largest value drawn, at most n
are drawn, and nothing is known beforehand (the prior is 1 / sigma). After k >= 3 draws of mean m
and sum of squared deviations S the next is m + s u, u of Student's t with k - 1 degrees of freedom
and s^2 = (1 + 1/k) S / (k - 1); all that matters is z = (best - m) / s and c / s. What going on is
worth beyond stopping, in units of s, is

    G_k(z, c) = max(0, E (u - z)^+ - c + E r G_{k+1}(z', c / r)),  G_n = 0,
    r^2 = (k + 2) / (k + 1)^2 (k - 1 + u^2),  z' = (max(z, u) - u / (k + 1)) / r,

and the index h_k(z) is the cost at which it begins to be 0: go on while c / s < h_k(z).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from pipeline.core.arrays import FloatArray

LEAST = 3
"""Draws before anything can be decided: E |u| must be finite."""
_Z, _C, _U = 48, 64, 160
_COSTS = np.geomspace(1e-6, 20.0, _C)


@lru_cache(maxsize=16)
def search_index(n: int) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """(z, h_k(z)) on a grid, for k = 3 to n - 1; z cannot lie outside.

    Args:
        n: draws at most.
    """
    found: list[tuple[FloatArray, FloatArray]] = []
    following: tuple[FloatArray, FloatArray] | None = None
    for k in range(n - 1, LEAST - 1, -1):
        z_Z = np.linspace(*_ends(k), _Z)
        worth_ZC = _gain(z_Z, k - 1)[:, None] - _COSTS
        if following is not None:
            worth_ZC = worth_ZC + _later(k, z_Z, *following)
        found.append((z_Z, np.array([_root(worth_C) for worth_C in worth_ZC])))
        following = (z_Z, np.maximum(worth_ZC, 0.0))
    return tuple(reversed(found))


def goes_on(values: Sequence[float], cost: float, n: int) -> bool:
    """Whether another draw is worth its cost.

    Args:
        values: what was drawn, at least 3 of them.
        cost: of a draw, > 0, in units of the values.
        n: draws at most.
    """
    k, best = len(values), max(values)
    if k >= n:
        return False
    mean = math.fsum(values) / k
    squares = math.fsum((value - mean) ** 2 for value in values)
    scale = math.sqrt((1 + 1 / k) * squares / (k - 1))
    if scale <= 0:
        return False
    z_Z, index_Z = search_index(n)[k - LEAST]
    return bool(cost / scale < np.interp((best - mean) / scale, z_Z, index_Z))


def _ends(k: int) -> tuple[float, float]:
    """The least and the largest z that k values can have."""
    return 1 / math.sqrt(k + 1), (k - 1) / math.sqrt(k + 1)


def _gain(z: FloatArray, df: int) -> FloatArray:
    """E (u - z)^+ for u of Student's t, df > 1."""
    from scipy import special, stats  # here, since a verb's --help imports this module

    return np.asarray(
        (df + z**2) / (df - 1) * stats.t.pdf(z, df) - z * special.stdtr(df, -z), np.float64
    )


def _later(k: int, z_Z: FloatArray, next_Z: FloatArray, gain_ZC: FloatArray) -> FloatArray:
    """(Z, C): E r G_{k+1}(z', c / r), u at the middles of equally likely parts."""
    from scipy import special

    u_U = special.stdtrit(k - 1, (np.arange(_U) + 0.5) / _U)
    r_U = np.sqrt((k + 2) * (k - 1 + u_U**2)) / (k + 1)
    new_ZU = (np.maximum(z_Z[:, None], u_U) - u_U / (k + 1)) / r_U
    total = np.zeros((_Z, _C))
    log_costs = np.log(_COSTS)
    for r, new_Z in zip(r_U, new_ZU.T, strict=True):
        of_cost = np.array(
            [np.interp(log_costs - math.log(r), log_costs, gains_C) for gains_C in gain_ZC]
        )
        place = np.clip((new_Z - next_Z[0]) / (next_Z[1] - next_Z[0]), 0, _Z - 1)
        low = np.minimum(place.astype(np.int64), _Z - 2)
        share = (place - low)[:, None]
        total += r * ((1 - share) * of_cost[low] + share * of_cost[low + 1])
    return total / _U


def _root(worth_C: FloatArray) -> float:
    """The cost at which going on is worth nothing more; 0 where that is below all of the grid."""
    above = np.flatnonzero(worth_C > 0)
    if not len(above):
        return 0.0
    last = min(int(above[-1]), _C - 2)
    high, low = worth_C[last], worth_C[last + 1]
    share = high / (high - low)
    return float(_COSTS[last] + share * (_COSTS[last + 1] - _COSTS[last]))
