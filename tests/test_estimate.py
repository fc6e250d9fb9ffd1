"""Posteriors of a, b, L and lambda against scipy, quadrature and simulated chains."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from scipy import integrate, stats

from pipeline.statistics.intervals import Interval
from pipeline.theory.estimate import bounds, estimate_clustered
from pipeline.theory.markov import Regime
from pipeline.theory.transitions import Chain, Transitions, count, count_by_question, total

COUNTS = Transitions(right_right=95, right_wrong=5, wrong_right=12, wrong_wrong=28)


def pooled(counts: Transitions) -> Interval:
    """The interval of a if all questions were one chain."""
    a = stats.beta(0.5 + counts.right_wrong, 0.5 + counts.right_right)
    return Interval(value=a.mean(), low=a.ppf(0.025), high=a.ppf(0.975))


def test_questions_of_one_step_have_the_beta_posterior_of_their_counts() -> None:
    """Values are posterior means; the interval of L is that of the exact posterior: P(L <= x) =
    P(b (1 - x) <= a x), integrated over a, is 2.5 % and 97.5 % at its ends; lambda has the moments
    of 1 - a - b."""
    steps = [{name: 1} for name, n in asdict(COUNTS).items() for _ in range(n)]
    counts = {("b", str(i)): Transitions(**step) for i, step in enumerate(steps)}
    found = estimate_clustered(counts, draws=40_000)
    a, b = stats.beta(5.5, 95.5), stats.beta(12.5, 28.5)

    def below(x: float) -> float:
        return integrate.quad(lambda p: a.pdf(p) * b.cdf(p * x / (1 - x)), 0, 1, points=[0.05])[0]

    assert found.counts == COUNTS
    assert (found.a.value, found.b.value) == pytest.approx((a.mean(), b.mean()))
    assert (found.b.low, found.b.high) == pytest.approx(b.ppf([0.025, 0.975]), abs=0.01)
    limit, kept = found.stationary_accuracy, found.second_eigenvalue
    assert limit.value == pytest.approx(b.mean() / (a.mean() + b.mean()))
    assert (below(limit.low), below(limit.high)) == pytest.approx((0.025, 0.975), abs=0.005)
    assert kept.value == pytest.approx(1 - a.mean() - b.mean())
    assert kept.half_width == pytest.approx(1.96 * math.hypot(a.std(), b.std()), rel=0.03)


@pytest.mark.parametrize(("lost", "kept"), [(0, 0), (0, 12), (1, 12), (12, 0), (9, 14)])
def test_clustered_intervals_are_the_posterior_where_questions_have_one_step(
    lost: int, kept: int
) -> None:
    """Nothing is lumped then, so both kinds say the same: Jeffreys' prior where nothing was
    counted, and a loss that was never seen may still be far rarer than one in so many."""
    steps = [Transitions(right_wrong=1)] * lost + [Transitions(right_right=1)] * kept
    counts = {("b", str(i)): step for i, step in enumerate(steps)}
    found = estimate_clustered(counts, draws=20_000)
    exact = pooled(total(counts.values()))

    assert found.a.value == pytest.approx(exact.value)
    assert (found.a.low, found.a.high) == pytest.approx((exact.low, exact.high), abs=0.01)


@pytest.mark.parametrize(
    ("n", "rounds", "share", "one_chain", "clustered"),
    [(60, 8, 0.5, 0.82, 0.93), (30, 64, 0.5, 0.42, 0.95), (30, 8, 0.1, 0.82, 0.9)],
)
def test_what_intervals_cover_where_questions_differ(
    n: int, rounds: int, share: float, one_chain: float, clustered: float
) -> None:
    """Chains of questions that never lose a right answer, but for a share that loses one in two:
    the figures of docs/math.md. Few questions and a rare loss are too little for 95 %."""

    def chains(rng: np.random.Generator, questions: int) -> dict[tuple[str, str], Transitions]:
        lose = np.where(rng.random(questions) < share, 0.5, 0.0)
        labels = np.empty((questions, rounds), dtype=bool)
        labels[:, 0] = rng.random(questions) < 0.6
        for r in range(1, rounds):
            labels[:, r] = rng.random(questions) < np.where(labels[:, r - 1], 1 - lose, 0.3)
        return {("b", str(i)): count(row) for i, row in enumerate(labels.tolist())}

    rng = np.random.default_rng(6)
    everything = total(chains(rng, 20_000).values())
    truth = everything.right_wrong / everything.from_right
    held: list[tuple[bool, bool]] = []
    for seed in range(80):
        counts = chains(rng, n)
        one = pooled(total(counts.values()))
        other = estimate_clustered(counts, draws=400, seed=seed).a
        held.append((one.low <= truth <= one.high, other.low <= truth <= other.high))

    assert np.mean(held, axis=0) == pytest.approx([one_chain, clustered], abs=0.08)


def simulated(rng: np.random.Generator, name: str, p0: float, a: float, b: float) -> list[Chain]:
    """200 questions of 20 rounds of one chain."""
    found = []
    for i in range(200):
        labels = [bool(rng.random() < p0)]
        for _ in range(19):
            labels.append(bool(rng.random() < (1 - a if labels[-1] else b)))
        found.append(Chain(benchmark="x", question_id=f"{name}{i}", labels=tuple(labels)))
    return found


def test_bounds_split_questions_by_the_gate_and_find_each_part_s_l() -> None:
    """Hard questions mend (L+ = 0.9), easy ones decay (L- = 0.4); the neutral bound is between."""
    rng = np.random.default_rng(2)
    hard, easy = simulated(rng, "h", 0.2, 0.03, 0.27), simulated(rng, "e", 0.95, 0.3, 0.2)
    p0 = {chain.key: 0.2 for chain in hard} | {chain.key: 0.95 for chain in easy}
    found = bounds([*hard, *easy], p0_parallel=p0)
    assert found.upper is not None
    assert found.lower is not None

    assert found.n_questions == {
        Regime.BENEFICIAL: 200,
        Regime.NEUTRAL: 0,
        Regime.DETRIMENTAL: 200,
    }
    upper, lower = found.upper.stationary_accuracy, found.lower.stationary_accuracy
    assert upper.low < 0.9 < upper.high
    assert lower.low < 0.4 < lower.high
    assert lower.high < found.neutral.stationary_accuracy.value < upper.low
    assert found.upper.counts + found.lower.counts == found.neutral.counts
    assert found.neutral.counts == total(count_by_question([*hard, *easy]).values())


def test_a_bound_without_questions_is_none() -> None:
    """sigma = 1 makes every question beneficial: there is no lower bound."""
    chains = simulated(np.random.default_rng(3), "q", 0.5, 0.1, 0.2)
    found = bounds(chains, p0_parallel={chain.key: 0.9 for chain in chains}, sigma=1.0)

    assert found.lower is None
    assert found.upper == found.neutral
    assert found.n_questions[Regime.BENEFICIAL] == 200


def test_what_cannot_be_estimated_is_refused_by_name() -> None:
    """A question without p0."""
    chain = Chain(benchmark="x", question_id="7", labels=(True, False))
    with pytest.raises(ValueError, match=r"^p0_parallel must hold every question.*\('x', '7'\)$"):
        bounds([chain], p0_parallel={})
