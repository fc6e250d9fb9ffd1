"""Fits the weights of `agree` on graded chains: a conditional logit with a ridge.

Every chain is looked at after 1, 2, 3, 4, 6, 8, 12, 16, ... rounds; what happened is which of the
answers seen so far is right, or that none is. A chain counts once, however often it is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from pipeline.core.arrays import BoolArray, FloatArray, IntArray
from pipeline.core.errors import ConfigError
from pipeline.statistics.agreement import (
    VOTE,
    AgreementWeights,
    agreement_features,
)

RIDGE_W, RIDGE_V = 8.0, 1.0
"""Strength of the pull to `VOTE`: the verifier gets a say within a question only
where the data show that it should."""
LEAST_QUESTIONS = 30


def looked_at(rounds: int) -> list[int]:
    """Numbers of rounds after which a chain is looked at: 1, 2, 3, 4, 6, 8, 12, ... and all."""
    grid = sorted({n for k in range(12) for n in (2**k, 3 * 2**k)} | {rounds})
    return [n for n in grid if n <= rounds]


def fit_agreement(
    form_QT: IntArray,
    score_QT: FloatArray,
    right_QT: BoolArray,
    length_Q: IntArray,
    graded_QT: BoolArray | None = None,
) -> AgreementWeights:
    """Weights that make what was right most probable.

    Args:
        form_QT: number of each answer among the distinct ones of its question
            (`pipeline.statistics.agreement.count_votes`).
        score_QT: verifier scores in [0, 1], nan where there is none.
        right_QT: whether each completion is right by its gold answer.
        length_Q: completions of each chain, at most T.
        graded_QT: whether it is known if a completion is right; None where all are. Looks at a
            chain that do not tell which of its answers is right are left out.

    Raises:
        ConfigError: with fewer than 30 graded chains, or none that is ever right or ever wrong.
    """
    told_QT = np.arange(right_QT.shape[1]) < length_Q[:, None]
    if graded_QT is not None:
        told_QT = told_QT & graded_QT
    chains = len(form_QT) if graded_QT is None else int(told_QT.any(axis=1).sum())
    share = float(right_QT[told_QT].mean()) if told_QT.any() else 0.0
    if chains < LEAST_QUESTIONS or share in (0.0, 1.0):
        raise ConfigError(
            f"weights of agree must be fitted on at least {LEAST_QUESTIONS} chains with right and "
            f"wrong answers, got {chains} chains, {share:.0%} of their answers right"
        )
    seen = _observations(form_QT, score_QT, right_QT, length_Q, told_QT)
    centre = np.array([*VOTE.w, *VOTE.v])
    strength = np.array([RIDGE_W] * len(VOTE.w) + [RIDGE_V] * len(VOTE.v))

    def cost(theta: FloatArray) -> tuple[float, FloatArray]:
        likelihood, gradient = seen.log_likelihood(theta[:3], theta[3:])
        pull = theta - centre
        return (
            -likelihood + 0.5 * float(strength @ pull**2),
            np.asarray(-gradient + strength * pull),
        )

    found = minimize(cost, centre, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    w1, w2, w3, *v = (round(float(value), 6) for value in found.x)
    return AgreementWeights(w=(w1, w2, w3), v=tuple(v))


@dataclass(frozen=True, slots=True)
class _Observations:
    """Looks at chains, flat: A answers in S looks, the answers of a look side by side."""

    answer_AF: FloatArray
    right_A: BoolArray
    look_A: IntArray
    first_S: IntArray
    """Where the answers of each look begin."""
    chain_SF: FloatArray
    weight_S: FloatArray

    def log_likelihood(self, w: FloatArray, v: FloatArray) -> tuple[float, FloatArray]:
        """Weighted log-likelihood of which answer was right, and its gradient in (w, v)."""
        utility = self.answer_AF @ w + (self.chain_SF @ v)[self.look_A]
        top = np.maximum(np.maximum.reduceat(utility, self.first_S), 0.0)
        part = np.exp(utility - top[self.look_A])
        total = np.add.reduceat(part, self.first_S) + np.exp(-top)
        right = np.add.reduceat(np.where(self.right_A, part, 0.0), self.first_S)
        some = np.add.reduceat(self.right_A.astype(np.int64), self.first_S) > 0
        happened = np.where(some, right, np.exp(-top))
        likelihood = float(self.weight_S @ (np.log(happened) - np.log(total)))
        pull = np.where(self.right_A, part / np.where(some, right, 1.0)[self.look_A], 0.0)
        pull = (pull - part / total[self.look_A]) * self.weight_S[self.look_A]
        by_look = np.add.reduceat(pull, self.first_S)
        return likelihood, np.concatenate([pull @ self.answer_AF, by_look @ self.chain_SF])


def _observations(
    form_QT: IntArray,
    score_QT: FloatArray,
    right_QT: BoolArray,
    length_Q: IntArray,
    told_QT: BoolArray,
) -> _Observations:
    rounds = form_QT.shape[1]
    at = np.array(looked_at(rounds)) - 1
    features = agreement_features(form_QT, score_QT)
    known = features.known_QTK[:, at] & (at < length_Q[:, None])[:, :, None]
    kinds = known.shape[2]
    is_right = np.zeros((len(form_QT), kinds), np.bool_)  # by the first completion that says it
    is_told = np.zeros_like(is_right)
    for q, forms in enumerate(form_QT):
        for t in reversed(range(int(length_Q[q]))):
            if forms[t] >= 0 and told_QT[q, t]:
                is_right[q, forms[t]], is_told[q, forms[t]] = right_QT[q, t], True
    right_seen = (known & is_right[:, None]).any(axis=2)
    looks = known.any(axis=2) & (right_seen | ~(known & ~is_told[:, None]).any(axis=2))
    q_S, s_S = np.nonzero(looks)
    known_SK = known[q_S, s_S]
    look_A, k_A = np.nonzero(known_SK)
    counts = looks.sum(axis=1)
    return _Observations(
        answer_AF=features.answer_QTKF[q_S[look_A], at[s_S[look_A]], k_A],
        right_A=is_right[q_S[look_A], k_A],
        look_A=look_A,
        first_S=np.concatenate([[0], np.cumsum(known_SK.sum(axis=1))[:-1]]),
        chain_SF=features.chain_QTF[q_S, at[s_S]],
        weight_S=1.0 / counts[q_S],
    )
