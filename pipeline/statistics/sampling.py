"""*Sampling*: unbiased pass@k and maj@k from n recorded samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pipeline.core.arrays import FloatArray


def pass_at_k(n: int, right: int, k: int) -> float:
    """Chance that at least one of k of the n samples is right (Eq. 1, arXiv:2107.03374).

    Exact over all subsets of size k, so it is unbiased for the accuracy of k fresh samples.

    Raises:
        ValueError: unless 1 <= k <= n and 0 <= right <= n.
    """
    _check(n, k)
    if not 0 <= right <= n:
        raise ValueError(f"right must be in [0, {n}], got {right!r}")
    return 1 - math.comb(n - right, k) / math.comb(n, k)


def maj_at_k(votes: Sequence[tuple[int, bool]], k: int, *, abstained: int = 0) -> float:
    """Chance that the vote of k of the n samples is right, exact over all subsets.

    Args:
        votes: (how many samples gave this answer, whether it is right), one entry per distinct
            canonical answer.
        k: samples drawn, without replacement, from all votes and abstentions.
        abstained: samples without an answer. They are drawn and paid for and do not vote; where
            nobody votes the result is wrong.

    A tie goes to the answer seen first; over all orders of a subset each of the tied answers is
    first equally often, so a tie of m counts 1/m for each.

    Raises:
        ValueError: unless 1 <= k <= n and every size is at least 1.
    """
    sizes = [size for size, _ in votes]
    for size in sizes:
        if size < 1:
            raise ValueError(f"votes must have sizes >= 1, got {size!r}")
    n = sum(sizes) + abstained
    _check(n, k)
    favourable = 0.0
    for winner, (size, right) in enumerate(votes):
        if not right:
            continue
        others = sizes[:winner] + sizes[winner + 1 :]
        for top in range(1, min(size, k) + 1):
            ways = _ways_below(others, abstained, top, k - top)
            favourable += math.comb(size, top) * float(ways @ (1 / np.arange(1, len(ways) + 1)))
    return min(1.0, favourable / math.comb(n, k))


def _ways_below(sizes: Sequence[int], abstained: int, top: int, drawn: int) -> FloatArray:
    """Ways to draw `drawn` samples with no answer above `top` votes, by how many are at `top`.

    The coefficient of x^drawn in a product over answers, one factor each:
    C(size, 0) + ... + C(size, top - 1) x^(top-1) + y C(size, top) x^top, y counting ties. Answers
    of fewer than `top` votes are free like abstentions: their factors are one binomial.
    """
    ties = drawn // top
    free = abstained + sum(size for size in sizes if size < top)
    table: FloatArray = np.zeros((drawn + 1, ties + 1))
    table[: min(free, drawn) + 1, 0] = [math.comb(free, s) for s in range(min(free, drawn) + 1)]
    for size in (size for size in sizes if size >= top):
        product = np.zeros_like(table)
        for s in range(min(size, top, drawn) + 1):
            rest = drawn + 1 - s
            ways = math.comb(size, s)
            if s < top:
                product[s:] += ways * table[:rest]
            else:
                product[s:, 1:] += ways * table[:rest, :-1]
        table = product
    last: FloatArray = table[drawn]
    return last


def _check(n: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k must be in [1, {n}], got {k!r}")
