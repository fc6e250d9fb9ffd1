"""*Agreement*: votes of a chain, ASC's test, and P(right) of each distinct answer.

Axes: Q questions, T rounds, K distinct answers of a question in the order in which they were first
seen. Everything at round t depends on rounds 0..t alone, and by the same arithmetic however many
rounds or answers follow, so a state machine and a replay of whole pools agree to the last bit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.core.arrays import BoolArray, FloatArray, IntArray
from pipeline.core.origin import Origin

NO_FORM = -1
"""In place of an answer's number where a completion has none; it does not vote."""

_CLIP = 1e-4  # scores and probabilities before their logit
_BLOCK = 128  # questions worked on at once: (128, 64, 64) numbers are 4 MiB


ANSWER_FEATURES = (
    "n_k / sqrt t",
    "1 where k is the last answer",
    "the same times ln u",
    "sum of x - mean x over the rounds of k, / sqrt t",
    "mean x of k - mean x",
    "x_t - mean x where k is the last answer",
)
CHAIN_FEATURES = (
    *("1", "ln t", "ln K", "n1 / t", "logit(B) / 3", "ln u"),
    *("mean x", "mean x n1 / t", "mean x ln t", "x_t"),
)
"""t: rounds with an answer; u: rounds that the last answer stands in a row; K: distinct answers;
n1: votes of the largest; B: ASC's chance that it lasts; x = logit(score) / 3, x_t that of the last
round. Where the last round has no answer u is 1, and x_t and all of the last answer are 0."""

_USED: dict[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]] = {
    (6, 10): (tuple(range(6)), tuple(range(10))),
    (3, 6): ((0, 1, 2), (0, 1, 2, 3, 4, 5)),
    (3, 8): ((0, 3, 4), (0, 1, 2, 3, 4, 6, 7, 8)),
}
"""Features of version 2, the same without scores, and version 1, by the numbers of weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementWeights:
    """Weights of `answer_probabilities`.

    Version 2 has 6 w and 10 v, or 3 and 6 where it reads no score; version 1, which does not look
    at the last answer, 3 and 8.
    """

    w: tuple[float, ...]
    """Of `ANSWER_FEATURES`."""
    v: tuple[float, ...]
    """Of `CHAIN_FEATURES`: is any answer right."""
    fitted_on: str = ""
    """The run or pool whose graded chains they were fitted on."""
    origin: Origin | None = None

    def __post_init__(self) -> None:
        numbers = (*self.w, *self.v)
        if (len(self.w), len(self.v)) not in _USED or not np.isfinite(numbers).all():
            raise ValueError(
                f"agreement weights must be 6 w and 10 v, 3 and 6 without scores or 3 and 8 of "
                f"version 1, all finite, got {self.w} and {self.v}"
            )

    @property
    def reads_scores(self) -> bool:
        """Whether the verifier's scores are among the features."""
        return len(self.v) != 6

    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of the weights."""
        numbers = {"w": self.w, "v": self.v}
        return hashlib.sha256(json.dumps(numbers).encode()).hexdigest()[:16]

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> AgreementWeights:
        """Weights from the JSON that a fit wrote; ValueError where they are none, or have not the
        digest that stands with them."""
        w: Any = values.get("w")
        v: Any = values.get("v")
        if not any(_are_numbers(w, ws) and _are_numbers(v, vs) for ws, vs in _USED):
            raise ValueError(
                f"agreement weights must hold w and v, 6 and 10 numbers, 3 and 6, or 3 and 8, got "
                f"{w!r} and {v!r}"
            )
        found = cls(
            w=tuple(float(value) for value in w),
            v=tuple(float(value) for value in v),
            fitted_on=str(values.get("fitted_on", "")),
            origin=Origin.parse(values.get("origin")),
        )
        if values.get("digest", found.digest()) != found.digest():
            raise ValueError(
                f"agreement weights must be those of their digest {values['digest']!r}, got some "
                f"with {found.digest()}: they were changed after the fit (leave digest out to use "
                f"weights of your own)"
            )
        return found


def _are_numbers(values: Any, count: int) -> bool:
    return (
        isinstance(values, list | tuple)
        and len(values) == count
        and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    )


VOTE = AgreementWeights(w=(2.5, 0.0, 0.0), v=(0.0,) * 8)
"""By which the answer with the most votes leads, the first seen of equals. Its probabilities are
not calibrated: it is where a fit begins and what its ridge pulls to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes:
    """The votes of chains after each round."""

    votes_QTK: FloatArray
    most_QT: FloatArray
    """n1: votes of the largest answer."""
    second_QT: FloatArray
    """n2: votes of the next largest, at most n1."""
    lasts_QT: FloatArray
    """B = P(Beta(n1 + 1, n2 + 1) > 1/2): ASC's probability that the majority lasts; 0 where
    nothing has voted."""


