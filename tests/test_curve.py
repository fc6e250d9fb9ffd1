"""Fitting a chain to an accuracy curve, against enumeration and against simulated curves."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

from benchmarks.curves import read_curves
from pipeline.theory.curve import CurvePrior, fit_curve, prior_from_fits

CURVES = Path(__file__).parent / "data" / "curves.csv"


def enumerated(counts: list[int], n: int, prior: CurvePrior) -> dict[str, float]:
    """Posterior means on a grid, each step's chance a convolution of two binomials by scipy."""
    z0, gain, kept = np.meshgrid(
        np.linspace(-7, 7, 57), np.linspace(-4, 4, 41), np.linspace(-5, 5, 41), indexing="ij"
    )
    p0, limit, eigenvalue = special.expit(z0), special.expit(z0 + gain), special.expit(kept)
    a, b = (1 - eigenvalue) * (1 - limit), (1 - eigenvalue) * limit
    weight = stats.beta.pdf(p0, 0.5, 0.5) * p0 * (1 - p0) * stats.binom.pmf(counts[0], n, p0)
    weight *= stats.norm.pdf(gain, prior.gain_mean, prior.gain_sd)
    weight *= stats.norm.pdf(kept, prior.kept_mean, prior.kept_sd)
    for before, after in pairwise(counts):
        weight *= sum(
            stats.binom.pmf(stayed, before, 1 - a) * stats.binom.pmf(after - stayed, n - before, b)
            for stayed in range(after + 1)
        )
    weight /= weight.sum()
    values = {"p0": p0, "a": a, "b": b, "limit": limit, "eigenvalue": eigenvalue}
    return {name: float((weight * value).sum()) for name, value in values.items()}


@pytest.mark.parametrize("counts", [[2, 3, 3, 5], [6, 6], [0, 1, 0]])
def test_the_posterior_is_that_of_an_enumeration(counts: list[int]) -> None:
    """Means of p0, a, b, L and lambda agree with a grid within 0.01."""
    prior = CurvePrior(gain_sd=0.8, kept_sd=1.0)
    fit = fit_curve(counts, 6, prior=prior, draws=20_000)
    found = {
        "p0": fit.p0.value,
        "a": fit.a.value,
        "b": fit.b.value,
        "limit": fit.stationary_accuracy.value,
        "eigenvalue": fit.second_eigenvalue.value,
    }

    assert found == pytest.approx(enumerated(counts, 6, prior), abs=0.01)
    assert fit.effective_draws > 10_000


def simulated(rng: np.random.Generator, n: int, rounds: int, p0: float, a: float, b: float):
    """Counts by round of n questions of one chain."""
    counts = [int(rng.binomial(n, p0))]
    for _ in range(rounds - 1):
        counts.append(int(rng.binomial(counts[-1], 1 - a) + rng.binomial(n - counts[-1], b)))
    return counts


def test_a_long_curve_of_many_questions_gives_its_chain_back() -> None:
    """300 questions, 40 rounds: a, b, L and lambda are within their intervals, and those short."""
    counts = simulated(np.random.default_rng(0), 300, 40, 0.4, 0.05, 0.15)
    fit = fit_curve(counts, 300, prior=CurvePrior(), draws=1_000)

    assert fit.a.low < 0.05 < fit.a.high
    assert fit.b.low < 0.15 < fit.b.high
    assert fit.stationary_accuracy.low < 0.75 < fit.stationary_accuracy.high
    assert fit.second_eigenvalue.low < 0.8 < fit.second_eigenvalue.high
    assert fit.stationary_accuracy.half_width < 0.05
    assert (fit.n_rounds, fit.accuracy, fit.mean_accuracy) == (40, (), None)


def test_predictions_hold_what_they_promise() -> None:
    """Curves drawn from the prior itself: about 95 % of later means are within their interval."""
    rng, covered, runs = np.random.default_rng(1), 0, 80
    prior = CurvePrior(gain_mean=0.3, gain_sd=0.5, kept_mean=0.5, kept_sd=0.7)
    for seed in range(runs):
        z0 = special.logit(np.clip(rng.beta(0.5, 0.5), 1e-6, 1 - 1e-6))
        limit = special.expit(z0 + rng.normal(prior.gain_mean, prior.gain_sd))
        kept = special.expit(rng.normal(prior.kept_mean, prior.kept_sd))
        a, b = (1 - kept) * (1 - limit), (1 - kept) * limit
        counts = simulated(rng, 30, 24, float(special.expit(z0)), a, b)
        fit = fit_curve(
            counts[:6], 30, prior=prior, ahead=18, average=(12, 23), draws=300, seed=seed
        )
        assert fit.mean_accuracy is not None
        reached = np.mean(counts[12:24]) / 30
        covered += fit.mean_accuracy.low <= reached <= fit.mean_accuracy.high

    assert covered / runs == pytest.approx(0.95, abs=0.05)


