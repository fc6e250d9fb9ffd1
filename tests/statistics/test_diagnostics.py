"""The Markov diagnostics hold their level on chains that are Markov and find those that are not."""

import math

import numpy as np
import pytest
from scipy import stats

from pipeline.theory.diagnostics import LikelihoodRatio, homogeneity_test
from pipeline.theory.transitions import Chain, Transitions, count_by_round


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


def rejections(p_values: list[float]) -> float:
    """Share of p-values below 5 %."""
    return float(np.mean(np.array(p_values) < 0.05))


def test_the_homogeneity_test_holds_its_level_and_finds_drift() -> None:
    """About 5 % of constant chains are rejected; an a that grows from 0.05 to 0.5 always is."""
    rng = np.random.default_rng(3)
    constant = [
        homogeneity_test(by_round(chains(rng, 0.3, 0.4, n=150, rounds=6)), draws=99)
        for _ in range(100)
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
    assert homogeneity_test([]).a == LikelihoodRatio(statistic=0.0, df=0, p_value=1.0)
    found = homogeneity_test([nothing, first, then])

    assert found.a.df == 1
    assert found.a.p_value > 0.1
    assert found.a.p_value == pytest.approx(homogeneity_test([first, then]).a.p_value, abs=0.05)


def test_drift_is_called_at_its_level_in_small_data() -> None:
    """30 questions of 64 rounds, a few transitions a round: about 5 % of data sets of one chain are
    called drifting, where the chi-square distribution calls 20 %."""
    rng = np.random.default_rng(3)
    found = [
        homogeneity_test(by_round(chains(rng, 0.1, 0.15, n=30, rounds=64)), draws=39, seed=i)
        for i in range(100)
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
        p_values.append(homogeneity_test(counts, draws=99, seed=i).a.p_value)

    assert homogeneity_test(counts, draws=99, seed=99).a.p_value == p_values[-1]
    assert rejections(p_values) == pytest.approx(0.05, abs=0.05)


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