def count_votes(form_QT: IntArray) -> Votes:
    """Votes after each round.

    Args:
        form_QT: number of each completion's answer among the distinct ones of its question, in
            order of first appearance, or `NO_FORM`.
    """
    kinds = max(int(form_QT.max(initial=NO_FORM)) + 1, 1)
    one_QTK = form_QT[:, :, None] == np.arange(kinds)
    votes_QTK = np.cumsum(one_QTK, axis=1, dtype=np.float64)
    most_QT = votes_QTK.max(axis=2)
    others_QTK = votes_QTK.copy()
    np.put_along_axis(others_QTK, votes_QTK.argmax(axis=2)[:, :, None], -1.0, axis=2)
    second_QT = np.maximum(others_QTK.max(axis=2), 0.0)
    from scipy.special import betainc  # here, since a verb's --help imports this module

    lasts_QT = np.where(most_QT > 0, betainc(second_QT + 1, most_QT + 1, 0.5), 0.0)
    return Votes(votes_QTK=votes_QTK, most_QT=most_QT, second_QT=second_QT, lasts_QT=lasts_QT)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementFeatures:
    """What `answer_probabilities` weighs."""

    known_QTK: BoolArray
    """Whether an answer has been seen."""
    answer_QTKF: FloatArray
    """`ANSWER_FEATURES` of each answer."""
    chain_QTF: FloatArray
    """`CHAIN_FEATURES`."""
    lasts_QT: FloatArray
    """As `Votes.lasts_QT`."""


def agreement_features(form_QT: IntArray, score_QT: FloatArray) -> AgreementFeatures:
    """Features of chains after each round.

    Args:
        form_QT: as `count_votes`.
        score_QT: verifier scores in [0, 1]; nan, where there is none, counts as 1/2.
    """
    counted = count_votes(form_QT)
    kinds = counted.votes_QTK.shape[2]
    voted_QT = form_QT != NO_FORM
    x_QT = np.where(voted_QT, _logit(np.where(np.isnan(score_QT), 0.5, score_QT)) / 3.0, 0.0)
    t_QT = np.maximum(np.cumsum(voted_QT, axis=1, dtype=np.float64), 1.0)
    mean_QT = np.cumsum(x_QT, axis=1) / t_QT
    one_QTK = form_QT[:, :, None] == np.arange(kinds)
    sum_QTK = np.cumsum(np.where(one_QTK, x_QT[:, :, None], 0.0), axis=1)
    votes, known = counted.votes_QTK, counted.votes_QTK > 0
    root, mean = np.sqrt(t_QT)[:, :, None], mean_QT[:, :, None]
    own_mean = sum_QTK / np.maximum(votes, 1.0)
    last_QTK = one_QTK.astype(np.float64)
    log_run_QT = np.log(np.maximum(runs(form_QT), 1))
    answer = np.stack(
        [
            votes / root,
            last_QTK,
            last_QTK * log_run_QT[:, :, None],
            (sum_QTK - votes * mean) / root,
            np.where(known, own_mean - mean, 0.0),
            last_QTK * (x_QT - mean_QT)[:, :, None],
        ],
        axis=3,
    )
    distinct_QT = np.maximum(known.sum(axis=2), 1).astype(np.float64)
    share_QT, log_t = counted.most_QT / t_QT, np.log(t_QT)
    chain = np.stack(
        [
            np.ones_like(t_QT),
            log_t,
            np.log(distinct_QT),
            share_QT,
            _logit(counted.lasts_QT) / 3.0,
            log_run_QT,
            mean_QT,
            mean_QT * share_QT,
            mean_QT * log_t,
            x_QT,
        ],
        axis=2,
    )
    return AgreementFeatures(
        known_QTK=known, answer_QTKF=answer, chain_QTF=chain, lasts_QT=counted.lasts_QT
    )


