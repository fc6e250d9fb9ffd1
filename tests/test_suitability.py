"""Diagnostics: they tell a two-state chain from questions that stay easy or hard, and a verifier
that sees an answer from one that sees the question."""

import numpy as np
import pytest

from pipeline.theory.suitability import (
    _order,
    suitability,
)


def markov(rng, *, questions=300, rounds=12, a=0.1, b=0.3, p0=0.6):
    """Rightness of homogeneous chains."""
    right = np.empty((questions, rounds), bool)
    right[:, 0] = rng.random(questions) < p0
    for r in range(1, rounds):
        draw = rng.random(questions)
        right[:, r] = np.where(right[:, r - 1], draw >= a, draw < b)
    return right


def exchangeable(rng, *, questions=300, rounds=12):
    """Rightness of rounds that are draws of the question's own p."""
    return rng.random((questions, rounds)) < rng.beta(0.4, 0.3, questions)[:, None]


def scores_of(rng, right, *, of_answer):
    """Scores that follow each answer, or the mean of its question."""
    seen = right if of_answer else right.mean(axis=1, keepdims=True) + 0 * right
    return np.clip(0.3 + 0.4 * seen + rng.normal(0, 0.1, right.shape), 0, 1)


def test_a_markov_world_with_a_seeing_verifier_is_called_one():
    """Correlations are lambda^k, and scores pay within a question."""
    rng = np.random.default_rng(1)
    right = markov(rng)
    found = suitability(right.tolist(), scores_of(rng, right, of_answer=True).tolist())

    assert found is not None
    assert all(
        lag.observed.low - 0.03 <= lag.chain <= lag.observed.high + 0.03 for lag in found.lags
    )
    assert found.auc_within.low > 0.9
    assert "prm_argmax and stopping by its scores can pay" in found.sentences()[0]
    assert "These rounds are consistent with one two-state chain" in found.sentences()[1]


def test_a_world_of_ignorance_is_told_from_it():
    """Rightness far apart stays correlated, and a verifier of questions is blind within them."""
    rng = np.random.default_rng(2)
    right = exchangeable(rng)
    scores = scores_of(rng, right, of_answer=False)
    found = suitability(right.tolist(), scores.tolist())

    assert found.auc_within.low < 0.5 < found.auc_within.high
    assert found.lags[-1].observed.low > found.lags[-1].chain + 0.3
    assert "prefer vote" in found.sentences()[0]
    assert "Questions differ" in found.sentences()[1]


def test_what_is_not_known_is_left_out_and_too_little_tells_nothing():
    """Ungraded rounds and missing scores are no data; 19 chains are too few."""
    rng = np.random.default_rng(5)
    right = markov(rng, questions=40).tolist()
    holed = [[None if r == 3 else value for r, value in enumerate(chain)] for chain in right]
    found = suitability(holed, [[None] * 12] * 40)

    assert found.auc_within is None
    assert found.lags
    assert suitability(right[:19], [[None] * 12] * 19) is None


def test_a_verifier_that_never_errs_on_few_questions_is_not_taken_for_perfect():
    """Where every question says 1, the interval is that of as many equal outcomes: 0.86 of 25."""
    chains = [[True, False, True, False]] * 25
    found = suitability(chains, [[0.9, 0.1, 0.8, 0.2]] * 25)

    assert found.auc_within.high == found.auc_within.value == 1
    assert found.auc_within.low == pytest.approx(0.025 ** (1 / 25))


def test_few_questions_do_not_prove_that_rounds_forget():
    """Where an interval holds the chain's correlation and far higher ones, it is left open."""
    rng = np.random.default_rng(7)
    for _ in range(5):
        right = rng.random((20, 8)) < rng.choice([0.23, 0.77], 20)[:, None]
        found = suitability(right.tolist(), [[None] * 8] * 20)

        assert found.lags[-1].observed.high > found.lags[-1].chain + 0.2
        assert not found.sentences()[0].startswith("These rounds are consistent")


def settling(rng, *, questions=200, rounds=10, a=0.1, b=0.4, q=0.6):
    """Rightness of chains whose changes die out with the run of equal verdicts."""
    right = np.empty((questions, rounds), bool)
    right[:, 0] = rng.random(questions) < 0.4
    run = np.ones(questions)
    for r in range(1, rounds):
        hazard = np.where(right[:, r - 1], a, b) * q ** (run - 1)
        moved = rng.random(questions) < hazard
        right[:, r] = right[:, r - 1] ^ moved
        run = np.where(moved, 1, run + 1)
    return right


def test_a_world_whose_changes_die_out_has_no_l():
    """The limit that is printed is where the chain freezes, well below b / (a + b)."""
    right = settling(np.random.default_rng(8), questions=400)
    found = suitability(right.tolist(), [[None] * 10] * 400)
    [said] = [s for s in found.sentences() if s.startswith("Changes die out")]

    assert found.settles
    assert "There is no L" in said
    assert found.settling.limit.low < right[:, -1].mean() < found.settling.limit.high
    assert found.stationary_accuracy > right[:, -1].mean() + 0.03


def test_the_effect_of_order_is_0_in_a_two_state_chain_of_unlike_a_and_b():
    """Its 99 % interval holds 0 in nearly all of 60 worlds, and not where changes die out."""
    rng = np.random.default_rng(10)
    held = 0
    for _ in range(60):
        effect = _order(markov(rng, questions=100, a=0.05, b=0.5).astype(float))
        held += effect.low <= 0 <= effect.high

    assert held >= 56
    assert _order(settling(rng, questions=400).astype(float)).low > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "never", "most"),
    [
        (markov, ("Changes die out", "a or b change", "Questions differ", "Order matters"), 0.1),
        (
            lambda rng, questions, rounds: (
                rng.random((questions, rounds)) < rng.beta(3.4, 2.27, questions)[:, None]
            ),
            ("These rounds are consistent", "Rounds are nearly independent"),
            0.05,
        ),
        (
            settling,
            ("These rounds are consistent", "Rounds are nearly independent", "Questions differ"),
            0.1,
        ),
    ],
)
def test_sentences_hold_their_level(make, never, most):
    """Of 60 simulated worlds of 200 questions without a finding few are said to have it: chains
    that are one, questions with a correlation of 0.15, and chains that settle."""
    counts = dict.fromkeys(never, 0)
    for seed in range(60):
        right = make(np.random.default_rng(seed), questions=200, rounds=12)
        said = " ".join(suitability(right.tolist(), [[None] * 12] * 200).sentences())
        for sentence in never:
            counts[sentence] += sentence in said

    assert max(counts.values()) <= 60 * most
