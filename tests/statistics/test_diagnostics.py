"""The Markov diagnostics hold their level on chains that are Markov and find those that are not."""

import math

import numpy as np
import pytest
from scipy import stats

from pipeline.theory.diagnostics import (
    LikelihoodRatio,
    goodness_of_fit,
    homogeneity_test,
    mixture_test,
    order_test,
)
from pipeline.theory.transitions import Chain, Transitions, count_by_round, total


def chains(rng: np.random.Generator, a, b, *, n: int = 60, rounds: int = 12) -> np.ndarray:
    """Labels (n, rounds) of chains that start at their L; a and b scalar, (n,) or (n, rounds)."""
    a, b = (
        np.broadcast_to(np.transpose(a), (rounds, n)),
        np.broadcast_to(np.transpose(b), (rounds, n)),
    )
    labels = np.empty((n, rounds), dtype=bool)
    labels[:, 0] = rng.random(n) < b[0] / (a[0] + b[0])
    for r in range(1, rounds):
        right = np.where(labels[:, r - 1], 1 - a[r], b[r])
        labels[:, r] = rng.random(n) < right
    return labels


def by_round(labels: np.ndarray) -> tuple[Transitions, ...]:
    return count_by_round(
        Chain(benchmark="x", question_id=str(i), labels=tuple(map(bool, row)))
        for i, row in enumerate(labels)
    )


def left(labels: np.ndarray) -> tuple[list[int], list[int]]:
    """By question: right -> wrong transitions, and transitions that left a right answer."""
    before, after = labels[:, :-1], labels[:, 1:]
    return (before & ~after).sum(axis=1).tolist(), before.sum(axis=1).tolist()


def rejections(p_values: list[float]) -> float:
    """Share of p-values below 5 %."""
    return float(np.mean(np.array(p_values) < 0.05))


def test_the_order_test_holds_its_level_on_first_order_chains() -> None:
    """About 5 % of 300 data sets of one chain are called second order."""
    rng = np.random.default_rng(0)
    found = [order_test(chains(rng, 0.2, 0.4).tolist()) for _ in range(300)]

    assert {test.df for test in found} == {2}
    assert rejections([test.p_value for test in found]) == pytest.approx(0.05, abs=0.035)


def test_the_order_test_finds_memory() -> None:
    """An answer that was changed once is not changed back: second order, found every time."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        labels = chains(rng, 0.3, 0.3)
        for r in range(2, labels.shape[1]):
            changed = labels[:, r - 1] != labels[:, r - 2]
            labels[changed, r] = labels[changed, r - 1]

        assert order_test(labels.tolist()).p_value < 1e-6


def test_the_order_statistic_is_that_of_two_contingency_tables() -> None:
    """scipy's G-test of (before last) x (next), for each last answer, added up."""
    labels = chains(np.random.default_rng(2), 0.2, 0.4)
    x, y, z = labels[:, :-2], labels[:, 1:-1], labels[:, 2:]
    tables = [
        [[np.sum((x == i) & (y == j) & (z == k)) for k in (0, 1)] for i in (0, 1)] for j in (0, 1)
    ]
    tests = [
        stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
        for table in tables
    ]
    found = order_test(labels.tolist())

    assert found.statistic == pytest.approx(sum(test.statistic for test in tests))
    assert found.df == sum(test.dof for test in tests)
    assert found.p_value == pytest.approx(stats.chi2.sf(found.statistic, 2))


def test_unknown_labels_and_chains_too_short_say_nothing() -> None:
    """No triple of known labels: no degrees of freedom and p = 1."""
    nothing = LikelihoodRatio(statistic=0.0, df=0, p_value=1.0)

    assert order_test([[True, None, False, True], [True, False]]) == nothing
    assert order_test([[True, True, True, True]]) == nothing
    assert homogeneity_test([]).a == nothing


def test_the_homogeneity_test_holds_its_level_and_finds_drift() -> None:
    """About 5 % of constant chains are rejected; an a that grows from 0.05 to 0.5 always is."""
    rng = np.random.default_rng(3)
    constant = [
        homogeneity_test(by_round(chains(rng, 0.3, 0.4, n=150, rounds=6)), draws=199)
        for _ in range(200)
    ]
    growing = np.broadcast_to(np.linspace(0.05, 0.5, 6), (150, 6))
    drifting = homogeneity_test(by_round(chains(rng, growing, 0.4, n=150, rounds=6)))

    assert rejections([test.a.p_value for test in constant]) == pytest.approx(0.05, abs=0.04)
    assert rejections([test.b.p_value for test in constant]) == pytest.approx(0.05, abs=0.04)
    assert {test.a.df for test in constant} == {4}
    assert drifting.a.p_value == 1 / 2_001  # none of 2,000 simulated data sets is as far off
    assert drifting.b.p_value > 0.001
    assert len(drifting.a_by_round) == 5
    assert drifting.a_by_round[0] < drifting.a_by_round[-1]


