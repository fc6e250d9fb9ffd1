"""The closed forms against matrix powers, the definitions and brute force."""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pipeline.theory.markov import (
    Regime,
    accuracy_after,
    eq12_holds,
    regime,
    rounds_to_reach,
    second_eigenvalue,
    stationary_accuracy,
)

CORNERS = (0.0, 1.0, 0.5, 0.25, 0.1, 0.9, 1e-3, 1 - 1e-3, 1e-9, 1 - 1e-12)
probabilities = st.one_of(st.sampled_from(CORNERS), st.floats(0, 1))
HORIZON = 2_000
ROUNDS = np.arange(HORIZON)


def matrix_power(rounds: int, p0: float, a: float, b: float) -> float:
    """p_r by multiplying the transition matrix, right being state 0 (Eq. 2)."""
    transition = np.array([[1 - a, a], [b, 1 - b]])
    return float((np.array([p0, 1 - p0]) @ np.linalg.matrix_power(transition, rounds))[0])


def by_brute_force(tau: float, p0: float, a: float, b: float, first: int) -> int | None:
    """The least round from `first` to the horizon that reaches tau, by trying each of them."""
    reached = accuracy_after(ROUNDS[first:], p0=p0, a=a, b=b) >= tau - 1e-12
    return first + int(np.argmax(reached)) if np.any(reached) else None


@given(st.integers(0, 200), probabilities, probabilities, probabilities)
def test_accuracy_is_the_matrix_power_over_the_whole_square(
    rounds: int, p0: float, a: float, b: float
) -> None:
    """Eq. 4 equals Eq. 2 for every (a, b) of the unit square, its corners included."""

    assert accuracy_after(rounds, p0=p0, a=a, b=b) == pytest.approx(
        matrix_power(rounds, p0, a, b), abs=1e-12
    )


@given(probabilities, probabilities, probabilities)
def test_accuracy_follows_the_recurrence_in_arrays(p0: float, a: float, b: float) -> None:
    """p_{r+1} = (1 - a) p_r + b (1 - p_r), for a whole curve at once."""
    curve = np.asarray(accuracy_after(np.arange(65), p0=p0, a=a, b=b))
    stepped = (1 - a) * curve[:-1] + b * (1 - curve[:-1])

    np.testing.assert_allclose(curve[1:], stepped, atol=1e-12)
    assert curve[0] == pytest.approx(p0, abs=1e-15)


@pytest.mark.parametrize(
    ("a", "b", "curve"),
    [
        (0.0, 0.0, [0.3, 0.3, 0.3, 0.3]),
        (1.0, 1.0, [0.3, 0.7, 0.3, 0.7]),
        (0.5, 0.5, [0.3, 0.5, 0.5, 0.5]),
        (0.0, 1.0, [0.3, 1.0, 1.0, 1.0]),
        (1.0, 0.0, [0.3, 0.0, 0.0, 0.0]),
        (0.75, 0.75, [0.3, 0.6, 0.45, 0.525]),
    ],
)
def test_degenerate_chains_have_their_own_curves(a: float, b: float, curve: list[float]) -> None:
    """a = b = 0 stays, a + b = 1 is at L at once, a + b > 1 alternates around L."""

    assert accuracy_after(np.arange(4), p0=0.3, a=a, b=b) == pytest.approx(curve, abs=1e-15)


@given(probabilities, probabilities)
def test_stationary_accuracy_is_the_fixed_point(a: float, b: float) -> None:
    """L = (1 - a) L + b (1 - L) (Eq. 9) and lambda is the other eigenvalue of the matrix."""
    assume(a + b > 1e-6)
    limit = stationary_accuracy(a, b)
    eigenvalues = np.linalg.eigvals(np.array([[1 - a, a], [b, 1 - b]]))

    assert limit == pytest.approx((1 - a) * limit + b * (1 - limit), abs=1e-12)
    assert sorted([1.0, second_eigenvalue(a, b)]) == pytest.approx(sorted(eigenvalues), abs=1e-9)


def test_stationary_accuracy_of_a_chain_that_never_moves_is_nan() -> None:
    """a = b = 0 has no L, in arrays too, and no warning is raised."""
    limits = stationary_accuracy(np.array([0.0, 0.1]), np.array([0.0, 0.3]))

    assert math.isnan(stationary_accuracy(0.0, 0.0))
    np.testing.assert_allclose(limits, [np.nan, 0.75])


