"""Agreement: votes and probabilities of answers, the same whatever stands beside or after them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pipeline.statistics.agreement import (
    NO_FORM,
    VOTE,
    AgreementWeights,
    agreement,
    agreement_features,
    answer_probabilities,
    count_votes,
    recent_leader,
)
from pipeline.strategies.self_consistency import p_majority_lasts

WEIGHTS = AgreementWeights(w=(1.7, 0.4, -0.3), v=(-1.0, 0.2, -0.3, 1.1, 0.9, 0.5, 0.3, -0.2))
scores = hnp.arrays(np.float64, (5, 9), elements=st.one_of(st.floats(0, 1), st.just(np.nan)))


def forms_of(raw: np.ndarray) -> np.ndarray:
    """Numbers in order of first appearance; negative stays "no answer"."""
    forms = np.full(raw.shape, NO_FORM, np.int64)
    for q, row in enumerate(raw):
        seen: dict[int, int] = {}
        for t, value in enumerate(row):
            forms[q, t] = NO_FORM if value < 0 else seen.setdefault(int(value), len(seen))
    return forms


forms = hnp.arrays(np.int64, (5, 9), elements=st.integers(-1, 4)).map(forms_of)


@given(forms)
def test_votes_are_those_of_asc(form):
    """n1, n2 and B after every round are what ASC's own test counts on the answers so far."""
    counted = count_votes(form)
    for q in range(form.shape[0]):
        for t in range(form.shape[1]):
            told = form[q, : t + 1]
            tally = sorted((int(np.sum(told == k)) for k in set(told) - {NO_FORM}), reverse=True)
            v1, v2, *_ = (*tally, 0, 0)

            assert (counted.most_QT[q, t], counted.second_QT[q, t]) == (v1, v2)
            assert counted.lasts_QT[q, t] == (p_majority_lasts(v1, v2) if v1 else 0.0)


@settings(deadline=None)
@given(forms, scores)
def test_what_comes_later_or_stands_beside_changes_no_bit(form, score):
    """A prefix of one chain alone gives exactly what it gives inside a pool."""
    whole = agreement(form, score, WEIGHTS)
    for q, t in ((0, 0), (1, 3), (4, 8)):
        alone = agreement(form[q : q + 1, : t + 1], score[q : q + 1, : t + 1], WEIGHTS)

        assert alone.leading_QT[0, -1] == whole.leading_QT[q, t]
        assert alone.probability_QT[0, -1] == whole.probability_QT[q, t]


@settings(deadline=None)
@given(forms, scores)
def test_probabilities_are_a_distribution_over_the_answers_seen(form, score):
    """They sum to less than 1 with "none of them" as the rest, and an unseen answer has none."""
    features = agreement_features(form, score)
    p = answer_probabilities(features, WEIGHTS)

    assert (p[~features.known_QTK] == 0).all()
    assert (p.sum(axis=2) < 1).all()
    assert (p >= 0).all()


def test_without_a_fit_it_is_a_vote():
    """Under `VOTE` the largest answer leads and the verifier has no say."""
    form = np.array([[0, 1, 1, 0, 1]])
    high = agreement(form, np.array([[1.0, 0.0, 0.0, 1.0, 0.0]]), VOTE)
    none = agreement(form, np.full((1, 5), np.nan), VOTE)

    assert high.leading_QT.tolist() == [[0, 0, 1, 0, 1]]
    assert (high.probability_QT == none.probability_QT).all()


def test_weights_survive_json_and_others_are_refused():
    """Parsing what was written gives the same weights, and their digest; bad ones say what came."""
    again = AgreementWeights.parse({"w": list(WEIGHTS.w), "v": list(WEIGHTS.v)})

    assert again == WEIGHTS
    assert again.digest() == WEIGHTS.digest() != VOTE.digest()
    with pytest.raises(ValueError, match="must hold w and v"):
        AgreementWeights.parse({"w": [1, 2]})
    with pytest.raises(ValueError, match="all finite"):
        AgreementWeights(w=(float("nan"), 0.0, 0.0), v=(0.0,) * 8)


V2 = AgreementWeights(
    w=(1, 1, -0.1, 0.3, 1, -0.2), v=(-2, 0.6, -1.5, -1.8, -2, 0.5, 0.5, 2.5, 0.8, -1.5)
)
V2_BLIND = AgreementWeights(w=(1, 1, -0.1), v=(-1, 0.9, -1.3, -0.1, -1.5, 0.3))


@pytest.mark.parametrize(
    ("weights", "form", "score", "expected"),
    [
        (V2, [0, 1, 1], [0.6, 0.7, 0.9], [[0.088695], [0.046591, 0.149187], [0.026480, 0.176418]]),
        (V2, [0, 1, 0], [0.6, 0.7, 0.9], [[0.088695], [0.046591, 0.149187], [0.128748, 0.023666]]),
        (V2, [0], [0.8], [[0.137139]]),
        (V2, [0] * 4, [0.5] * 4, [[0.073617], [0.120266], [0.144958], [0.154070]]),
        (V2_BLIND, [0, 1, 1], [], [[0.586786], [0.179292, 0.487366], [0.136647, 0.617350]]),
        (V2_BLIND, [0, 1, 0], [], [[0.586786], [0.179292, 0.487366], [0.600869, 0.124092]]),
    ],
)
def test_probabilities_of_version_2(weights, form, score, expected):
    """P(each answer is right) after every round, with the verifier's scores and without them."""
    scores = np.array([score or [np.nan] * len(form)])
    p_TK = answer_probabilities(agreement_features(np.array([form]), scores), weights)[0]

    for p_K, told in zip(p_TK, expected, strict=True):
        assert p_K[: len(told)] == pytest.approx(told, abs=5e-7)
        assert not p_K[len(told) :].any()


@given(forms, scores)
def test_a_last_round_without_an_answer_has_no_recency(form, score):
    """Features of the last answer, its run and its score are 0 there."""
    found = agreement_features(form, score)
    silent = form == NO_FORM

    assert not found.answer_QTKF[silent][:, :, [1, 2, 5]].any()
    assert not found.chain_QTF[silent][:, [5, 9]].any()


def test_recent_votes_lie_between_the_last_answer_and_the_plain_vote():
    """ABBC: B leads at 0.8 (A .512, B 1.44, C 1), C at 0; ABCABC: C at 0.8, A by a plain vote."""
    abbc, abcabc = np.array([[0, 1, 1, 2]]), np.array([[0, 1, 2, 0, 1, 2]])

    assert recent_leader(abbc, 0.8)[0, -1] == 1
    assert recent_leader(abbc, 0.0)[0, -1] == 2
    assert (recent_leader(abcabc, 0.8)[0, -1], recent_leader(abcabc, 1.0)[0, -1]) == (2, 0)
    assert recent_leader(np.array([[NO_FORM, NO_FORM]]), 0.8).tolist() == [[NO_FORM, NO_FORM]]
