"""The fit of agree's weights finds what made answers right, and is pulled to a vote otherwise."""

import numpy as np
import pytest

from pipeline.core.errors import ConfigError
from pipeline.predictors.agreement_fit import _observations, fit_agreement, looked_at
from pipeline.statistics.agreement import agreement


def world(rng, *, questions, rounds=8, verifier_sees=True):
    """Chains of a right answer and three wrong ones; scores tell them apart, or only noise."""
    skill = rng.uniform(0.2, 0.9, questions)[:, None]
    right = rng.random((questions, rounds)) < skill
    said = np.where(right, 0, rng.integers(1, 4, (questions, rounds)))
    form = np.empty_like(said)
    for q, row in enumerate(said):
        seen = {}
        form[q] = [seen.setdefault(int(value), len(seen)) for value in row]
    shift = np.where(right, 0.08, -0.08) if verifier_sees else 0.0
    score = np.clip(0.5 + shift + rng.normal(0, 0.2, right.shape), 0, 1)
    return form, score, right, np.full(questions, rounds)


def test_a_verifier_that_sees_gets_a_say_and_one_that_does_not_gets_none():
    """The weight of scores within a question is large for the first, near its 0 for the second."""
    rng = np.random.default_rng(1)
    seeing = fit_agreement(*world(rng, questions=400))
    blind = fit_agreement(*world(rng, questions=400, verifier_sees=False))

    assert seeing.w[1] + seeing.w[2] > 0.5
    assert abs(blind.w[1]) < 0.3
    assert abs(blind.w[2]) < 0.3


def test_fitted_probabilities_are_calibrated_on_questions_not_seen():
    """Over bins of held-out P(leading answer is right), what is said and what is are close."""
    rng = np.random.default_rng(2)
    weights = fit_agreement(*world(rng, questions=600))
    form, score, right, _ = world(rng, questions=2_000)
    found = agreement(form, score, weights)
    leads = found.leading_QT[:, -1]
    first = (form == leads[:, None]).argmax(axis=1)
    is_right = right[np.arange(len(form)), first]
    said = found.probability_QT[:, -1]
    edges = np.quantile(said, [0.25, 0.5, 0.75])
    gaps = [
        abs(said[at].mean() - is_right[at].mean())
        for at in (np.digitize(said, edges) == b for b in range(4))
        if at.any()
    ]

    assert max(gaps) < 0.06


def test_the_gradient_is_that_of_the_likelihood():
    """Central differences agree with it in every weight."""
    rng = np.random.default_rng(3)
    form, score, right, length = world(rng, questions=40)
    seen = _observations(form, score, right, length, np.ones_like(right))
    theta = rng.normal(0, 0.5, 11)
    _, gradient = seen.log_likelihood(theta[:3], theta[3:])
    for i in range(11):
        step = np.zeros(11)
        step[i] = 1e-6
        up, down = theta + step, theta - step
        slope = seen.log_likelihood(up[:3], up[3:])[0] - seen.log_likelihood(down[:3], down[3:])[0]

        assert slope / 2e-6 == pytest.approx(gradient[i], rel=1e-4, abs=1e-5)


def test_too_little_to_fit_on_is_refused():
    """Few chains, or no wrong answer anywhere, is an error that says what is needed."""
    form, score, right, length = world(np.random.default_rng(4), questions=40)
    with pytest.raises(ConfigError, match="at least 30 chains"):
        fit_agreement(form[:10], score[:10], right[:10], length[:10])
    with pytest.raises(ConfigError, match="100% of their answers right"):
        fit_agreement(form, score, np.ones_like(right), length)
    assert looked_at(10) == [1, 2, 3, 4, 6, 8, 10]
