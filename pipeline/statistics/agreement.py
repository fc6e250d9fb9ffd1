"""How far the answers of a chain agree: votes, ASC's test, and P(right) of each distinct answer.

Axes: Q questions, T rounds, K distinct answers of a question in the order in which they were first
seen. Everything at round t depends on rounds 0..t alone, and by the same arithmetic however many
rounds or answers follow, so a state machine and a replay of whole pools agree to the last bit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from pipeline.core.arrays import FloatArray, IntArray

NO_FORM = -1
"""In place of an answer's number where a completion has none; it does not vote."""

_CLIP = 1e-4  # scores and probabilities before their logit
_BLOCK = 128  # questions worked on at once: (128, 64, 64) numbers are 4 MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementWeights:
    """Weights of `answer_probabilities`."""

    w: tuple[float, float, float]
    """Of an answer's votes, of its scores above the chain's mean, of its mean score above it."""
    v: tuple[float, ...]
    """Of 1, ln t, ln K, n1/t, logit(B)/3, mean x, mean x n1/t, mean x ln t: is any answer right."""
    fitted_on: str = ""
    """The run or pool whose graded chains they were fitted on."""

    def __post_init__(self) -> None:
        numbers = (*self.w, *self.v)
        if len(self.w) != 3 or len(self.v) != 8 or not np.isfinite(numbers).all():
            raise ValueError(
                f"agreement weights must be 3 w and 8 v, all finite, got {self.w} and {self.v}"
            )

    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of the weights."""
        numbers = {"w": self.w, "v": self.v}
        return hashlib.sha256(json.dumps(numbers).encode()).hexdigest()[:16]

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> AgreementWeights:
        """Weights from the JSON that a fit wrote; ValueError where they are none, or have not the
        digest that stands beside them."""
        w: Any = values.get("w")
        v: Any = values.get("v")
        if not (_are_numbers(w, 3) and _are_numbers(v, 8)):
            raise ValueError(
                f"agreement weights must hold w and v, 3 and 8 numbers, got {w!r} and {v!r}"
            )
        w1, w2, w3 = (float(value) for value in w)
        found = cls(
            w=(w1, w2, w3),
            v=tuple(float(value) for value in v),
            fitted_on=str(values.get("fitted_on", "")),
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
    lasts_QT = np.where(most_QT > 0, betainc(second_QT + 1, most_QT + 1, 0.5), 0.0)
    return Votes(votes_QTK=votes_QTK, most_QT=most_QT, second_QT=second_QT, lasts_QT=lasts_QT)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementFeatures:
    """What `answer_probabilities` weighs."""

    known_QTK: NDArray[np.bool_]
    """Whether an answer has been seen."""
    answer_QTKF: FloatArray
    """3 features of each answer."""
    chain_QTF: FloatArray
    """8 features of the chain."""
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
    answer = np.stack(
        [votes / root, (sum_QTK - votes * mean) / root, np.where(known, own_mean - mean, 0.0)],
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
            mean_QT,
            mean_QT * share_QT,
            mean_QT * log_t,
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
    utility_QTK = _weighed(features.answer_QTKF, weights.w)
    utility_QTK += _weighed(features.chain_QTF, weights.v)[:, :, None]
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


def _weighed(features: FloatArray, weights: tuple[float, ...]) -> FloatArray:
    """Sum of features times weights, feature by feature: a product of matrices may sum in any
    order."""
    total = features[..., 0] * weights[0]
    for f, weight in enumerate(weights[1:], 1):
        total = total + features[..., f] * weight
    return np.asarray(total)


def _logit(p: FloatArray) -> FloatArray:
    clipped = np.clip(p, _CLIP, 1 - _CLIP)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
