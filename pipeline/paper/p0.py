"""*p0*: predictors of a question's chance of being answered, judged by log loss on its samples.

Every predictor is judged on the even-numbered samples against a constant, clustered by question;
the map of the first score is fitted on the other half of the questions. The oracle counts the
odd-numbered samples of the question itself; where questions hardly differ it loses to the constant
by the noise of its count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.core.arrays import BoolArray, FloatArray
from pipeline.paper.evaluation import Evaluation
from pipeline.predictors.heads import HeadReport, report_head
from pipeline.predictors.targets import Counts, Head, Target
from pipeline.replay.sweep import HALVES
from pipeline.results.csv_lines import ends_of
from pipeline.statistics.calibration import fit_isotonic
from pipeline.statistics.intervals import Interval
from pipeline.theory.markov import stationary_accuracy

MAPPED, ORACLE = "first score, mapped (isotonic)", "half of the samples (knows answers)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A predictor and its report."""

    name: str
    p0_Q: FloatArray
    report: HeadReport
    below_Q: BoolArray
    """Questions with p0 below L, on which the gate goes on."""


def counts_of(made: Evaluation, first: int = 0, step: int = 1) -> FloatArray:
    """(Q, 2): right ones and graded ones of every `step`-th sample."""
    rows = []
    for question in made.pool.questions:
        verdicts = question.sample_verdicts[first::step]
        known = [v == "right" for v in verdicts if v in ("right", "wrong")]
        rows.append((sum(known), len(known)))
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


def predictors_of(made: Evaluation) -> dict[str, FloatArray]:
    """(Q,) p0 by each predictor that the pool has the numbers for, nan where one is missing."""
    if not made.pool.samples:
        return {}
    counts_QC, half_Q = counts_of(made), made.believed.half_Q
    score_Q = made.replays.chains.score_QT[:, 0]
    found: dict[str, FloatArray] = {}
    if made.believed.p0_source == "predictor":
        priors = [question.question.priors.p0 for question in made.pool.questions]
        found["predictor"] = np.array(priors, dtype=np.float64)
    if not np.isnan(score_Q).all():
        found["first score"] = score_Q
        found[MAPPED] = _mapped(score_Q, counts_QC, half_Q)
    odd_QC = counts_of(made, 1, 2)
    found[ORACLE] = (odd_QC[:, 0] + 0.5) / (odd_QC[:, 1] + 1)
    return found


def judge(made: Evaluation) -> list[Judged]:
    """Every predictor against the share of right samples over all questions, a constant."""
    even_QC = counts_of(made, 0, 2)
    if not even_QC[:, 1].any():
        return []
    share = float(even_QC[:, 0].sum() / even_QC[:, 1].sum())
    limit_H = [
        stationary_accuracy(a, b) if a is not None and b is not None else np.nan
        for a, b in zip(made.believed.a, made.believed.b, strict=True)
    ]
    limit_Q = np.array(limit_H or [np.nan])[made.believed.half_Q % max(len(limit_H), 1)]
    judged = []
    for name, p0_Q in predictors_of(made).items():
        targets = [
            Target(
                benchmark=made.benchmark,
                question_id=question.key[1],
                text="",
                counts={Head.P0: Counts(successes=int(right), trials=int(n))},
            )
            for question, (right, n), p0 in zip(
                made.pool.questions, even_QC.tolist(), p0_Q.tolist(), strict=True
            )
            if p0 == p0
        ]
        report = report_head(Head.P0, targets, p0_Q[~np.isnan(p0_Q)], share)
        if report is not None:
            judged.append(Judged(name=name, p0_Q=p0_Q, report=report, below_Q=p0_Q < limit_Q))
    return judged


def p0_rows(made: Evaluation, judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """A line a predictor for the CSV file."""
    return [
        {
            "backbone": made.backbone,
            "benchmark": made.benchmark,
            "predictor": one.name,
            "questions": one.report.n_questions,
            "samples": one.report.n_trials,
            "log_loss": one.report.loss,
            "log_loss_constant": one.report.loss_constant,
            **ends_of("gain", gain_of(one.report)),
            "beats_constant": one.report.beats_constant,
            "calibration_error": one.report.ece,
            "rank_correlation": one.report.rank_correlation,
            "share_below_L": float(one.below_Q.mean()),
        }
        for one in judged
    ]


def gain_of(report: HeadReport) -> Interval:
    """Log loss of the constant minus that of a predictor, a sample."""
    value = report.loss_constant - report.loss
    return Interval(value=value, low=report.gain_low, high=report.gain_high)


def _mapped(score_Q: FloatArray, counts_QC: FloatArray, half_Q: Any) -> FloatArray:
    """The first score under the isotonic map of the other half."""
    mapped_Q = np.full(len(score_Q), np.nan)
    for half in range(HALVES):
        at = np.flatnonzero((half_Q != half) & ~np.isnan(score_Q) & (counts_QC[:, 1] > 0))
        if len(at):
            right, n = counts_QC[at].astype(np.int64).T
            labels = np.concatenate([np.arange(m) < k for k, m in zip(right, n, strict=True)])
            fit = fit_isotonic(np.repeat(score_Q[at], n), labels)
            mine = half_Q == half
            mapped_Q[mine] = np.interp(score_Q[mine], fit.scores, fit.probabilities)
    return mapped_Q
