"""Forecasts from a pilot hold what they promise on worlds that are known."""

import numpy as np
import pytest

from pipeline.planning.pilot import (
    forecast_chains,
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


def easy_and_slow(rng, questions, rounds):
    """Six of ten questions always right, the others slow chains."""
    right = markov(rng, questions, rounds, a=0.03, b=0.05, p0=0.3)
    right[rng.random(questions) < 0.6] = 1
    return right


@pytest.mark.parametrize("world", [markov, of_types, easy_and_slow])
def test_the_interval_of_a_round_holds_what_other_questions_reach(world):
    """90 % intervals from 8 rounds of 50 questions hold rounds 8, 16 and 32 of 950 others.

    The rounds of a chain are held or missed together, so the share has the error of 15 trials; it
    may lie up to three of its standard errors below 90 %.
    """
    rng = np.random.default_rng(7)
    held = []
    for _ in range(15):
        right = world(rng, 1_000, 32)
        pilot, others = right[:50, :8], right[50:]
        forecast = forecast_chains(pilot, (7, 15, 31), of=950, draws=200)
        reached = others.mean(axis=0)[[7, 15, 31]]
        held += [i.low <= share <= i.high for i, share in zip(forecast, reached, strict=True)]

    assert np.mean(held) >= 0.9 - 3 * np.sqrt(0.9 * 0.1 / 15)


def test_more_questions_make_the_interval_narrower_and_none_leaves_0_to_1():
    """Its width falls about as 1 / sqrt(n); a pilot that is all right stays within [0, 1]."""
    rng = np.random.default_rng(8)
    few, many = (forecast_chains(markov(rng, n, 8), [7], of=10_000)[0] for n in (25, 400))
    (full,) = forecast_chains(np.ones((20, 4)), [7], of=100)

    assert few.half_width > 2.5 * many.half_width
    assert 0 <= full.low <= full.value <= full.high <= 1


def test_the_share_of_a_strategy_covers():
    """A beta-binomial interval for 1,000 others holds their share about 9 times in 10."""
    rng = np.random.default_rng(9)
    held = []
    for _ in range(200):
        p = rng.uniform(0.2, 0.9)
        told = forecast_share(int(rng.binomial(60, p)), 60, 1_000)
        held.append(told.low <= rng.binomial(1_000, p) / 1_000 <= told.high)

    assert 0.86 <= np.mean(held) <= 0.95


def test_tokens_of_later_rounds_are_those_of_the_later_half():
    """From 8 rounds of 50 questions the tokens of 64 rounds are held, and the interval is at most
    twice what the questions vary."""
    rng = np.random.default_rng(10)
    held, width = [], []
    for _ in range(200):
        base_Q = rng.lognormal(5, 0.6, 450)
        tokens = base_Q[:, None] * rng.lognormal(0, 0.3, (450, 64))
        told = forecast_tokens(tokens[:50, :8], 64, 400)
        held.append(told.low <= tokens[50:].sum() <= told.high)
        width.append(told.half_width / told.value)

    assert 0.82 <= np.mean(held) <= 1.0
    assert np.mean(width) < 0.32
