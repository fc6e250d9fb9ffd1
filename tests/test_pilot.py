"""Forecasts from a pilot hold what they promise on worlds that are known."""

import numpy as np
import pytest

from benchmarks.simulated_chains import of_priors
from pipeline.core.errors import ConfigError
from pipeline.planning.pilot import (
    changes_of,
    forecast_accuracy,
    forecast_share,
    forecast_tokens,
)


def markov(rng, questions, rounds, a=0.1, b=0.25, p0=0.5):
    """Rightness of homogeneous chains."""
    right = np.empty((questions, rounds))
    right[:, 0] = rng.random(questions) < p0
    for r in range(1, rounds):
        draw = rng.random(questions)
        right[:, r] = np.where(right[:, r - 1] == 1, draw >= a, draw < b)
    return right


def of_types(rng, questions, rounds):
    """Rightness of rounds that are draws of the question's own p."""
    p_Q = rng.beta(0.4, 0.3, questions)
    return (rng.random((questions, rounds)) < p_Q[:, None]).astype(float)


@pytest.mark.parametrize("world", [markov, of_types])
def test_the_interval_of_a_round_holds_what_other_questions_reach(world):
    """90 % intervals from 8 rounds of 50 questions hold rounds 8, 16 and 32 of 950 others."""
    rng = np.random.default_rng(7)
    held = []
    for _ in range(40):
        right = world(rng, 1_000, 32)
        pilot, others = right[:50, :8], right[50:]
        forecast = forecast_accuracy(
            pilot.sum(axis=0).astype(int).tolist(),
            50,
            (7, 15, 31),
            of=950,
            changes=changes_of(pilot),
        )
        reached = others.mean(axis=0)[[7, 15, 31]]
        held += [i.low <= share <= i.high for i, share in zip(forecast, reached, strict=True)]

    assert 0.84 <= np.mean(held) <= 1.0


def test_more_questions_make_the_interval_narrower_and_none_leaves_0_to_1():
    """Its width falls about as 1 / sqrt(n); a pilot that is all right stays within [0, 1]."""
    few, many = (forecast_accuracy([n // 2] * 8, n, [31], of=10_000)[0] for n in (25, 400))
    (full,) = forecast_accuracy([20] * 4, 20, [7], of=100)

    assert few.half_width > 2.5 * many.half_width
    assert 0 <= full.low <= full.value <= full.high <= 1


def test_slow_chains_are_told_from_questions_that_never_change():
    """Neighbours and all pairs of rounds differ alike in coin flips and in sticky questions, whose
    share is that of Beta(0.1, 0.1), 1 / 1.2 kept; in a slow chain neighbours differ far less."""
    rng = np.random.default_rng(8)
    flips = (rng.random((400, 9)) < 0.6).astype(float)
    sticky = (rng.random((400, 9)) < rng.beta(0.1, 0.1, 400)[:, None]).astype(float)
    slow = markov(rng, 4_000, 9, a=0.05, b=0.05)
    apart = 1 - sum((8 - k) * 0.9**k for k in range(1, 8)) / 28

    assert changes_of(flips).share_2 == pytest.approx([1, 1], abs=0.06)
    assert changes_of(sticky).share_2 == pytest.approx([1 / 6, 1 / 6], abs=0.06)
    assert changes_of(slow).share_2 == pytest.approx([0.1, apart], abs=0.02)
    assert changes_of(flips[:5]) is None


def test_a_pilot_in_which_nothing_changes_does_not_say_that_nothing_can():
    """The error of the shares is then that of one pair that differs: 1 of 24 pairs."""
    still = np.repeat([[1.0] * 4, [0.0] * 4], 6, axis=0)
    found = changes_of(still)

    assert found.share_2 == pytest.approx([0, 0])
    assert np.sqrt(np.diag(found.cov_22)) == pytest.approx([1 / 12] * 2)


def test_a_slow_chain_widens_what_lies_far_ahead():
    """Chains of a = 0.02 and b = 0.05, of which 8 rounds show little, are held at N = 64 far more
    often than by intervals that know nothing of how often rightness changes."""
    rng = np.random.default_rng(11)
    held, held_without = [], []
    for _ in range(40):
        right = markov(rng, 1_000, 64, a=0.02, b=0.05)
        counts, reached = right[:50, :8].sum(axis=0).astype(int).tolist(), right[50:, 63].mean()
        for found, changes in ((held, changes_of(right[:50, :8])), (held_without, None)):
            (told,) = forecast_accuracy(counts, 50, [63], of=950, changes=changes)
            found.append(told.low <= reached <= told.high)

    assert np.mean(held) >= 0.6
    assert np.mean(held) > np.mean(held_without)


def test_intervals_hold_where_chains_are_drawn_from_the_priors():
    """By construction: of chains whose p0, gain, lambda and w are drawn from the priors, kept where
    they can be chains, 90 % intervals hold about 90 % at N = 8, 16 and 64."""
    rng = np.random.default_rng(12)
    held = []
    for _ in range(60):
        right, _ = of_priors(rng)
        forecast = forecast_accuracy(
            right[:50, :8].sum(axis=0).astype(int).tolist(),
            50,
            (7, 15, 63),
            of=950,
            changes=changes_of(right[:50, :8]),
        )
        reached = right[50:].mean(axis=0)[[7, 15, 63]]
        held += [i.low <= share <= i.high for i, share in zip(forecast, reached, strict=True)]

    assert 0.86 <= np.mean(held) <= 0.98


def test_the_share_of_a_strategy_covers():
    """A beta-binomial interval for 1,000 others holds their share about 9 times in 10."""
    rng = np.random.default_rng(9)
    held = []
    for _ in range(400):
        p = rng.uniform(0.2, 0.9)
        told = forecast_share(int(rng.binomial(60, p)), 60, 1_000)
        held.append(told.low <= rng.binomial(1_000, p) / 1_000 <= told.high)

    assert 0.86 <= np.mean(held) <= 0.95


def test_tokens_of_later_rounds_are_those_of_the_later_half():
    """From 8 rounds of 50 questions the tokens of 64 rounds are held, whether lengths stay
    or settle slowly; where they stay, the interval is at most twice what the questions vary."""
    rng = np.random.default_rng(10)
    for settling in (0.0, 0.5):
        held, width = [], []
        for _ in range(100):
            base_Q = rng.lognormal(5, 0.6, 450)
            tokens = base_Q[:, None] * rng.lognormal(0, 0.3, (450, 64))
            tokens *= 1 + settling * 0.8 ** np.arange(64)
            told = forecast_tokens(tokens[:50, :8], 64, 400)
            held.append(told.low <= tokens[50:].sum() <= told.high)
            width.append(told.half_width / told.value)

        assert 0.82 <= np.mean(held) <= 1.0
        assert settling or np.mean(width) < 0.32


def test_a_pilot_that_cannot_be_one_is_refused():
    """Too few questions, and more right answers than questions."""
    with pytest.raises(ConfigError, match="at least 10 questions"):
        forecast_accuracy([3], 5, [0])
    with pytest.raises(ConfigError, match=r"got 20 questions and \[21\]"):
        forecast_accuracy([21], 20, [0])


def test_tokens_that_never_vary_are_forecast_exactly():
    """Chains whose rounds all cost the same leave no doubt on any number of rounds."""
    told = forecast_tokens(np.full((12, 8), 40.0), 64, 100)

    assert (told.low, told.value, told.high) == (256_000, 256_000, 256_000)