def test_a_first_round_that_nobody_graded_is_no_drift() -> None:
    """Chains that are known from round 1 on are simulated from the answers that they had there,
    so four questions that lost one and then two of four right answers do not drift for sure."""
    nothing = Transitions()
    first = Transitions(right_right=3, right_wrong=1)
    then = Transitions(right_right=1, right_wrong=2, wrong_wrong=1)
    found = homogeneity_test([nothing, first, then])

    assert found.a.df == 1
    assert found.a.p_value > 0.1
    assert found.a.p_value == pytest.approx(homogeneity_test([first, then]).a.p_value, abs=0.05)


@pytest.mark.parametrize(("a", "b"), [(0.1, 0.2), (0.1, 0.1)])
def test_drift_is_called_at_its_level_in_small_data(a: float, b: float) -> None:
    """30 questions of 64 rounds, a few transitions a round: about 5 % of data sets of one chain are
    called drifting, where the chi-square distribution calls 20 %."""
    rng = np.random.default_rng(3)
    found = [
        homogeneity_test(by_round(chains(rng, a, b, n=30, rounds=64)), draws=199, seed=i)
        for i in range(150)
    ]

    assert rejections([test.a.p_value for test in found]) == pytest.approx(0.05, abs=0.05)
    assert rejections([test.b.p_value for test in found]) == pytest.approx(0.05, abs=0.05)
    asymptotic = [float(stats.chi2.sf(test.a.statistic, test.a.df)) for test in found]
    assert rejections(asymptotic) > 0.12


def test_rounds_that_know_fewer_or_more_chains_are_simulated_as_they_are() -> None:
    """Chains whose answers are ungraded in some rounds leave and come back; the level holds and the
    same seed gives the same p-value."""
    rng = np.random.default_rng(4)
    p_values = []
    for i in range(100):
        labels = chains(rng, 0.2, 0.3, n=40, rounds=10)
        unknown = rng.random(labels.shape) < 0.2
        counts = count_by_round(
            Chain(
                benchmark="x",
                question_id=str(q),
                labels=tuple(None if u else bool(x) for x, u in zip(row, gone, strict=True)),
            )
            for q, (row, gone) in enumerate(zip(labels, unknown, strict=True))
        )
        first, again = (homogeneity_test(counts, draws=199, seed=i) for _ in range(2))
        assert first == again
        p_values.append(first.a.p_value)

    assert rejections(p_values) == pytest.approx(0.05, abs=0.05)


def test_goodness_of_fit_of_its_own_estimates_holds_its_level() -> None:
    """p0, a and b estimated on the chains that they are held against: about 5 % with a refit of
    every simulated data set, hardly any without."""
    rng = np.random.default_rng(5)
    found: dict[bool, list[float]] = {True: [], False: []}
    for i in range(150):
        labels = chains(rng, 0.1, 0.2, n=40, rounds=8)
        counts = total(by_round(labels))
        for refit, p_values in found.items():
            fit = goodness_of_fit(
                labels.sum(axis=0),
                40,
                p0=float(labels[:, 0].mean()),
                a=(counts.right_wrong + 0.5) / (counts.from_right + 1),
                b=(counts.wrong_right + 0.5) / (counts.from_wrong + 1),
                draws=299,
                seed=i,
                refit=refit,
            )
            p_values.append(fit.p_value)

    assert rejections(found[True]) == pytest.approx(0.05, abs=0.04)
    assert rejections(found[False]) < 0.03


def test_rounds_without_a_right_answer_take_no_degree_of_freedom() -> None:
    """Three rounds, one of them never right: df of a is 1, and its share is nan."""
    found = homogeneity_test(
        [
            Transitions(right_wrong=2, right_right=8),
            Transitions(wrong_right=3, wrong_wrong=7),
            Transitions(right_wrong=5, right_right=5),
        ]
    )

    assert (found.a.df, found.b.df) == (1, 0)
    assert math.isnan(found.a_by_round[1])
    assert found.a.statistic == pytest.approx(
        stats.chi2_contingency(
            [[2, 8], [5, 5]], correction=False, lambda_="log-likelihood"
        ).statistic
    )


def test_the_mixture_test_holds_its_level_and_finds_mixtures() -> None:
    """One rate is rejected in about 5 %; rates of 0.05 and 0.6 are told apart every time."""
    rng = np.random.default_rng(4)
    one = [mixture_test(*left(chains(rng, 0.2, 0.4, n=40))) for _ in range(200)]
    two = mixture_test(*left(chains(rng, np.repeat([0.05, 0.6], 30), 0.5)))

    assert rejections([test.p_value for test in one]) == pytest.approx(0.05, abs=0.04)
    assert two.p_value < 1e-6
    assert two.spread > 0.1
    assert two.n_questions == 60


