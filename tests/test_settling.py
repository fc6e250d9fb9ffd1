"""Settling chains: closed forms against recursions, fits against the truth, models compared."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.theory.markov import accuracy_after
from pipeline.theory.settling import Settling, changes, compare_chains, fit_settling, remaining

unit = st.floats(0, 1)


def by_round(**values):
    return Settling(by="round", **values)


def test_published_values_of_the_chain_that_settles_by_the_round():
    """a .2, b .4, rho .5, p0 .3: the curve, its limit, and L at rho 1."""
    chain = by_round(a=0.2, b=0.4, kept=0.5)

    assert chain.curve(0.3, 5) == pytest.approx([0.3, 0.52, 0.564, 0.5794, 0.585945], abs=5e-7)
    assert chain.limit(0.3) == pytest.approx(0.591849, abs=5e-7)
    assert by_round(a=0.2, b=0.4, kept=1).limit(0.3) == pytest.approx(2 / 3)


def test_published_values_of_the_chain_that_settles_by_the_run():
    """a .2, b .4, q .5, p0 .3: curve, A, B, limit, gains, and the run worth waiting for."""
    chain = Settling(a=0.2, b=0.4, kept=0.5)

    assert chain.curve(0.3, 5) == pytest.approx([0.3, 0.52, 0.548, 0.566, 0.57711], abs=5e-6)
    assert 1 - remaining(0.2, 0.5) == pytest.approx(0.349634, abs=5e-7)
    assert 1 - remaining(0.4, 0.5) == pytest.approx(0.609780, abs=5e-7)
    assert chain.limit(0.3) == pytest.approx(0.600808, abs=5e-7)
    assert chain.limit(0.3) == pytest.approx(chain.curve(0.3, 200)[-1], abs=1e-12)
    assert (chain.gain(0.4, 1), chain.gain(0.4, 3)) == pytest.approx((0.16, 0.04))


@given(a=unit, b=unit, p0=unit, rounds=st.integers(1, 20))
def test_a_chain_that_keeps_all_is_the_homogeneous_one(a, b, p0, rounds):
    """With `kept` 1 both models have the curve of Eq. 4."""
    expected = [accuracy_after(r, p0=p0, a=a, b=b) for r in range(rounds)]

    assert by_round(a=a, b=b, kept=1).curve(p0, rounds) == pytest.approx(expected, abs=1e-9)
    assert Settling(a=a, b=b, kept=1).curve(p0, rounds) == pytest.approx(expected, abs=1e-9)


most = st.floats(0, 0.6)


@given(a=most, b=most, kept=st.floats(0.05, 0.6), p0=unit, by=st.sampled_from(["round", "run"]))
def test_limits_are_where_the_curves_end(a, b, kept, p0, by):
    """The closed limit equals the curve after 200 rounds."""
    chain = Settling(a=a, b=b, kept=kept, by=by)

    assert chain.limit(p0) == pytest.approx(chain.curve(p0, 200)[-1], abs=1e-6)


@pytest.mark.parametrize("s", [0.001, 0.05, 0.5, 0.95])
def test_the_product_is_continuous_where_its_formula_changes(s):
    """At 0.999 the product of all factors and the asymptotic formula agree to 1e-4."""
    slow = remaining(s, 0.99900001)

    assert slow == pytest.approx(remaining(s, 0.999), rel=1e-2, abs=1e-12)


@pytest.mark.parametrize(("name", "value"), [("a", 1.1), ("b", -0.1), ("kept", 0.0)])
def test_values_out_of_range_are_refused_by_name(name, value):
    """A chain is checked when it is made."""
    with pytest.raises(ValueError, match=name):
        Settling(**{"a": 0.1, "b": 0.2, "kept": 0.5, name: value})


def simulated(chain, p0, questions, rounds, seed=0):
    """Chains of 1 and 0, (Q, T)."""
    rng = np.random.default_rng(seed)
    right = np.zeros((questions, rounds))
    right[:, 0] = rng.random(questions) < p0
    run = np.ones(questions)
    for r in range(1, rounds):
        power = run - 1 if chain.by == "run" else r - 1
        hazard = np.where(right[:, r - 1] == 1, chain.a, chain.b) * chain.kept**power
        moved = rng.random(questions) < hazard
        right[:, r] = np.where(moved, 1 - right[:, r - 1], right[:, r - 1])
        run = np.where(moved, 1, run + 1)
    return right


@pytest.mark.parametrize("by", ["round", "run"])
def test_fits_find_the_chain_that_made_the_data(by):
    """20,000 chains give a, b and kept back, and the limit that the chains reach."""
    truth = Settling(a=0.1, b=0.45, kept=0.55, by=by)
    right = simulated(truth, 0.4, 20_000, 12)
    fit = fit_settling(right, by, draws=50)

    assert (fit.chain.a, fit.chain.b, fit.chain.kept) == pytest.approx((0.1, 0.45, 0.55), abs=0.01)
    assert fit.limit.value == pytest.approx(right[:, -1].mean(), abs=0.01)
    assert fit.kept.low < 0.55 < fit.kept.high


def test_chains_that_do_not_settle_keep_all():
    """A homogeneous chain's fit has `kept` near 1 and never above."""
    right = simulated(Settling(a=0.1, b=0.25, kept=1), 0.6, 5_000, 8)

    assert 0.97 < fit_settling(right, "round", draws=20).chain.kept <= 1


def test_an_unknown_label_ends_a_run():
    """Transitions into and out of it are not counted, and the next answer is fresh."""
    counted = changes([[True, True, None, True, True, False]], "run")

    assert counted.trials_QXK[0, 0].tolist() == [2, 1, 0, 0, 0]
    assert counted.changed_QXK[0, 0].tolist() == [0, 1, 0, 0, 0]


def test_the_comparison_prefers_the_chain_that_made_the_data():
    """Later rounds of a settling chain are better told by U; those of H by nothing else."""
    settling = compare_chains(simulated(Settling(a=0.1, b=0.45, kept=0.55), 0.4, 400, 10))
    steady = compare_chains(simulated(Settling(a=0.1, b=0.25, kept=1), 0.6, 400, 10))

    assert settling.gain["U"].low > 0
    assert settling.q == pytest.approx(0.55, abs=0.08)
    assert not any(steady.gain[name].low > 0 for name in ("S", "U", "RU"))
