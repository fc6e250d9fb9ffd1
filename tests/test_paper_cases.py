"""Every entry of the paper's case list, by numbers: what it says, what is so, what we answer.

``docs/math.md`` has the same entries in words. Rounds are counted from `first` = 1, as the paper
does, and 0 < lambda < 1 as its appendix assumes, unless an entry is about another lambda.
"""

import math

import numpy as np
import pytest

from pipeline.theory.markov import (
    accuracy_after,
    eq12_holds,
    rounds_to_reach,
    second_eigenvalue,
    stationary_accuracy,
)

CHAINS = [(0.1, 0.3), (0.02, 0.06), (0.3, 0.2), (0.05, 0.9), (0.0, 0.4), (0.4, 0.0)]


def brute_force(tau: float, p0: float, a: float, b: float) -> int | None:
    """The least round from 1 on that reaches tau, by looking at 5,000 of them."""
    reached = accuracy_after(np.arange(1, 5_000), p0=p0, a=a, b=b) >= tau - 1e-12
    return 1 + int(np.argmax(reached)) if np.any(reached) else None


def ceiling(tau: float, p0: float, a: float, b: float) -> int:
    """Eq. 13 as printed, absolute values and all."""
    kept, limit = second_eigenvalue(a, b), stationary_accuracy(a, b)
    return math.ceil(math.log(abs(tau - limit) / abs(p0 - limit)) / math.log(kept))


def between(low: float, high: float) -> list[float]:
    """A few points strictly inside; none where there is no room."""
    return [low + share * (high - low) for share in (0.1, 0.5, 0.9)] if high - low > 1e-6 else []


def points(case: str, limit: float) -> list[tuple[float, float]]:
    """(p0, tau) that fall into a case, for a chain with this L."""
    low, high = between(0, limit), between(limit, 1)
    return {
        "1 reached": [(limit, tau) for tau in [*low, limit]],
        "1 missed": [(limit, tau) for tau in high],
        "2 above": [(p0, limit) for p0 in high],
        "2 below": [(p0, limit) for p0 in low],
        "3.1 p0 > tau": [(p0, tau) for p0 in high for tau in high if p0 > tau],
        "3.1 tau > p0": [(p0, tau) for p0 in high for tau in high if tau > p0],
        "3.2 p0 < tau": [(p0, tau) for p0 in low for tau in low if p0 < tau],
        "3.2 tau < p0": [(p0, tau) for p0 in low for tau in low if tau < p0],
        "4.1": [(p0, tau) for p0 in low for tau in high],
        "4.2": [(p0, tau) for p0 in high for tau in low],
    }[case]


CASES = {
    # case: (what the paper says, what brute force says), as functions of (tau, p0, a, b)
    "1 reached": (lambda *_: 1, lambda *_: 1),
    "1 missed": (lambda *_: None, lambda *_: None),
    "2 above": (lambda *_: 1, lambda *_: 1),
    "2 below": (lambda *_: None, lambda *_: None),
    "3.1 p0 > tau": (
        lambda *_: 1,
        lambda tau, p0, a, b: 1 if accuracy_after(1, p0=p0, a=a, b=b) >= tau else None,
    ),
    "3.1 tau > p0": (lambda *_: None, lambda *_: None),
    "3.2 p0 < tau": (ceiling, ceiling),
    "3.2 tau < p0": (lambda *_: None, lambda *_: 1),
    "4.1": (lambda *_: None, lambda *_: None),
    "4.2": (lambda *_: 1, lambda *_: 1),
}
WRONG = {"3.1 p0 > tau", "3.2 tau < p0"}


@pytest.mark.parametrize("case", CASES)
def test_each_case_of_the_appendix_by_numbers(case: str) -> None:
    """Ours is brute force's answer; it is also the paper's, except in the two cases that err."""
    said, so = CASES[case]
    differ = tried = 0
    for a, b in CHAINS:
        for p0, tau in points(case, stationary_accuracy(a, b)):
            found = rounds_to_reach(tau, p0=p0, a=a, b=b)
            tried += 1
            differ += found != said(tau, p0, a, b)

            assert found == so(tau, p0, a, b)
            if case != "2 below":  # there, looking at enough rounds finds L - 1e-12
                assert found == brute_force(tau, p0, a, b)
    assert tried >= 10
    assert (differ > 0) is (case in WRONG)


@pytest.mark.parametrize(("a", "b"), [(0.1, 0.3), (0.02, 0.06), (0.054, 0.38)])
def test_above_l_the_printed_rule_gets_harder_and_then_cannot_hold(a: float, b: float) -> None:
    """tau > L: past i = ln((tau-L)/(1-L)) / ln lambda not even a mode of 1 would stop a chain."""
    limit, kept = stationary_accuracy(a, b), second_eigenvalue(a, b)
    tau = limit + 0.3 * (1 - limit)
    last = math.log((tau - limit) / (1 - limit)) / math.log(kept)
    needed = [limit + (tau - limit) / kept**i for i in range(1, 40)]

    assert np.all(np.diff(needed) > 0)
    for i, mode in enumerate(needed, start=1):
        assert eq12_holds(i, p_map=1.0, a=a, b=b, tau=tau) is (i <= last)
        if mode <= 1 - 1e-9:
            assert eq12_holds(i, p_map=mode + 1e-9, a=a, b=b, tau=tau)
            assert not eq12_holds(i, p_map=mode - 1e-9, a=a, b=b, tau=tau)


@pytest.mark.parametrize(("a", "b"), [(0.1, 0.3), (0.02, 0.06), (0.054, 0.38)])
def test_below_l_the_printed_rule_comes_true_by_itself(a: float, b: float) -> None:
    """tau < L: from i = ln((L-tau)/L) / ln lambda on even a mode of 0 stops a chain."""
    limit, kept = stationary_accuracy(a, b), second_eigenvalue(a, b)
    tau = 0.9 * limit
    first = math.ceil(math.log((limit - tau) / limit) / math.log(kept))

    assert eq12_holds(first, p_map=0.0, a=a, b=b, tau=tau)
    assert not eq12_holds(first - 1, p_map=0.0, a=a, b=b, tau=tau)
    assert eq12_holds(1, p_map=limit + 1e-9, a=a, b=b, tau=tau)