def test_the_beta_binomial_fit_is_the_most_likely_one() -> None:
    """No point of a grid has a higher scipy likelihood, and the true spread is near."""
    rng = np.random.default_rng(5)
    trials = rng.integers(5, 20, 400)
    successes = rng.binomial(trials, rng.beta(2, 6, 400))  # mean 1/4, spread 1/9
    found = mixture_test(successes.tolist(), trials.tolist())

    def log_likelihood(mean: float, spread: float) -> float:
        strength = (1 - spread) / spread
        return stats.betabinom.logpmf(
            successes, trials, mean * strength, (1 - mean) * strength
        ).sum()

    best = log_likelihood(found.mean, found.spread)
    grid = [
        log_likelihood(m, s)
        for m in np.linspace(0.15, 0.35, 21)
        for s in np.linspace(0.02, 0.3, 29)
    ]
    assert best >= max(grid) - 1e-6
    assert found.mean == pytest.approx(0.25, abs=0.02)
    assert found.spread == pytest.approx(1 / 9, abs=0.03)
    binomial = stats.binom.logpmf(successes, trials, found.rate).sum()
    assert found.statistic == pytest.approx(2 * (best - binomial), abs=1e-3)


@pytest.mark.parametrize(
    ("successes", "trials"),
    [([0, 0], [5, 5]), ([3, 2], [3, 2]), ([1, 0, 1], [1, 1, 1]), ([0], [0])],
)
def test_a_mixture_that_cannot_be_seen_is_not_claimed(
    successes: list[int], trials: list[int]
) -> None:
    """Never, always, one trial each, or none: p = 1 and no spread."""
    found = mixture_test(successes, trials)

    assert (found.spread, found.statistic, found.p_value) == (0.0, 0.0, 1.0)
    assert found.n_questions == sum(n > 0 for n in trials)


def test_goodness_of_fit_by_hand() -> None:
    """10 questions, p_r = 0.5, 0.6: errors of 0.1 and 0.2, chi-square 1 / 2.5 + 4 / 2.4."""
    found = goodness_of_fit([6, 8], 10, p0=0.5, a=0.2, b=0.4, draws=200)

    assert found.predicted == pytest.approx((0.5, 0.6))
    assert found.mean_absolute_error == pytest.approx(0.15)
    assert found.chi_square == pytest.approx(1 / 2.5 + 4 / 2.4)


def test_goodness_of_fit_holds_its_level_though_rounds_hang_together() -> None:
    """About 5 % of true chains are rejected; the table of chi-square would reject far more."""
    rng = np.random.default_rng(6)
    p_values, naive = [], []
    for seed in range(300):
        labels = chains(rng, 0.03, 0.06, n=100, rounds=16)
        found = goodness_of_fit(
            labels.sum(axis=0), 100, p0=2 / 3, a=0.03, b=0.06, draws=300, seed=seed
        )
        p_values.append(found.p_value)
        naive.append(stats.chi2.sf(found.chi_square, 16))

    assert rejections(p_values) == pytest.approx(0.05, abs=0.035)
    assert rejections(naive) > 0.12


def test_goodness_of_fit_finds_another_chain() -> None:
    """Counts of a chain that mends, judged by one that does not."""
    labels = chains(np.random.default_rng(7), 0.03, 0.06, n=100, rounds=16)
    counts = labels.sum(axis=0)

    assert goodness_of_fit(counts, 100, p0=2 / 3, a=0.06, b=0.03).p_value < 0.01
    assert goodness_of_fit([10, 10], 10, p0=1.0, a=0.0, b=0.0, draws=50).p_value == 1.0
    impossible = goodness_of_fit([10, 9], 10, p0=1.0, a=0.0, b=0.0, draws=50)
    assert (impossible.chi_square, impossible.p_value) == (math.inf, 1 / 51)


def test_counts_that_cannot_be_are_refused() -> None:
    """Pairs that do not pair, successes above trials, counts above the questions."""
    with pytest.raises(ValueError, match=r"^successes and trials must pair up"):
        mixture_test([1], [2, 3])
    with pytest.raises(ValueError, match=r"^successes must be in \[0, trials\]"):
        mixture_test([3], [2])
    with pytest.raises(ValueError, match=r"^right must hold at least one round, got none$"):
        goodness_of_fit([], 10, p0=0.5, a=0.1, b=0.1)
    with pytest.raises(ValueError, match=r"^right must be in \[0, 10\], got a count outside$"):
        goodness_of_fit([11], 10, p0=0.5, a=0.1, b=0.1)
