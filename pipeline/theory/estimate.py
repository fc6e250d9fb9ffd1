"""a, b, L and lambda from counted transitions, with intervals, and the paper's three bounds.

Intervals weigh whole questions at random (the Bayesian bootstrap): where questions differ, their
transitions come in lumps, for which the Beta posterior of pooled counts would be too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.core.arrays import FloatArray
from pipeline.statistics.intervals import Interval, draws_interval
from pipeline.theory.markov import Regime, regime, stationary_accuracy
from pipeline.theory.posterior import BetaPosterior
from pipeline.theory.transitions import (
    Chain,
    QuestionKey,
    Transitions,
    count_by_question,
    total,
)

JEFFREYS = BetaPosterior(0.5, 0.5)
"""The prior of a and of b: half an observation of each kind."""

_CHUNK, _WEIGHTS = 256, 2**22  # draws, and questions-by-draws weights, held at once at most


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainEstimate:
    """What counts say about a chain. Values are posterior means, L that of mean b and mean a."""

    counts: Transitions
    a: Interval
    b: Interval
    stationary_accuracy: Interval
    second_eigenvalue: Interval


def estimate_clustered(
    counts: Mapping[QuestionKey, Transitions],
    *,
    draws: int = 4_000,
    seed: int = 0,
) -> ChainEstimate:
    """Posterior means of one chain from the counts of all questions, with intervals over questions.

    Args:
        counts: transitions by question, as `count_by_question` gives them; all zero gives back the
            prior.
        draws: of the bootstrap.
        seed: of the draws.

    Each draw weighs every question with a unit exponential, and the prior as if it were as many
    observations. So questions of one transition each have the Beta posterior of their counts, and
    where nothing was counted the interval is the prior's.
    """
    rows = [[getattr(c, name) for name in COUNTED] for c in counts.values()]
    table_QC = np.array(rows, dtype=np.int64).reshape(-1, len(COUNTED))
    return estimate_table(table_QC, draws=draws, seed=seed)


COUNTED = ("right_wrong", "right_right", "wrong_right", "wrong_wrong")
"""Columns of a table of counts: fields of `Transitions`."""


def estimate_table(
    table_QC: NDArray[np.integer[Any]],
    *,
    draws: int = 4_000,
    seed: int = 0,
) -> ChainEstimate:
    """As `estimate_clustered`, from a table: a row a question, columns as in `COUNTED`."""
    sums = dict(zip(COUNTED, table_QC.sum(axis=0, dtype=np.int64).tolist(), strict=True))
    pooled = Transitions(**sums)
    a = BetaPosterior(JEFFREYS.alpha + pooled.right_wrong, JEFFREYS.beta + pooled.right_right)
    b = BetaPosterior(JEFFREYS.alpha + pooled.wrong_right, JEFFREYS.beta + pooled.wrong_wrong)
    table = table_QC.astype(np.float64)
    prior = 2 * (JEFFREYS.alpha, JEFFREYS.beta)
    rng = np.random.default_rng(seed)
    at_once = max(1, min(_CHUNK, _WEIGHTS // max(1, len(table))))
    weighed = np.concatenate(
        [
            rng.exponential(size=(min(at_once, draws - start), len(table))) @ table
            for start in range(0, draws, at_once)
        ]
    )
    weighed += prior_weights(prior, draws, seed)
    mean_a, mean_b = _mean(a), _mean(b)
    drawn_a, drawn_b = _shares(weighed[:, :2], mean_a), _shares(weighed[:, 2:], mean_b)
    limits = stationary_accuracy(drawn_a, drawn_b)
    return ChainEstimate(
        counts=pooled,
        a=draws_interval(mean_a, drawn_a),
        b=draws_interval(mean_b, drawn_b),
        stationary_accuracy=draws_interval(stationary_accuracy(mean_a, mean_b), limits),
        second_eigenvalue=draws_interval(1 - mean_a - mean_b, 1 - drawn_a - drawn_b),
    )


def prior_weights(prior: Sequence[float], draws: int, seed: int) -> FloatArray:
    """(draws, C): weights of a prior's counts (C,), each >= 0, beside questions that weigh unit
    exponentials: gamma variables, sums of as many of those as the prior stands for observations."""
    return np.random.default_rng([seed, 1]).standard_gamma(prior, size=(draws, len(prior)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Neutral, upper and lower accuracy of a data set (Section 3.4).

    The questions are split by the gate's criterion, p0 against L + sigma. A bound is None where no
    question fell on its side, or none of those has a counted transition.
    """

    neutral: ChainEstimate
    upper: ChainEstimate | None
    """From questions with p0 < L + sigma, for which scaling is beneficial."""
    lower: ChainEstimate | None
    """From questions with p0 > L + sigma, for which it is detrimental."""
    n_questions: Mapping[Regime, int]
    """How many questions fell on each side."""
    sigma: float


def bounds(
    chains: Sequence[Chain],
    *,
    p0_parallel: Mapping[QuestionKey, float],
    sigma: float = 0.0,
    seed: int = 0,
) -> Bounds:
    """Split transitions by the gate's criterion and estimate each part.

    Args:
        chains: the sequential chains of one data set.
        p0_parallel: each question's accuracy over independent samples, in [0, 1]. Taking p0 from
            round 0 of the same chains would sort transitions by where they start.
        sigma: margin of the gate.
        seed: of the draws.

    L of the criterion is the data set's own, from the pooled posterior means.

    Raises:
        ValueError: naming a question that has chains and no p0.
    """
    counts = count_by_question(chains)
    neutral = estimate_clustered(counts, seed=seed)
    sides: dict[Regime, dict[QuestionKey, Transitions]] = {side: {} for side in Regime}
    for key, counted in counts.items():
        if key not in p0_parallel:
            raise ValueError(f"p0_parallel must hold every question with chains, got none of {key}")
        side = regime(p0=p0_parallel[key], a=neutral.a.value, b=neutral.b.value, sigma=sigma)
        sides[side][key] = counted

    def part(side: Regime) -> ChainEstimate | None:
        counted = total(sides[side].values())
        if counted.from_right + counted.from_wrong == 0:
            return None
        return estimate_clustered(sides[side], seed=seed)

    return Bounds(
        neutral=neutral,
        upper=part(Regime.BENEFICIAL),
        lower=part(Regime.DETRIMENTAL),
        n_questions={side: len(questions) for side, questions in sides.items()},
        sigma=sigma,
    )


def _shares(weighed: FloatArray, otherwise: float) -> FloatArray:
    """The first column's share of both, (draws,); `otherwise` where they weigh nothing."""
    both = weighed.sum(axis=1)
    return np.where(both > 0, weighed[:, 0] / np.where(both > 0, both, 1.0), otherwise)


def _mean(posterior: BetaPosterior) -> float:
    return posterior.alpha / (posterior.alpha + posterior.beta)
