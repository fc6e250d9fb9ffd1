"""Which kind of strategy suits a generator and its verifier, by diagnostics of recorded chains.

Does the verifier tell the answers of one question apart? Do a and b stay the same over rounds
(drift), after a change (order) and over questions (mixture), as the two-state chain assumes? Which
of the chains H, S, U and RU (`pipeline.theory.settling`) predicts the later rounds best? Each
finding comes with one sentence on what it means for the choice of a strategy. In simulated worlds
without a finding its sentence is printed in at most 5 % of cases (tests/test_suitability.py).

Axes: Q questions, T rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.core.arrays import FloatArray
from pipeline.statistics.calibration import roc_auc
from pipeline.statistics.intervals import Interval
from pipeline.theory.diagnostics import homogeneity_test
from pipeline.theory.settling import (
    ChainComparison,
    SettlingFit,
    compare_chains,
    fit_settling,
    label_matrix,
)
from pipeline.theory.transitions import Transitions

LAGS = (1, 2, 4, 8)
LEAST_QUESTIONS = 20
"""Fewer questions, or questions with both right and wrong answers, show nothing."""
_DRAWS = 400
_NULL_DRAWS = 1_000
_FEW_ROUNDS = 3
"""So few rounds say nothing of a strategy."""
_APART, _BLIND, _STILL = 0.65, 0.6, 0.9
_SURE = 0.05
_CLOSE = 0.1
"""Correlations within this of the chain's are as the chain says."""
_INDEPENDENT = 0.1
"""Rounds whose neighbours correlate less are all but independent draws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagCorrelation:
    """How far the correctness of a round predicts that of a later one."""

    lag: int
    """Rounds between the two."""
    observed: Interval
    """Pearson correlation over all pairs of rounds; resampled by question."""
    chain: float
    """lambda^lag = (1 - a - b)^lag: of a two-state chain with the counted a and b."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suitability:
    """The diagnostics of one benchmark."""

    questions: int
    rounds: int
    auc_within: Interval | None
    """P(a right completion scores higher than a wrong one of the same question), mean over the
    questions that have both."""
    lags: tuple[LagCorrelation, ...]
    drift: tuple[float, float]
    """p-values of the tests that a, and that b, are the same in all rounds."""
    order: Interval | None
    """P(change | the round before was a change) - P(change | it was not), from the same state: 0 in
    a two-state chain. 99 %, clustered by question."""
    models: ChainComparison | None
    """None with fewer than four rounds."""
    settling: SettlingFit | None
    """U, fitted to all rounds; None without transitions."""
    stationary_accuracy: float
    """b / (a + b) of pooled counts: the mean accuracy of the rounds, and no prediction."""
    rise: Interval
    """Accuracy of the later half of the rounds minus that of the first, 95 %."""
    score_split: float | None
    """The score that separates right from wrong completions best (Youden's index)."""

    @property
    def settles(self) -> bool:
        """Whether changes die out: a or b drift, and U predicts later rounds better than H."""
        return self.drifts and self.models is not None and self.models.gain["U"].low > 0

    @property
    def drifts(self) -> bool:
        """Whether a or b change over rounds, at 5 % for the two together."""
        return min(self.drift) < _SURE / 2

    @property
    def differs(self) -> bool:
        """Whether questions have chains of their own: RU predicts later rounds better than U."""
        return self.models is not None and self.models.over["RU"].low > 0

    @property
    def discriminates(self) -> bool | None:
        """Whether the verifier separates right from wrong answers of a question; None: unknown."""
        within = self.auc_within
        if within is None or (within.high >= _BLIND and within.low <= _APART):
            return None
        return within.low > _APART

    def sentences(self) -> tuple[str, ...]:
        """What each diagnostic means for the choice of a strategy."""
        found = [
            _of_verifier(self.auc_within, self.discriminates),
            *_of_chains(self),
        ]
        if self.rounds > _FEW_ROUNDS:
            found.append(advice(self).sentence)
        return (*filter(None, found),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The strategy that a pilot recommends (the table of docs/strategies.md)."""

    kind: str
    settings: dict[str, float | int]
    """Fields of the strategy that differ from its defaults."""
    why: str

    @property
    def sentence(self) -> str:
        """In words."""
        fields = "".join(f", {name}: {value:g}" for name, value in self.settings.items())
        return f"Advice: {{kind: {self.kind}{fields}}}, since {self.why}."


def advice(found: Suitability | None) -> Advice:
    """Which strategy suits, given what a pilot shows.

    Args:
        found: of its chains; None where it has samples alone, or too few chains.
    """
    if found is None:
        return Advice(
            kind="expected_agreement",
            settings={},
            why="the pilot has no chains to judge revising by, and samples need no verifier",
        )
    lags = found.lags
    if lags and min(lags[0].chain, lags[-1].chain, lags[-1].observed.value) > _STILL:
        return Advice(kind="base", settings={}, why="revising hardly ever changes an answer")
    if found.discriminates and found.score_split is not None:
        return Advice(
            kind="settled",
            settings={"score_at_least": round(found.score_split, 4)},
            why="the verifier tells the answers of one question apart, so a satisfied verifier "
            "ends a chain; with 50 labelled questions or more, compare agree (jobs.train)",
        )
    if found.rise.low > 0:
        return Advice(
            kind="settled",
            settings={},
            why=f"accuracy rises over the rounds ({_points(found.rise)}) and "
            f"{_verifier_help(found)}: recent answers count more, and equal ones end a chain",
        )
    return Advice(
        kind="chain_expected_agreement",
        settings={},
        why=f"accuracy does not rise over the rounds ({_points(found.rise)}) and "
        f"{_verifier_help(found)}: all rounds vote alike",
    )


def _verifier_help(found: Suitability) -> str:
    """In words, where the verifier is not known to tell the answers of one question apart."""
    if found.auc_within is None and found.score_split is None:
        return "there are no scores"
    if found.discriminates is False:
        return "the verifier is no help"
    if found.auc_within is not None and found.auc_within.low > 0.5:
        return "the verifier is of little help"
    return "it is open whether the verifier helps"


def suitability(
    chains: Sequence[Sequence[bool | None]],
    scores: Sequence[Sequence[float | None]],
    *,
    seed: int = 0,
) -> Suitability | None:
    """The diagnostics of chains that no strategy has stopped.

    Args:
        chains: whether each round is right, a sequence a question; None where it is not known.
        scores: verifier scores in [0, 1] at the same places; None where there is none.
        seed: of the bootstrap over questions.

    Returns:
        The diagnostics; None with fewer than `LEAST_QUESTIONS` chains of two rounds or more.
    """
    kept = [q for q, chain in enumerate(chains) if len(chain) > 1]
    if len(kept) < LEAST_QUESTIONS:
        return None
    right_QT = label_matrix([chains[q] for q in kept])
    score_QT = label_matrix([scores[q] for q in kept])
    before, after = right_QT[:, :-1], right_QT[:, 1:]
    known = ~np.isnan(before) & ~np.isnan(after)
    a = _share(after[known & (before == 1)] == 0)
    b = _share(after[known & (before == 0)] == 1)
    lags = [
        (lag, _correlation(_lagged(right_QT, lag), seed)) for lag in LAGS if lag < right_QT.shape[1]
    ]
    drift = homogeneity_test(_by_round(right_QT), draws=_NULL_DRAWS, seed=seed)
    moves = bool(known.any())
    return Suitability(
        questions=len(kept),
        rounds=right_QT.shape[1],
        auc_within=_auc_within(score_QT, right_QT),
        lags=tuple(
            LagCorrelation(lag=lag, observed=found, chain=float((1 - a - b) ** lag))
            for lag, found in lags
            if found is not None
        ),
        drift=(drift.a.p_value, drift.b.p_value),
        order=_order(right_QT),
        models=compare_chains(right_QT),
        settling=fit_settling(right_QT, "run", seed=seed) if moves else None,
        stationary_accuracy=b / (a + b) if a + b else float("nan"),
        rise=_rise(right_QT),
        score_split=_score_split(score_QT, right_QT),
    )


def _rise(right_QT: FloatArray) -> Interval:
    later_QT = right_QT[:, (right_QT.shape[1] + 1) // 2 :]
    known_Q = ~np.isnan(right_QT[:, 0]) & ~np.isnan(later_QT).all(axis=1)
    if known_Q.sum() < 2:
        return Interval(value=0.0, low=-1.0, high=1.0)
    gain_Q = np.nanmean(later_QT[known_Q], axis=1) - right_QT[known_Q, 0]
    value, half = float(gain_Q.mean()), 1.96 * float(gain_Q.std(ddof=1) / np.sqrt(len(gain_Q)))
    return Interval(value=value, low=value - half, high=value + half)


def _score_split(score_QT: FloatArray, right_QT: FloatArray) -> float | None:
    use = ~np.isnan(score_QT) & ~np.isnan(right_QT)
    score, right = score_QT[use], right_QT[use] == 1
    if not right.any() or right.all():
        return None
    at = np.unique(score)
    right_above, wrong_above = (
        1 - np.searchsorted(np.sort(score[kind]), at) / kind.sum() for kind in (right, ~right)
    )
    return float(at[(right_above - wrong_above).argmax()])


def _by_round(right_QT: FloatArray) -> list[Transitions]:
    before, after = right_QT[:, :-1], right_QT[:, 1:]
    counts = [
        [int(np.sum((before[:, r] == x) & (after[:, r] == y))) for x in (1, 0) for y in (1, 0)]
        for r in range(before.shape[1])
    ]
    return [
        Transitions(right_right=rr, right_wrong=rw, wrong_right=wr, wrong_wrong=ww)
        for rr, rw, wr, ww in counts
    ]


def _order(right_QT: FloatArray) -> Interval | None:
    """See `Suitability.order`: Mantel and Haenszel's difference over the two states, its variance
    from the questions' influences."""
    x, y, z = right_QT[:, :-2], right_QT[:, 1:-1], right_QT[:, 2:]
    known = ~np.isnan(x) & ~np.isnan(y) & ~np.isnan(z)
    top, weight, influence = 0.0, 0.0, np.zeros(len(right_QT))
    for state in (1, 0):
        at = known & (y == state)
        moved, stayed = at & (x != y), at & (x == y)
        n1, n0 = int(moved.sum()), int(stayed.sum())
        if not n1 or not n0:
            continue
        changes = np.where(known, z != y, False)
        p1, p0 = float(changes[moved].mean()), float(changes[stayed].mean())
        share = n1 * n0 / (n1 + n0)
        top, weight = top + share * (p1 - p0), weight + share
        apart = np.where(moved, (changes - p1) / n1, np.where(stayed, -(changes - p0) / n0, 0.0))
        influence += share * apart.sum(axis=1)
    if weight == 0:
        return None
    half = 2.576 * float(np.sqrt(np.sum(influence**2))) / weight
    value = top / weight
    return Interval(value=value, low=value - half, high=value + half, level=0.99)


def _share(happened: NDArray[np.bool_]) -> float:
    return float(happened.mean()) if happened.size else 0.0


def _auc_within(score_QT: FloatArray, right_QT: FloatArray) -> Interval | None:
    aucs = []
    for score_T, right_T in zip(score_QT, right_QT, strict=True):
        use = ~np.isnan(score_T) & ~np.isnan(right_T)
        if 0 < right_T[use].sum() < use.sum():
            aucs.append(roc_auc(score_T[use], right_T[use] == 1))
    if len(aucs) < LEAST_QUESTIONS:
        return None
    n = len(aucs)
    return _on_logit(float(np.mean(aucs)), float(np.std(aucs, ddof=1) / np.sqrt(n)), n)


def _on_logit(value: float, error: float, questions: int) -> Interval:
    """The 95 % interval of a probability whose logit is about normal; where every question says 0,
    or every one 1, that of as many equal outcomes."""
    if not 0 < value < 1:
        far = 1 - 0.025 ** (1 / questions)
        return Interval(value=value, low=max(0.0, value - far), high=min(1.0, value + far))
    logit, half = np.log(value / (1 - value)), 1.96 * error / (value * (1 - value))
    low, high = (float(1 / (1 + np.exp(-end))) for end in (logit - half, logit + half))
    return Interval(value=value, low=low, high=high)


def _lagged(right_QT: FloatArray, lag: int) -> FloatArray:
    """(Q, 6): pairs of each question, and their sums of x, y, x^2, y^2 and x y."""
    x, y = right_QT[:, :-lag], right_QT[:, lag:]
    known = ~np.isnan(x) & ~np.isnan(y)
    x, y = np.where(known, x, 0.0), np.where(known, y, 0.0)
    parts = [known, x, y, x * x, y * y, x * y]
    return np.column_stack([np.asarray(part, np.float64).sum(axis=1) for part in parts])


def _correlation(sums_QF: FloatArray, seed: int) -> Interval | None:
    """Pearson's correlation from sums of questions, questions resampled with replacement."""
    value = _pearson(sums_QF.sum(axis=0)[None])[0]
    if np.isnan(value):
        return None
    rng = np.random.default_rng(seed)
    questions = len(sums_QF)
    times_DQ = rng.multinomial(questions, np.full(questions, 1 / questions), size=_DRAWS)
    low, high = np.nanquantile(_pearson(times_DQ @ sums_QF), [0.025, 0.975])
    return Interval(value=float(value), low=float(low), high=float(high))


def _pearson(sums_DF: FloatArray) -> FloatArray:
    n, x, y, xx, yy, xy = sums_DF.T
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = xy / n - x / n * y / n
        scale = np.sqrt((xx / n - (x / n) ** 2) * (yy / n - (y / n) ** 2))
        return np.asarray(np.where(scale > 0, covariance / scale, np.nan))


def _of_verifier(within: Interval | None, discriminates: bool | None) -> str | None:
    if within is None:
        return None
    auc = f"AUC within a question {_with_ends(within)}"
    if discriminates is False:
        return (
            f"This verifier does not separate right from wrong answers of one question ({auc}): "
            f"prefer vote over prm_argmax."
        )
    if discriminates:
        return (
            f"This verifier separates right from wrong answers of one question ({auc}): "
            f"prm_argmax and stopping by its scores can pay."
        )
    if within.low <= 0.5:
        return (
            f"Too few questions have both right and wrong answers to say whether the verifier "
            f"separates them ({auc}): prefer vote until more do."
        )
    return (
        f"This verifier separates right from wrong answers of one question a little ({auc}): "
        f"compare rules."
    )


def _of_chains(found: Suitability) -> list[str]:
    """What drift, order, mixture and the comparison of chains mean."""
    lags = found.lags
    if lags and min(lags[0].chain, lags[-1].chain, lags[-1].observed.value) > _STILL:
        return [
            "Answers hardly ever change from right to wrong or back: revising changes little; "
            "prefer base, or independent samples."
        ]
    said = []
    if found.settles and found.settling is not None and found.models is not None:
        fit, gain = found.settling, found.models.gain["U"]
        said.append(
            f"Changes die out: after u equal rounds a change is q^u as likely, q "
            f"{_with_ends(fit.kept)} (later rounds are predicted {gain.value:+.0f} nats "
            f"[{gain.low:+.0f}, {gain.high:+.0f}] better than by one a and b). There is no L: the "
            f"chain freezes at L_U = {_with_ends(fit.limit)}, not at b/(a+b) = "
            f"{_two(found.stationary_accuracy)}. Read it by last or the recent vote, and stop when "
            f"answers repeat (settled)."
        )
    elif found.drifts:
        said.append(
            f"a or b change over the rounds (p = {found.drift[0]:.2g} and {found.drift[1]:.2g}): "
            f"there is no L, and neither the gate nor the stopping rule holds; where accuracy "
            f"rises, read by last or the recent vote."
        )
    if found.differs and found.models is not None:
        over = found.models.over["RU"]
        said.append(
            f"Questions differ: some stay easy or hard over their rounds (one random effect a "
            f"question predicts later rounds {over.value:+.0f} nats [{over.low:+.0f}, "
            f"{over.high:+.0f}] better). One a and b say nothing of a single "
            f"question; stop on agreement (chain_expected_agreement, chain_asc)."
        )
    if not said and found.order is not None and not found.order.low <= 0 <= found.order.high:
        said.append(
            f"Order matters: a change after a change is {_with_ends(found.order)} more likely than "
            f"after an equal round. A two-state chain predicts 0, so its forecasts of late rounds "
            f"are wrong; stop on agreement."
        )
    return said or _of_no_finding(found)


def _of_no_finding(found: Suitability) -> list[str]:
    if not found.lags or found.lags[-1].lag == 1:  # that is how the chain was fitted
        return []
    first, last = found.lags[0], found.lags[-1]
    if last.observed.high > max(last.chain, 0.0) + _CLOSE:
        return [
            f"Too few questions to test the two-state chain ({_of_lag(last)}): collect more before "
            f"you rely on its gate and stopping rule."
        ]
    if abs(first.chain) < _INDEPENDENT and first.observed.high < 2 * _INDEPENDENT:
        return [
            f"Rounds are nearly independent ({_of_lag(first)}): L is the mean accuracy, "
            f"and there is nothing to forecast; stop on agreement, or on the verifier where it "
            f"separates right from wrong answers."
        ]
    return [
        f"These rounds are consistent with one two-state chain ({_of_lag(last)}): its gate and "
        f"stopping rule can be used; L is the mean accuracy of the rounds."
    ]


def _of_lag(lag: LagCorrelation) -> str:
    return (
        f"correctness {lag.lag} round{'s' if lag.lag > 1 else ''} apart correlates "
        f"{_with_ends(lag.observed)}, the fitted chain predicts {_two(lag.chain)}"
    )


def _with_ends(interval: Interval) -> str:
    return f"{_two(interval.value)} [{_two(interval.low)}, {_two(interval.high)}]"


def _points(interval: Interval) -> str:
    low, value, high = (100 * x for x in (interval.low, interval.value, interval.high))
    return f"{value:+.1f} points [{low:+.1f}, {high:+.1f}]"


def _two(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # no minus before a zero