@given(st.integers(0, 64), probabilities, probabilities, probabilities, st.floats(-0.2, 0.2))
def test_benefit_is_the_factored_form_of_the_paper(
    rounds: int, p0: float, a: float, b: float, sigma: float
) -> None:
    """g_i = (L - p0)(1 - lambda^i) + sigma (Eq. 6)."""
    assume(a + b > 0)
    factored = (stationary_accuracy(a, b) - p0) * (1 - second_eigenvalue(a, b) ** rounds) + sigma

    gained = accuracy_after(rounds, p0=p0, a=a, b=b) - p0 + sigma
    assert gained == pytest.approx(factored, abs=1e-12)


@given(probabilities, st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(-0.2, 0.2))
def test_regime_is_the_sign_of_the_benefit_after_many_rounds(
    p0: float, a: float, b: float, sigma: float
) -> None:
    """Eq. 7: after enough rounds the benefit has the sign that the regime names."""
    late = accuracy_after(5_000, p0=p0, a=a, b=b) - p0 + sigma
    assume(abs(late) > 1e-9)

    assert regime(p0=p0, a=a, b=b, sigma=sigma) is (
        Regime.BENEFICIAL if late > 0 else Regime.DETRIMENTAL
    )


@pytest.mark.parametrize(
    ("p0", "a", "b", "sigma", "expected"),
    [
        (0.75, 0.1, 0.3, 0.0, Regime.NEUTRAL),
        (0.75 + 9e-13, 0.1, 0.3, 0.0, Regime.NEUTRAL),
        (0.75 - 9e-13, 0.1, 0.3, 0.0, Regime.NEUTRAL),
        (0.85, 0.1, 0.3, 0.1, Regime.NEUTRAL),
        (0.8, 0.1, 0.3, 0.1, Regime.BENEFICIAL),
        (0.7, 0.1, 0.3, -0.1, Regime.DETRIMENTAL),
        (0.2, 0.0, 0.0, 0.0, Regime.NEUTRAL),
        (0.2, 0.0, 0.0, 0.5, Regime.NEUTRAL),
        (0.4, 1.0, 1.0, 0.0, Regime.BENEFICIAL),
        (0.5, 1.0, 1.0, 0.0, Regime.NEUTRAL),
        (0.6, 1.0, 1.0, 0.0, Regime.DETRIMENTAL),
    ],
)
def test_regime_at_its_edges(p0: float, a: float, b: float, sigma: float, expected: Regime) -> None:
    """Equality is NEUTRAL within 1e-12, a = b = 0 always, and a = b = 1 is judged by L."""

    assert regime(p0=p0, a=a, b=b, sigma=sigma) is expected


@settings(max_examples=200)
@given(
    st.one_of(probabilities, st.floats(-0.5, 1.5)),
    probabilities,
    probabilities,
    probabilities,
    st.integers(0, 70),
)
@example(0.7, 0.2, 0.1, 0.3, 1)
@example(0.75 - 1e-9, 0.2, 0.1, 0.3, 1)
@example(0.9, 0.2, 0.1, 0.9, 0)
@example(0.5, 0.2, 0.9, 0.9, 0)
@example(0.6, 0.2, 0.9, 0.9, 2)
def test_rounds_to_reach_agrees_with_brute_force(
    tau: float, p0: float, a: float, b: float, first: int
) -> None:
    """The least r >= first that reaches tau, over the whole square, each first and any tau."""
    limit = stationary_accuracy(a, b)
    assume(math.isnan(limit) or abs(tau - limit) > 1e-12)
    assume(not 1 < tau <= 1 + 1e-12)
    found = rounds_to_reach(tau, p0=p0, a=a, b=b, first=first, most=HORIZON - 1)
    tried = by_brute_force(tau, p0, a, b, first)

    assert found == tried


@pytest.mark.parametrize("first", [0, 1, 5, 200])
def test_a_fixed_point_is_approached_from_below_and_never_reached(first: int) -> None:
    """tau = L > p0 with 0 < lambda < 1 has no round, whatever rounding makes of late ones."""

    assert rounds_to_reach(0.75, p0=0.2, a=0.1, b=0.3, first=first) is None
    assert rounds_to_reach(1.0, p0=0.2, a=0.0, b=0.3, first=first) is None


