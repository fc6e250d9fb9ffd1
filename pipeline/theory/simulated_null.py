"""Chains that keep one a and one b in all rounds, simulated: what a test of drift sees of them."""

from __future__ import annotations

import numpy as np
from scipy import special

from pipeline.core.arrays import FloatArray


def without_drift(
    left: FloatArray, fixed: FloatArray, draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Statistics of a and b, (draws,) each, of chains with one a and one b in all rounds.

    Args:
        left: (R, 2), of right answers of each round those lost and those kept.
        fixed: (R, 2), of wrong answers of each round those mended and those not.

    As many chains are known in each round as were; the first round has the right answers it had.
    """
    n_right, known = left.sum(axis=1), (left + fixed).sum(axis=1)
    a = float(left[:, 0].sum() / max(1.0, n_right.sum()))
    b = float(fixed[:, 0].sum() / max(1.0, fixed.sum()))
    right = np.full(draws, int(n_right[0]))
    tables = np.empty((2, draws, len(left), 2))
    for r, chains in enumerate(known.astype(np.int64).tolist()):
        lost, won = rng.binomial(right, a), rng.binomial(chains - right, b)
        tables[0, :, r] = np.stack([lost, right - lost], axis=1)
        tables[1, :, r] = np.stack([won, chains - right - won], axis=1)
        right = right - lost + won
        if r + 1 < len(known):
            more = int(known[r + 1]) - chains
            if more < 0:
                right = rng.hypergeometric(right, chains - right, chains + more)
            elif more > 0:  # as those known already; where none was, as they were
                share = right / chains if chains else n_right[r + 1] / known[r + 1]
                right = right + rng.binomial(more, share)
    return _g_statistics(tables[0]), _g_statistics(tables[1])


def _g_statistics(tables: FloatArray) -> FloatArray:
    """(D,): likelihood-ratio statistic of independence of each of the tables (D, R, 2)."""
    rows, columns = tables.sum(axis=2), tables.sum(axis=1)
    total = columns.sum(axis=1)
    parts = [special.xlogy(x, x).sum(axis=tuple(range(1, x.ndim))) for x in (tables, rows, columns)]
    return np.asarray(2 * (parts[0] - parts[1] - parts[2] + special.xlogy(total, total)))
