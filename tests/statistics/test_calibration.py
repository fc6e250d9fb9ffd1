"""Discrimination, reliability and calibration maps against hand counts and simulated verifiers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pipeline.statistics.calibration import calibrate, fit_isotonic, reliability, roc_auc
from pipeline.statistics.calibration_maps import IsotonicMap, PlattMap

scored = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.booleans()), min_size=1, max_size=30
)


@given(scored)
def test_auc_is_the_share_of_pairs_in_the_right_order(pairs: list[tuple[float, bool]]) -> None:
    """Over all (right, wrong) pairs, ties counting half; nan where one kind is missing."""
    scores, right = zip(*pairs, strict=True)
    high = [score for score, is_right in pairs if is_right]
    low = [score for score, is_right in pairs if not is_right]
    found = roc_auc(scores, right)

    if high and low:
        assert found == pytest.approx(
            np.mean([(h > w) + 0.5 * (h == w) for h in high for w in low])
        )
        assert found * len(high) * len(low) == pytest.approx(
            stats.mannwhitneyu(high, low).statistic
        )
    else:
        assert math.isnan(found)


def test_reliability_by_hand() -> None:
    """Predictions of 0.22 and 0.28 of which one is right, in one bin; one of 1.0 that is wrong."""
    found = reliability([0.22, 0.28, 1.0], [True, False, False])

    assert found.n == 3
    assert found.ece == pytest.approx((2 * 0.25 + 1 * 1.0) / 3)
    assert found.brier == pytest.approx((0.78**2 + 0.28**2 + 1) / 3)
    assert found.auc == 0.0


@given(scored)
def test_isotonic_is_the_best_non_decreasing_map(pairs: list[tuple[float, bool]]) -> None:
    """Non-decreasing, mean-preserving, and no worse than the constant or the identity."""
    scores, right = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    found = fit_isotonic(scores, right)
    mapped = np.array([found(score) for score in scores])

    assert np.all(np.diff([found(x) for x in np.linspace(-0.5, 1.5, 41)]) >= -1e-12)
    assert np.mean(mapped) == pytest.approx(np.mean(right))
    assert np.sum((mapped - right) ** 2) <= np.sum((np.mean(right) - right) ** 2) + 1e-9
    assert np.sum((mapped - right) ** 2) <= np.sum((scores - right) ** 2) + 1e-9


def test_isotonic_pools_violators_into_blocks() -> None:
    """Shares 0, 1, 0, 1 at four scores: the middle two pool to 1/2; linear in between."""
    found = fit_isotonic([0.1, 0.3, 0.5, 0.9], [False, True, False, True])

    assert found == IsotonicMap(scores=(0.1, 0.3, 0.5, 0.9), probabilities=(0.0, 0.5, 0.5, 1.0))
    assert [found(x) for x in (0.0, 0.2, 0.4, 0.7, 1.0)] == pytest.approx(
        [0.0, 0.25, 0.5, 0.75, 1.0]
    )


def test_a_map_mends_a_squeezed_verifier_on_questions_it_has_not_seen() -> None:
    """Scores near 0.93 whatever is true, as mean-of-steps scores are: ECE and Brier both fall."""
    rng = np.random.default_rng(1)
    questions = np.repeat(np.arange(300), 8)
    chance = np.clip(rng.beta(2, 2, 300)[questions] + rng.normal(0, 0.05, 2_400), 0, 1)
    scores = 0.88 + 0.1 * chance
    right = rng.random(2_400) < chance
    before, after = calibrate(scores, right, list(questions), seed=0)

    assert before.ece > 0.3
    assert after.ece < 0.06
    assert after.brier < before.brier - 0.1
    assert after.auc == pytest.approx(before.auc, abs=0.01)
    assert before.n == after.n == 150 * 8


def test_the_split_keeps_questions_whole_and_depends_on_its_seed_alone() -> None:
    """The map comes from the fitting half: the other half's labels do not change it."""
    rng = np.random.default_rng(2)
    questions = [f"q{i % 40}" for i in range(400)]
    scores, right = rng.random(400), rng.random(400) < 0.5
    found = calibrate(scores, right, questions, seed=5)
    order = np.random.default_rng(5).permutation(40)
    fitting = {f"q{i}" for i in order[:20]}
    held_out = np.array([question not in fitting for question in questions])
    fitted = fit_isotonic(scores[~held_out], right[~held_out])
    mapped = [fitted(score) for score in scores[held_out]]

    assert found == calibrate(scores, right, questions, seed=5)
    assert found[1] == reliability(mapped, right[held_out])
    assert found != calibrate(scores, right, questions, seed=6)


@pytest.mark.parametrize("z", [-800.0, -1.0, 0.0, 1.0, 800.0])
def test_a_platt_map_does_not_overflow(z: float) -> None:
    """Far out it is 0 or 1."""

    assert PlattMap(slope=1.0, intercept=0.0)(z) == pytest.approx(
        1 / (1 + np.exp(-np.clip(z, -700, 700)))
    )


def test_what_cannot_be_calibrated_is_refused() -> None:
    """Lengths, ranges, single questions and maps that are no maps, each named."""
    with pytest.raises(ValueError, match=r"^scores and right must be of one length >= 1"):
        roc_auc([0.5], [True, False])
    with pytest.raises(ValueError, match=r"^scores must be finite, got"):
        roc_auc([math.nan], [True])
    with pytest.raises(ValueError, match=r"^predicted must be in \[0, 1\]"):
        reliability([1.5], [True])
    with pytest.raises(ValueError, match=r"^questions must be one a score, 2, got 1$"):
        calibrate([0.1, 0.2], [True, False], ["a"], seed=0)
    with pytest.raises(ValueError, match=r"^questions must hold at least two, got 1$"):
        calibrate([0.1, 0.2], [True, False], ["a", "a"], seed=0)
    with pytest.raises(ValueError, match=r"^scores must be finite and increase, got \(1.0, 1.0\)$"):
        IsotonicMap(scores=(1.0, 1.0), probabilities=(0.1, 0.2))
    with pytest.raises(ValueError, match=r"^probabilities must be finite and not decrease"):
        IsotonicMap(scores=(0.0, 1.0), probabilities=(0.2, 0.1))
    with pytest.raises(ValueError, match=r"^probabilities must be in \[0, 1\]"):
        IsotonicMap(scores=(0.0, 1.0), probabilities=(0.2, 1.1))
    with pytest.raises(ValueError, match=r"^scores and probabilities must be of one length >= 1"):
        IsotonicMap(scores=(), probabilities=())
    with pytest.raises(ValueError, match=r"^slope must be finite, got nan$"):
        PlattMap(slope=math.nan, intercept=0.0)