def test_the_next_round_is_predicted_from_the_last_one_seen() -> None:
    """Entry 0 is the round after the last; its mean lies between the last count and L."""
    fit = fit_curve([20, 22, 21], 40, prior=CurvePrior(gain_mean=1, gain_sd=0.1), ahead=50)

    assert len(fit.accuracy) == 50
    assert 21 / 40 < fit.accuracy[0].value < fit.accuracy[-1].value
    assert fit.accuracy[-1].value == pytest.approx(fit.stationary_accuracy.value, abs=0.01)
    assert fit.accuracy[0].half_width < fit.accuracy[-1].half_width


def test_a_prior_from_other_benchmarks_has_their_mean_and_a_wider_spread() -> None:
    """The spread is at least that of the values times sqrt(1 + 1/m)."""
    fits = [
        fit_curve([10, 14, 16, 17], 40, prior=CurvePrior(), draws=200),
        fit_curve([30, 29, 31, 30], 40, prior=CurvePrior(), draws=200),
    ]
    gains = [fit.gain.value for fit in fits]
    prior = prior_from_fits(fits)

    assert prior.gain_mean == pytest.approx(np.mean(gains))
    assert prior.gain_sd == pytest.approx(np.std(gains, ddof=1) * np.sqrt(1.5))
    assert prior_from_fits([fits[0], fits[0]]).gain_sd == 0.1


@pytest.mark.parametrize(
    ("right", "n", "arguments", "message"),
    [
        ([1], 4, {}, "right must hold at least two rounds, got 1"),
        ([1, 5], 4, {}, r"right must be whole numbers in \[0, 4\], got 5 in round 1"),
        ([1.5, 2], 4, {}, r"right must be whole numbers in \[0, 4\], got 1.5 in round 0"),
        ([1, 1], 0, {}, "n_questions must be >= 1, got 0"),
        (
            [1, 1],
            4,
            {"ahead": 3, "average": (1, 4)},
            r"average must lie within rounds 2 to 4, got \(1, 4\)",
        ),
    ],
)
def test_a_curve_that_cannot_be_is_refused(right, n: int, arguments, message: str) -> None:
    """Counts, sizes and windows out of range are named with their round."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        fit_curve(right, n, prior=CurvePrior(), **arguments)


def test_priors_that_cannot_be_are_refused() -> None:
    """A spread of 0, and a prior from a single benchmark."""
    with pytest.raises(ValueError, match=r"^gain_sd must be > 0, got 0$"):
        CurvePrior(gain_sd=0)
    with pytest.raises(ValueError, match=r"^fits must hold at least two benchmarks, got 0$"):
        prior_from_fits([])


def test_curves_are_read_as_counts() -> None:
    """Made-up curves of 64 rounds: counts of right answers, and how many questions they are of."""
    curves = {curve.benchmark: curve for curve in read_curves(CURVES)}
    small = curves["made-up-small"]

    assert {name: curve.n_questions for name, curve in curves.items()} == {
        "made-up-large": 700,
        "made-up-small": 30,
        "made-up-falling": 45,
    }
    assert all(len(curve.right) == 64 for curve in curves.values())
    assert small.right[:8] == (9, 12, 14, 15, 18, 21, 22, 22)
    assert small.first_mean == pytest.approx(133 / 8 / 30)
    assert small.reached == pytest.approx(sum(small.right[31:]) / 33 / 30)


def test_a_curve_file_with_a_missing_round_is_refused(tmp_path: Path) -> None:
    """The error names benchmark and file."""
    path = tmp_path / "curves.csv"
    path.write_text("benchmark,rounds,accuracy,correct\nAIME,1,0.5,15\nAIME,3,0.5,15\n")
    with pytest.raises(ValueError, match=r"^AIME must have rounds 1 to 64 in .*curves\.csv$"):
        read_curves(path)
