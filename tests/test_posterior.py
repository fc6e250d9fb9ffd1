"""The Beta belief: prior strength, one update an answer, both branches of the mode."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import optimize, stats

from pipeline.theory.posterior import BetaPosterior

probabilities = st.floats(0, 1)


@given(probabilities, st.floats(0.1, 100))
def test_the_prior_has_mean_p0_and_weighs_gamma_observations(p0: float, gamma: float) -> None:
    """alpha + beta = gamma and alpha / gamma = p0 (Eq. 16)."""
    prior = BetaPosterior.prior(p0_hat=p0, gamma=gamma)

    assert prior.alpha + prior.beta == pytest.approx(gamma)
    assert prior.alpha / gamma == pytest.approx(p0)


@given(st.lists(probabilities, min_size=1, max_size=64), st.randoms())
def test_updates_add_up_in_any_order(scores: list[float], shuffler) -> None:
    """alpha gains the sum of the scores, beta that of their complements (Eq. 17)."""
    shuffled = list(scores)
    shuffler.shuffle(shuffled)
    one = other = BetaPosterior.prior(p0_hat=0.7, gamma=10)
    for score, elsewhere in zip(scores, shuffled, strict=True):
        one, other = one.update(score), other.update(elsewhere)

    assert (one.alpha, one.beta) == pytest.approx((other.alpha, other.beta))
    assert one.alpha == pytest.approx(7 + sum(scores))
    assert one.alpha + one.beta == pytest.approx(10 + len(scores))


@given(st.floats(1.01, 50), st.floats(1.01, 50))
def test_the_mode_is_where_the_density_is_highest(alpha: float, beta: float) -> None:
    """Both parameters above 1: the point found by maximising scipy's Beta density (Eq. 18)."""
    found = optimize.minimize_scalar(
        lambda p: -stats.beta.logpdf(p, alpha, beta),
        bounds=(0, 1),
        method="bounded",
        options={"xatol": 1e-9},
    )
    posterior = BetaPosterior(alpha, beta)
    density = stats.beta.logpdf([posterior.map, found.x], alpha, beta)

    assert density[0] >= density[1] - 1e-9


@given(st.floats(0, 50), st.floats(0, 50))
def test_the_mean_stands_in_where_a_parameter_is_at_most_one(alpha: float, beta: float) -> None:
    """The other branch of Eq. 18; where alpha or beta is 0 it is 0 or 1."""
    assume(min(alpha, beta) <= 1 and alpha + beta > 0)

    assert BetaPosterior(alpha, beta).map == alpha / (alpha + beta)


@pytest.mark.parametrize(
    ("alpha", "beta", "expected"),
    [(1, 1, 0.5), (1, 3, 0.25), (3, 1, 0.75), (2, 2, 0.5), (9, 1, 0.9), (9.9, 1.1, 8.9 / 9)],
)
def test_the_two_branches_of_the_mode(alpha: float, beta: float, expected: float) -> None:
    """The branch is taken at exactly 1, so the mode jumps there: 0.9 against 0.989."""

    assert BetaPosterior(alpha, beta).map == pytest.approx(expected)


@pytest.mark.parametrize(
    ("alpha", "beta", "message"),
    [
        (-1, 1, "alpha must be finite and >= 0, got -1"),
        (1, math.nan, "beta must be finite and >= 0, got nan"),
        (math.inf, 1, "alpha must be finite and >= 0, got inf"),
        (0, 0, r"alpha \+ beta must be > 0, got 0 \+ 0"),
    ],
)
def test_parameters_that_are_no_belief_are_refused(alpha: float, beta: float, message: str) -> None:
    """Both at least 0 and finite, their sum positive."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        BetaPosterior(alpha, beta)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, math.inf])
def test_scores_and_priors_outside_the_unit_interval_are_refused(bad: float) -> None:
    """Each error names the argument and shows the value."""
    with pytest.raises(ValueError, match=rf"^phi must be in \[0, 1\], got {bad!r}$"):
        BetaPosterior(1, 1).update(bad)
    with pytest.raises(ValueError, match=rf"^p0_hat must be in \[0, 1\], got {bad!r}$"):
        BetaPosterior.prior(p0_hat=bad, gamma=10)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_a_prior_strength_that_is_not_positive_is_refused(bad: float) -> None:
    """gamma > 0 and finite."""
    with pytest.raises(ValueError, match=rf"^gamma must be finite and > 0, got {bad!r}$"):
        BetaPosterior.prior(p0_hat=0.5, gamma=bad)


def test_a_verifier_that_says_one_thing_wins_in_the_end() -> None:
    """With constant scores the mode goes to the score whatever the prior says."""
    posterior = BetaPosterior.prior(p0_hat=0.1, gamma=10)
    path = []
    for _ in range(10_000):
        posterior = posterior.update(0.93)
        path.append(posterior.map)

    assert np.all(np.diff(path) > 0)
    assert path[-1] == pytest.approx(0.93, abs=1e-3)