@pytest.mark.parametrize(
    ("tau", "p0", "a", "b", "first", "expected"),
    [
        (0.5, 0.2, 0.5, 0.5, 0, 1),  # lambda = 0: at L = tau after one round
        (0.5, 0.9, 0.5, 0.5, 0, 0),
        (0.51, 0.9, 0.5, 0.5, 1, None),
        (0.8, 0.2, 1.0, 1.0, 0, 1),  # alternates 0.2, 0.8, 0.2, 0.8
        (0.8, 0.2, 1.0, 1.0, 2, 3),
        (0.8, 0.8, 1.0, 1.0, 1, 2),
        (0.81, 0.8, 1.0, 1.0, 0, None),
        (0.5, 0.2, 0.9, 0.9, 2, 3),  # swings around L = tau: an odd round is above
        (0.3, 0.3, 0.0, 0.0, 0, 0),
        (0.3, 0.3, 0.0, 0.0, 7, 7),
        (0.31, 0.3, 0.0, 0.0, 0, None),
        (0.3 + 9e-13, 0.3, 0.0, 0.0, 1, 1),
        (0.3 + 2e-12, 0.3, 0.0, 0.0, 1, None),
        (1.0 + 1e-13, 1.0, 0.0, 0.5, 0, None),
        (1.5, 0.2, 0.0, 0.5, 1, None),
        (-0.5, 0.2, 0.9, 0.05, 3, 3),
    ],
)
def test_rounds_to_reach_at_its_edges(
    tau: float, p0: float, a: float, b: float, first: int, expected: int | None
) -> None:
    """Degenerate chains, parity, the tolerance of 1e-12, and tau outside [0, 1]."""

    assert rounds_to_reach(tau, p0=p0, a=a, b=b, first=first) == expected


@given(st.integers(1, 64), probabilities, probabilities, probabilities, st.floats(0, 1.2))
def test_the_printed_test_asks_whether_the_chain_started_at_the_mode_is_there_by_i(
    i: int, p_map: float, a: float, b: float, tau: float
) -> None:
    """Eq. 12 is accuracy_after(i, p0=p_map) >= tau multiplied by a + b."""
    reached = accuracy_after(i, p0=p_map, a=a, b=b)
    assume(a + b == 0 or abs(reached - tau) > 1e-9)
    assume(a + b == 0 or a + b > 1e-3)

    assert eq12_holds(i, p_map=p_map, a=a, b=b, tau=tau) is (reached >= tau)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["p0", "a", "b"])
def test_a_probability_out_of_range_is_refused_by_name(name: str, bad: float) -> None:
    """Every function names the argument and shows what came."""
    values = {"p0": 0.5, "a": 0.1, "b": 0.2} | {name: bad}
    message = rf"^{name} must be in \[0, 1\], got {bad!r}$"

    for call in (
        lambda: accuracy_after(1, **values),
        lambda: regime(**values),
        lambda: rounds_to_reach(0.5, **values),
        lambda: eq12_holds(1, p_map=values["p0"], a=values["a"], b=values["b"], tau=0.5),
    ):
        with pytest.raises(ValueError, match=message.replace("p0", "(p0|p_map)")):
            call()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_threshold_or_margin_that_is_not_finite_is_refused_by_name(bad: float) -> None:
    """nan and inf are refused for tau and sigma too."""
    with pytest.raises(ValueError, match=rf"^tau must be finite, got {bad!r}$"):
        rounds_to_reach(bad, p0=0.5, a=0.1, b=0.2)
    with pytest.raises(ValueError, match=rf"^tau must be finite, got {bad!r}$"):
        eq12_holds(1, p_map=0.5, a=0.1, b=0.2, tau=bad)
    with pytest.raises(ValueError, match=rf"^sigma must be finite, got {bad!r}$"):
        regime(p0=0.5, a=0.1, b=0.2, sigma=bad)


@pytest.mark.parametrize("bad", [-1, 0.5, math.nan, math.inf])
def test_a_round_that_is_not_a_whole_number_is_refused(bad: float) -> None:
    """Rounds are whole numbers >= 0; first is one of them."""
    with pytest.raises(ValueError, match=r"^rounds must be a whole number >= 0, got"):
        accuracy_after([0, bad], p0=0.5, a=0.1, b=0.2)
    with pytest.raises(ValueError, match=r"^first must be a whole number >= 0, got"):
        rounds_to_reach(0.5, p0=0.5, a=0.1, b=0.2, first=bad)  # type: ignore[arg-type]
