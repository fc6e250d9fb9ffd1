"""Chains whose truth is known: 1,000 questions x 64 rounds, new at every draw."""

from __future__ import annotations

import numpy as np

from pipeline.core.arrays import FloatArray

Chains = tuple[FloatArray, FloatArray]
"""Rightness (1 or 0) and completion tokens, both of shape (Q, R)."""

_QUESTIONS, _ROUNDS = 1_000, 64


def two_states(
    rng: np.random.Generator,
    *,
    a: float | FloatArray,
    b: float | FloatArray,
    p0: float | FloatArray,
) -> Chains:
    """Two-state chains with P(right to wrong) a and P(wrong to right) b, of all or by question."""
    right_QR = np.empty((_QUESTIONS, _ROUNDS))
    right_QR[:, 0] = rng.random(_QUESTIONS) < p0
    for r in range(1, _ROUNDS):
        draw_Q = rng.random(_QUESTIONS)
        right_QR[:, r] = np.where(right_QR[:, r - 1] == 1, draw_Q >= a, draw_Q < b)
    return right_QR, _tokens(rng)


def of_questions(rng: np.random.Generator) -> Chains:
    """Questions whose rounds are draws of a chance of their own, most near 0 or 1."""
    chance_Q = rng.beta(0.4, 0.3, _QUESTIONS)
    right_QR = (rng.random((_QUESTIONS, _ROUNDS)) < chance_Q[:, None]).astype(np.float64)
    return right_QR, _tokens(rng)


def _tokens(rng: np.random.Generator) -> FloatArray:
    """Long and short questions, and rounds that vary around them."""
    question_Q = rng.lognormal(5, 0.6, _QUESTIONS)
    return question_Q[:, None] * rng.lognormal(0, 0.3, (_QUESTIONS, _ROUNDS))
