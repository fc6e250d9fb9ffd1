"""a, b, L and lambda from counted transitions, with intervals, and the paper's three bounds.

Two kinds of interval are offered. `estimate` believes in one chain for all questions: a and b are
Beta, their quantiles exact, and L and lambda follow by seeded draws. Where questions differ, their
transitions come in lumps and those intervals are too narrow; `estimate_clustered` then weighs whole
questions at random (the Bayesian bootstrap) and believes only that questions are exchangeable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.core.arrays import FloatArray
from pipeline.statistics.intervals import Interval, beta_interval, draws_interval
from pipeline.theory.markov import Regime, regime, stationary_accuracy
from pipeline.theory.posterior import BetaPosterior
from pipeline.theory.transitions import (
    Chain,
    Labels,
    QuestionKey,
    Transitions,
    count_by_question,
    total,
)

JEFFREYS = BetaPosterior(0.5, 0.5)
"""The prior of a and of b unless another is given: half an observation of each kind."""

_CHUNK, _WEIGHTS = 256, 2**22  # draws, and questions-by-draws weights, held at once at most


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainEstimate:
    """What counts say about a chain. Values are posterior means, L that of mean b and mean a."""

    counts: Transitions
    labels: Labels
    """What "right" meant in the counts."""
    interval: Literal["pooled", "clustered"]
    """Whether the intervals take all questions for one chain or only for exchangeable."""
    a: Interval
    b: Interval
    stationary_accuracy: Interval
    second_eigenvalue: Interval
    prior_a: BetaPosterior
    prior_b: BetaPosterior


def estimate(
    counts: Transitions,
    *,
    labels: Labels,
    prior_a: BetaPosterior = JEFFREYS,
    prior_b: BetaPosterior = JEFFREYS,
    level: float = 0.95,
    draws: int = 20_000,
    seed: int = 0,
) -> ChainEstimate:
    """Posterior of one chain from its pooled counts.

    Args:
        counts: transitions; all zero gives back the prior.
        labels: what "right" meant in them; kept in the result.
        prior_a: Beta prior of a, both parameters > 0.
        prior_b: Beta prior of b, both parameters > 0.
        level: share of belief within each interval.
        draws: for the intervals of L and lambda; those of a and b are exact.
        seed: of the draws.

    Raises:
        ValueError: at a prior with a parameter of 0, whose posterior may not exist.
    """
    a, b = _posteriors(counts, prior_a, prior_b)
    rng = np.random.default_rng(seed)
    drawn_a, drawn_b = rng.beta(a.alpha, a.beta, draws), rng.beta(b.alpha, b.beta, draws)
    return ChainEstimate(
        counts=counts,
        labels=labels,
        interval="pooled",
        a=beta_interval(a.alpha, a.beta, level=level),
        b=beta_interval(b.alpha, b.beta, level=level),
        prior_a=prior_a,
        prior_b=prior_b,
        **_derived(a, b, drawn_a, drawn_b, level),
    )


def estimate_clustered(
    counts: Mapping[QuestionKey, Transitions],
    *,
    labels: Labels,
    prior_a: BetaPosterior = JEFFREYS,
    prior_b: BetaPosterior = JEFFREYS,
    level: float = 0.95,
    draws: int = 4_000,
    seed: int = 0,
) -> ChainEstimate:
    """As `estimate`, with intervals from whole questions weighed at random.

    Args:
        counts: transitions by question, as `count_by_question` gives them.

    Each draw weighs every question with a unit exponential, and the prior as if it were as many
    observations. So questions of one transition each have the posterior of `estimate`, and where
    nothing was counted the interval is the prior's. The values are those of `estimate` on the
    pooled counts.

    Raises:
        ValueError: at a prior with a parameter of 0.
    """
    rows = [[getattr(c, name) for name in COUNTED] for c in counts.values()]
    table_QC = np.array(rows, dtype=np.int64).reshape(-1, len(COUNTED))
    return estimate_table(
        table_QC,
        labels=labels,
        prior_a=prior_a,
        prior_b=prior_b,
        level=level,
        draws=draws,
        seed=seed,
    )


COUNTED = ("right_wrong", "right_right", "wrong_right", "wrong_wrong")
"""Columns of a table of counts: fields of `Transitions`."""


def estimate_table(
    table_QC: NDArray[np.integer[Any]],
    *,
    labels: Labels,
    prior_a: BetaPosterior = JEFFREYS,
    prior_b: BetaPosterior = JEFFREYS,
    level: float = 0.95,
    draws: int = 4_000,
    seed: int = 0,
) -> ChainEstimate:
    """As `estimate_clustered`, from a table: a row a question, columns as in `COUNTED`."""
    sums = dict(zip(COUNTED, table_QC.sum(axis=0, dtype=np.int64).tolist(), strict=True))
    pooled = Transitions(**sums)
    a, b = _posteriors(pooled, prior_a, prior_b)
    table = table_QC.astype(np.float64)
    prior = (prior_a.alpha, prior_a.beta, prior_b.alpha, prior_b.beta)
    rng = np.random.default_rng(seed)
    at_once = max(1, min(_CHUNK, _WEIGHTS // max(1, len(table))))
    weighed = np.concatenate(
        [
            rng.exponential(size=(min(at_once, draws - start), len(table))) @ table
            for start in range(0, draws, at_once)
        ]
    )
    weighed += prior_weights(prior, draws, seed)
    drawn_a, drawn_b = _shares(weighed[:, :2], _mean(a)), _shares(weighed[:, 2:], _mean(b))
    return ChainEstimate(
        counts=pooled,
        labels=labels,
        interval="clustered",
        a=draws_interval(_mean(a), drawn_a, level=level),
        b=draws_interval(_mean(b), drawn_b, level=level),
        prior_a=prior_a,
        prior_b=prior_b,
        **_derived(a, b, drawn_a, drawn_b, level),
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
    labels: Labels,
    sigma: float = 0.0,
    level: float = 0.95,
    seed: int = 0,
) -> Bounds:
    """Split transitions by the gate's criterion and estimate each part.

    Args:
        chains: the sequential chains of one data set.
        p0_parallel: each question's accuracy over independent samples, in [0, 1]. Taking p0 from
            round 0 of the same chains would sort transitions by where they start.
        labels: what "right" meant in the chains.
        sigma: margin of the gate.
        level: share of belief within each interval.
        seed: of the draws.

    L of the criterion is the data set's own, from the pooled posterior means.

    Raises:
        ValueError: naming a question that has chains and no p0.
    """
    counts = count_by_question(chains)
    neutral = estimate_clustered(counts, labels=labels, level=level, seed=seed)
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
        return estimate_clustered(sides[side], labels=labels, level=level, seed=seed)

    return Bounds(
        neutral=neutral,
        upper=part(Regime.BENEFICIAL),
        lower=part(Regime.DETRIMENTAL),
        n_questions={side: len(questions) for side, questions in sides.items()},
        sigma=sigma,
    )


def _posteriors(
    counts: Transitions, prior_a: BetaPosterior, prior_b: BetaPosterior
) -> tuple[BetaPosterior, BetaPosterior]:
    for name, prior in (("prior_a", prior_a), ("prior_b", prior_b)):
        if not (prior.alpha > 0 and prior.beta > 0):
            raise ValueError(f"{name} must have both parameters > 0, got {prior!r}")
    return (
        BetaPosterior(prior_a.alpha + counts.right_wrong, prior_a.beta + counts.right_right),
        BetaPosterior(prior_b.alpha + counts.wrong_right, prior_b.beta + counts.wrong_wrong),
    )


def _shares(weighed: FloatArray, otherwise: float) -> FloatArray:
    """The first column's share of both, (draws,); `otherwise` where they weigh nothing."""
    both = weighed.sum(axis=1)
    return np.where(both > 0, weighed[:, 0] / np.where(both > 0, both, 1.0), otherwise)


def _mean(posterior: BetaPosterior) -> float:
    return posterior.alpha / (posterior.alpha + posterior.beta)


def _derived(
    a: BetaPosterior, b: BetaPosterior, drawn_a: FloatArray, drawn_b: FloatArray, level: float
) -> dict[str, Interval]:
    """L and lambda at the mean a and b, with the quantiles of their draws."""
    limit = stationary_accuracy(_mean(a), _mean(b))
    limits = np.asarray(stationary_accuracy(drawn_a, drawn_b))
    return {
        "stationary_accuracy": draws_interval(limit, limits, level=level),
        "second_eigenvalue": draws_interval(
            1 - _mean(a) - _mean(b), 1 - drawn_a - drawn_b, level=level
        ),
    }
