"""pass@k and maj@k against enumeration of every subset and order."""

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.statistics.sampling import maj_at_k, pass_at_k


def first_of_the_largest(samples: tuple[int | None, ...]) -> int | None:
    """The vote of a sequence: most frequent answer, the first seen on ties."""
    counts = Counter(sample for sample in samples if sample is not None)
    return max(counts, key=lambda answer: counts[answer]) if counts else None


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=3),
    st.integers(0, 2),
    st.data(),
)
def test_maj_at_k_is_the_mean_over_every_subset_in_every_order(votes, abstained, data) -> None:
    """Ties go to the first seen, abstentions do not vote, an empty vote is wrong."""
    samples = [answer for answer, (size, _) in enumerate(votes) for _ in range(size)]
    pool = [*samples, *[None] * abstained]
    if not pool:
        return
    k = data.draw(st.integers(1, min(5, len(pool))))
    right = {answer for answer, (_, is_right) in enumerate(votes) if is_right}
    tried = [
        first_of_the_largest(tuple(pool[i] for i in order)) in right
        for subset in combinations(range(len(pool)), k)
        for order in permutations(subset)
    ]

    assert maj_at_k(votes, k, abstained=abstained) == pytest.approx(np.mean(tried))


def test_maj_at_k_of_a_paper_sized_pool_is_the_mean_of_random_votes() -> None:
    """64 samples, 16 drawn: 20,000 seeded shuffles agree within their error."""
    votes = [(20, True), (18, False), *[(1, False)] * 21, (2, True)]
    pool = [answer for answer, (size, _) in enumerate(votes) for _ in range(size)] + [None] * 3
    right = {answer for answer, (_, is_right) in enumerate(votes) if is_right}
    rng = np.random.default_rng(0)
    tried = [
        first_of_the_largest(tuple(pool[i] for i in rng.permutation(len(pool))[:16])) in right
        for _ in range(20_000)
    ]

    assert len(pool) == 64
    assert maj_at_k(votes, 16, abstained=3) == pytest.approx(np.mean(tried), abs=0.01)


@pytest.mark.parametrize(
    ("n", "right", "k", "expected"),
    [(5, 2, 1, 0.4), (5, 2, 3, 0.9), (5, 2, 4, 1.0), (64, 0, 64, 0.0), (64, 64, 1, 1.0)],
)
def test_pass_at_k_by_hand(n: int, right: int, k: int, expected: float) -> None:
    """1 - C(n - c, k) / C(n, k)."""

    assert pass_at_k(n, right, k) == pytest.approx(expected)


def test_pass_at_k_is_unbiased() -> None:
    """The mean over 20 samples of accuracy 0.3 is 1 - 0.7^8, which the naive formula misses."""
    counts = np.random.default_rng(1).binomial(20, 0.3, 40_000)
    exact = 1 - 0.7**8
    found = np.mean([pass_at_k(20, int(c), 8) for c in counts])

    assert found == pytest.approx(exact, abs=0.002)
    assert np.mean(1 - (1 - counts / 20) ** 8) < exact - 0.02


def test_sizes_out_of_range_are_refused() -> None:
    """The error names the argument and its range."""
    with pytest.raises(ValueError, match=r"^k must be in \[1, 5\], got 6$"):
        pass_at_k(5, 2, 6)
    with pytest.raises(ValueError, match=r"^right must be in \[0, 5\], got 6$"):
        pass_at_k(5, 6, 2)
    with pytest.raises(ValueError, match=r"^k must be in \[1, 3\], got 0$"):
        maj_at_k([(3, True)], 0)
    with pytest.raises(ValueError, match=r"^votes must have sizes >= 1, got 0$"):
        maj_at_k([(0, True)], 1)