def answer_probabilities(features: AgreementFeatures, weights: AgreementWeights) -> FloatArray:
    """(Q, T, K): P(answer k is right) after each round; what is left of 1 is "none seen is".

    A conditional logit: P(k) = exp(u_k + c) / (1 + sum_j exp(u_j + c)), u linear in an answer's
    features, c in the chain's. 0 for an answer that was not seen.
    """
    of_answer, of_chain = used_features(weights)
    utility_QTK = _weighed(features.answer_QTKF, of_answer, weights.w)
    utility_QTK += _weighed(features.chain_QTF, of_chain, weights.v)[:, :, None]
    utility_QTK = np.where(features.known_QTK, utility_QTK, -np.inf)
    top_QT = np.maximum(utility_QTK.max(axis=2), 0.0)[:, :, None]
    part_QTK = np.exp(utility_QTK - top_QT)
    total_QT = np.cumsum(part_QTK, axis=2)[:, :, -1:] + np.exp(-top_QT)
    return np.asarray(part_QTK / total_QT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What chains agree on after each round."""

    leading_QT: IntArray
    """Number of the most probable answer, the first seen of equals; `NO_FORM` where there is
    none."""
    probability_QT: FloatArray
    """P(that answer is right)."""
    lasts_QT: FloatArray
    """As `Votes.lasts_QT`."""


def agreement(form_QT: IntArray, score_QT: FloatArray, weights: AgreementWeights) -> Agreement:
    """The most probable answer after each round, a block of questions at a time.

    Args:
        form_QT: as `count_votes`.
        score_QT: as `agreement_features`.
        weights: of the features.
    """
    shape = form_QT.shape
    leading, probability = np.full(shape, NO_FORM, np.int64), np.zeros(shape)
    lasts = np.zeros(shape)
    for first in range(0, shape[0], _BLOCK):
        at = slice(first, first + _BLOCK)
        features = agreement_features(form_QT[at], score_QT[at])
        p_QTK = answer_probabilities(features, weights)
        best_QT = p_QTK.argmax(axis=2)
        seen_QT = features.known_QTK.any(axis=2)
        leading[at] = np.where(seen_QT, best_QT, NO_FORM)
        probability[at] = p_QTK.max(axis=2)
        lasts[at] = features.lasts_QT
    return Agreement(leading_QT=leading, probability_QT=probability, lasts_QT=lasts)


def used_features(weights: AgreementWeights) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Positions of the features that weights read, in `ANSWER_FEATURES` and `CHAIN_FEATURES`."""
    return _USED[len(weights.w), len(weights.v)]


def runs(form_QT: IntArray) -> IntArray:
    """(Q, T): how often the answer of each round stands in a row; 0 where it has none."""
    run_QT = np.zeros(form_QT.shape, np.int64)
    run_Q = np.zeros(len(form_QT), np.int64)
    for t in range(form_QT.shape[1]):
        same = form_QT[:, t] == form_QT[:, t - 1] if t else np.zeros(len(form_QT), np.bool_)
        run_Q = np.where(form_QT[:, t] == NO_FORM, 0, np.where(same, run_Q + 1, 1))
        run_QT[:, t] = run_Q
    return run_QT


def recent_leader(form_QT: IntArray, discount: float) -> IntArray:
    """(Q, T): the answer with the greatest discounted vote after each round; `NO_FORM` for none.

    At every round with an answer all weights are multiplied by `discount`, then that answer's gets
    1. 0 is the last answer, 1 the plain vote; the first seen leads where weights are equal.
    """
    kinds = max(int(form_QT.max(initial=NO_FORM)) + 1, 1)
    rows = np.arange(len(form_QT))
    weight_QK = np.zeros((len(form_QT), kinds))
    leader_QT = np.full(form_QT.shape, NO_FORM, np.int64)
    for t in range(form_QT.shape[1]):
        voted = form_QT[:, t] != NO_FORM
        weight_QK[voted] *= discount
        weight_QK[rows[voted], form_QT[voted, t]] += 1.0
        leader_QT[:, t] = np.where(weight_QK.any(axis=1), weight_QK.argmax(axis=1), NO_FORM)
    return leader_QT


def _weighed(features: FloatArray, used: Sequence[int], weights: Sequence[float]) -> FloatArray:
    """Sum of features times weights, feature by feature: a product of matrices may sum in any
    order."""
    total = features[..., used[0]] * weights[0]
    for f, weight in zip(used[1:], weights[1:], strict=True):
        total = total + features[..., f] * weight
    return np.asarray(total)


def _logit(p: FloatArray) -> FloatArray:
    clipped = np.clip(p, _CLIP, 1 - _CLIP)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
