"""*Figures of the paper*: accuracy by tokens, convergence and bounds as CSV rows and as charts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.core.arrays import FloatArray
from pipeline.paper.beliefs import SEED
from pipeline.paper.evaluation import Evaluation
from pipeline.paper.tables import MAIN
from pipeline.replay.chain_arrays import RIGHT, WRONG
from pipeline.replay.sweep import HALVES
from pipeline.report import figures
from pipeline.report.chain_view import DRAWS, RoundCurve, bounds_by_samples, curve_of, table_of
from pipeline.report.html import Html
from pipeline.results.column import Column
from pipeline.results.csv_lines import ends_of
from pipeline.statistics.intervals import Interval, draws_interval, mean_interval
from pipeline.theory.estimate import Bounds, prior_weights
from pipeline.theory.markov import accuracy_after
from pipeline.theory.transitions import Chain, labels_of_verdicts

Rows = list[dict[str, Any]]


def lines_of(made: Evaluation) -> dict[str, list[Column]]:
    """A method's numbers over N, cheapest first, of the methods of the main table; those whose tau
    was chosen on the test are left out."""
    found: dict[str, list[Column]] = {}
    for name in MAIN:
        points = [entry for (row, _), entry in made.main.items() if row == name]
        points = [p for p in points if p.accuracy is not None and p.tokens is not None]
        if points and points[0].chosen_on != "test":
            found[points[0].method] = sorted(points, key=lambda p: p.n or 0)
    return found


def accuracy_figure(made: Evaluation) -> Html | None:
    """Each method as a line over its budgets."""
    return figures.accuracy_figure(
        f"Accuracy against tokens: {made.title}",
        [(p.method, name_of(p), p) for line in lines_of(made).values() for p in line],
        "A line is one method over N; τ is chosen on the other half of the questions.",
        joined=True,
    )


def convergence_rows(made: Evaluation, curve: RoundCurve) -> Rows:
    """Each round with what was observed and what the chain says."""
    return [
        {
            "backbone": made.backbone,
            "benchmark": made.benchmark,
            "round": r,
            **ends_of("accuracy", seen),
            **ends_of("fitted", curve.predicted[r]),
            **ends_of("held_out", curve.forecast[r]),
            **ends_of("tokens", curve.tokens[r]),
            **ends_of("a", curve.fit.a),
            **ends_of("b", curve.fit.b),
            **ends_of("L", curve.fit.stationary_accuracy),
            **ends_of("lambda", curve.fit.second_eigenvalue),
        }
        for r, seen in enumerate(curve.observed)
    ]


def bounds_rows(made: Evaluation, found: Bounds | None) -> Rows:
    """Each bound, and every method at its largest budget."""
    place = {"backbone": made.backbone, "benchmark": made.benchmark}
    limits = _limits(made, found)
    points = [(name_of(p), p.setting, p.accuracy) for p in _bounded(made)]
    return [
        {**place, "name": name, "setting": setting, **ends_of("accuracy", right)}
        for name, setting, right in (*limits, *points)
    ]


def bounds_figure(made: Evaluation, found: Bounds) -> Html:
    """Neutral, upper and lower bound, and the methods in them."""
    sides = ", ".join(f"{count:,} {side}" for side, count in found.n_questions.items())
    shown = [(name_of(p), p.setting, p.accuracy) for p in _bounded(made)]
    limits = _limits(made, found)
    return figures.bounds_figure(
        f"Bounds: {made.title}",
        [*limits, *((name, setting, right) for name, setting, right in shown if right)],
        found,
        f"Each method at its largest N; p0 is over the {made.pool.samples} samples ({sides})",
    )


def name_of(point: Column) -> str:
    """A method and its budget."""
    return point.method if point.n in (None, 1) else f"{point.method}, N = {point.n}"


def _bounded(made: Evaluation) -> list[Column]:
    """Every method at its largest budget."""
    return [points[-1] for points in lines_of(made).values()]


def _limits(made: Evaluation, found: Bounds | None) -> list[tuple[str, str, Interval]]:
    """Name, setting and value of each bound."""
    return [
        (f"{name} bound", _setting(made, name), limit) for name, limit in figures.bounds_of(found)
    ]


def _setting(made: Evaluation, name: str) -> str:
    """What makes a bound."""
    side = {"upper": "p0 below L", "lower": "p0 above L"}.get(name)
    of = f"questions with {side}, p0 over {made.pool.samples} samples" if side else "all questions"
    return f"L = b / (a + b), a and b counted by gold on the chains of {of}"


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
    caption = f"{made.believed.words}; {leaves_out}"
    return replace(curve, forecast=_forecast_intervals(made, rounds), source=caption)


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
    samples = [labels_of_verdicts(question.sample_verdicts) for question in made.pool.questions]
    return bounds_by_samples(chains_of(made), zip(made.firsts, samples, strict=True))
