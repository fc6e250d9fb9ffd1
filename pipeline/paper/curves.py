"""Accuracy by round with the chain fitted to it, and the bounds of the paper's figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.core.arrays import FloatArray
from pipeline.paper.beliefs import SEED
from pipeline.paper.evaluation import Evaluation
from pipeline.replay.chain_arrays import RIGHT, WRONG
from pipeline.replay.sweep import HALVES
from pipeline.report.chain_view import DRAWS, RoundCurve, curve_of, table_of
from pipeline.statistics.intervals import Interval, draws_interval, mean_interval
from pipeline.theory.estimate import Bounds, bounds, prior_weights
from pipeline.theory.markov import accuracy_after
from pipeline.theory.transitions import Chain, Labels, labels_of_verdicts

_HELD_OUT = "those of the held-out curve hold the error of a, b and p0 of one chain"
_PREDICTED = "those of the held-out curve leave out the error of the predictor"


def chains_of(made: Evaluation) -> list[Chain]:
    """Labels of every chain by gold; copies of a question are chains of one question."""
    return [
        Chain(
            benchmark=benchmark,
            question_id=question_id,
            labels=labels_of_verdicts(q.round_verdicts),
            level=q.level,
        )
        for q, (benchmark, question_id) in zip(made.pool.questions, made.firsts, strict=True)
    ]


def convergence(made: Evaluation) -> RoundCurve | None:
    """The curve of a pool's chains with its forecast, as far as rounds are graded; None where round
    0 or all transitions are ungraded."""
    chains = made.replays.chains
    graded_R = chains.graded_QT.any(axis=0)
    rounds = int(np.argmin(graded_R)) if not graded_R.all() else chains.n_rounds
    if rounds < 2:
        return None
    tokens_QR = chains.tokens_QD[:, 1 : rounds + 1].astype(np.float64)
    curve = curve_of("MR-Thinking", chains_of(made), tokens_QR)
    if curve is None:
        return None
    leaves_out = _PREDICTED if made.believed.p0_source != "first_score" else _HELD_OUT
    told = f"{made.believed.words}; {leaves_out}"
    return replace(curve, forecast=_forecast_intervals(made, rounds), told=told)


def _forecast_intervals(made: Evaluation, rounds: int) -> tuple[Interval, ...]:
    """Means of `_forecast`. Where a and b were counted on the other half of the questions the
    intervals hold their error too: whole questions of both halves are weighed at random. A
    predictor's a and b are taken as they are."""
    p_QR = _forecast(made, rounds)
    if made.believed.p0_source != "first_score":
        return tuple(mean_interval(p_Q) for p_Q in p_QR.T)
    table = np.array([table_of([chain])[0] for chain in chains_of(made)])
    half_Q = made.believed.half_Q
    weight_DQ = np.random.default_rng(SEED).exponential(size=(DRAWS, len(table)))
    prior = prior_weights((0.5,) * 4, DRAWS, SEED)
    curve_DR = np.zeros((DRAWS, rounds))
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
        for value, drawn_D in zip(p_QR.mean(axis=0), curve_DR.T, strict=True)
    )


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
    seen: dict[tuple[str, str], list[bool]] = {}
    for key, question in zip(made.firsts, made.pool.questions, strict=True):
        known = [v == "right" for v in question.sample_verdicts if v in ("right", "wrong")]
        seen.setdefault(key, []).extend(known)
    p0 = {key: sum(known) / len(known) for key, known in seen.items() if known}
    chains = [chain for chain in chains_of(made) if chain.key in p0]
    if not chains:
        return None
    return bounds(chains, p0_parallel=p0, labels=Labels.GOLD, seed=SEED)
