"""Accuracy by round with the chain fitted to it, and the bounds of the paper's figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.core.arrays import FloatArray
from pipeline.paper.beliefs import SEED
from pipeline.paper.evaluation import Evaluation
from pipeline.replay.chain_arrays import (
    RIGHT,
    WRONG,
)
from pipeline.replay.sweep import HALVES
from pipeline.statistics.intervals import Interval, draws_interval, mean_interval, wilson
from pipeline.theory.estimate import (
    Bounds,
    ChainEstimate,
    bounds,
    estimate_clustered,
    prior_weights,
)
from pipeline.theory.markov import accuracy_after
from pipeline.theory.transitions import (
    Chain,
    Labels,
    count,
    count_by_question,
    labels_of_verdicts,
)

_DRAWS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Convergence:
    """MR-Thinking round by round, and what a two-state chain makes of it."""

    observed: tuple[Interval, ...]
    """Accuracy of the answer of round r among questions graded there."""
    tokens: tuple[Interval, ...]
    """Mean completion tokens a question, rounds 0 to r."""
    fit: ChainEstimate
    """a and b counted on these chains; intervals weigh whole questions."""
    fitted: tuple[Interval, ...]
    """p_r (Eq. 4) from round 0 and that a and b: a description. Ends weigh whole questions."""
    forecast: tuple[Interval, ...]
    """p_r from round 0 and a and b that were not counted on the question (`Believed`), which the
    ends take as given."""

    def error(self, predicted: tuple[Interval, ...]) -> float:
        """Mean over rounds of |observed - predicted|."""
        pairs = zip(self.observed, predicted, strict=True)
        return float(np.mean([abs(seen.value - p.value) for seen, p in pairs]))


def chains_of(made: Evaluation) -> list[Chain]:
    """Labels of every chain by gold."""
    return [
        Chain(
            benchmark=q.question.benchmark,
            question_id=q.question.question_id,
            labels=labels_of_verdicts(q.round_verdicts),
            level=q.level,
        )
        for q in made.pool.questions
    ]


def convergence(made: Evaluation) -> Convergence | None:
    """The curve of a pool's chains; None where round 0 or all transitions are ungraded."""
    chains = made.replays.chains
    observed = []
    for r in range(chains.n_rounds):
        verdict_Q = chains.verdict_QT[:, r]
        right, wrong = int(np.sum(verdict_Q == RIGHT)), int(np.sum(verdict_Q == WRONG))
        if not right + wrong:
            break
        observed.append(wilson(right, right + wrong))
    counts = count_by_question(chains_of(made))
    if len(observed) < 2 or not any(c.from_right + c.from_wrong for c in counts.values()):
        return None
    fit = estimate_clustered(counts, labels=Labels.GOLD, seed=SEED)
    return Convergence(
        observed=tuple(observed),
        tokens=_means(chains.tokens_QD[:, 1 : len(observed) + 1]),
        fit=fit,
        fitted=_fitted(made, fit, observed[0].value, len(observed)),
        forecast=_forecast_intervals(made, len(observed)),
    )


def _means(values_QR: Any) -> tuple[Interval, ...]:
    return tuple(mean_interval(column) for column in np.asarray(values_QR, float).T.tolist())


def _forecast_intervals(made: Evaluation, rounds: int) -> tuple[Interval, ...]:
    """Means of `_forecast`. Where a and b were counted on the other half of the questions the
    intervals hold their error too: whole questions of both halves are weighed at random. A
    predictor's a and b are taken as they are."""
    value_R = _forecast(made, rounds).mean(axis=0)
    if made.believed.p0_source != "first_score":
        return _means(_forecast(made, rounds))
    table = np.array(
        [
            (c.labels[0] is True, c.labels[0] is False, n.right_wrong, n.right_right,
             n.wrong_right, n.wrong_wrong)
            for c in chains_of(made)
            for n in (count(c.labels),)
        ],
        dtype=float,
    )  # fmt: skip
    half_Q = made.believed.half_Q
    weight_DQ = np.random.default_rng(SEED).exponential(size=(_DRAWS, len(table)))
    prior = prior_weights((0.5,) * 4, _DRAWS, SEED)
    curve_DR = np.zeros((_DRAWS, rounds))
    for half in range(HALVES):
        own, other = half_Q == half, half_Q != half
        first = weight_DQ[:, own] @ table[own, :2]
        moves = weight_DQ[:, other] @ table[other, 2:] + prior
        p0_D, a_D, b_D = (
            each[:, 0] / each.sum(axis=1) for each in (first, moves[:, :2], moves[:, 2:])
        )
        share = float(table[own, :2].sum() / table[:, :2].sum())
        for r in range(rounds):
            curve_DR[:, r] += share * np.asarray(accuracy_after(r, p0=p0_D, a=a_D, b=b_D))
    return tuple(
        draws_interval(float(value), drawn_D)
        for value, drawn_D in zip(value_R, curve_DR.T, strict=True)
    )


def _fitted(made: Evaluation, fit: ChainEstimate, p0: float, rounds: int) -> tuple[Interval, ...]:
    """p_r with p0, a and b of the same questions, weighed at random as in `estimate_clustered`."""
    table = np.array(
        [
            (c.labels[0] is True, c.labels[0] is False, n.right_wrong, n.right_right,
             n.wrong_right, n.wrong_wrong)
            for c in chains_of(made)
            for n in (count(c.labels),)
        ],
        dtype=float,
    )  # fmt: skip
    prior = (0.0, 0.0, fit.prior_a.alpha, fit.prior_a.beta, fit.prior_b.alpha, fit.prior_b.beta)
    draws = np.random.default_rng(SEED).exponential(size=(_DRAWS, len(table))) @ table
    draws += prior_weights(prior, _DRAWS, SEED)
    p0_D, a_D, b_D = (draws[:, at] / (draws[:, at] + draws[:, at + 1]) for at in (0, 2, 4))
    found = []
    for r in range(rounds):
        value = accuracy_after(r, p0=p0, a=fit.a.value, b=fit.b.value)
        found.append(draws_interval(value, accuracy_after(r, p0=p0_D, a=a_D, b=b_D)))
    return tuple(found)


def _forecast(made: Evaluation, rounds: int) -> FloatArray:
    """(Q, rounds): p_r of the questions from their right or wrong first answer."""
    first_Q = made.replays.chains.verdict_QT[:, 0]
    known = [q for q, verdict in enumerate(first_Q.tolist()) if verdict in (RIGHT, WRONG)]
    priors = [made.pool.questions[q].question.priors for q in known]
    p_QR = accuracy_after(
        np.arange(rounds)[None, :],
        p0=(first_Q[known] == RIGHT).astype(float)[:, None],
        a=np.array([p.a for p in priors], dtype=float)[:, None],
        b=np.array([p.b for p in priors], dtype=float)[:, None],
    )
    return np.asarray(p_QR)


def bounds_of(made: Evaluation) -> Bounds | None:
    """Neutral, upper and lower accuracy, split by the samples' p0; None without samples."""
    p0 = {}
    for question in made.pool.questions:
        known = [v == "right" for v in question.sample_verdicts if v in ("right", "wrong")]
        if known:
            p0[question.key] = sum(known) / len(known)
    chains = [chain for chain in chains_of(made) if chain.key in p0]
    if not chains:
        return None
    return bounds(chains, p0_parallel=p0, labels=Labels.GOLD, seed=SEED)
