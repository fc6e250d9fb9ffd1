"""Quality of a predictor head on held-out questions, beside a constant prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.core.arrays import FloatArray
from pipeline.predictors.targets import Head, Target

_FLOOR = 1e-6  # of a predicted probability, so that no loss is infinite


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadReport:
    """One head on held-out questions. Losses are means over trials, lower is better."""

    head: Head
    n_questions: int
    """Held-out questions that say something on the head."""
    n_trials: int
    loss: float
    """Negative log likelihood a trial, such as a transition; for tokens the mean over questions of
    the squared error of their logarithm."""
    loss_constant: float
    """That of the constant of least training loss: the share of all trials (of tokens the
    geometric mean of the questions' means), for every question."""
    gain_low: float
    """95 % interval of `loss_constant` - `loss`, clustered by question."""
    gain_high: float
    brier: float | None
    """Mean squared distance of prediction and outcome, over a question's trials and then over
    questions; None for tokens."""
    brier_constant: float | None
    ece: float | None
    """Expected calibration error over ten bins, over trials; None for tokens."""
    rank_correlation: float | None
    """Spearman's, of prediction and observed share over questions; None where all predictions or
    all shares are equal."""

    @property
    def beats_constant(self) -> bool:
        """Whether the head is better than the constant beyond its uncertainty."""
        return self.gain_low > 0

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        verdict = "beats" if self.beats_constant else "does not beat"
        return (
            f"{self.head.value} {verdict} a constant on {self.n_questions} held-out questions: "
            f"loss {self.loss:.4f} against {self.loss_constant:.4f} (gain in "
            f"[{self.gain_low:.4f}, {self.gain_high:.4f}])"
        )


def report_head(
    head: Head, targets: Sequence[Target], predicted: FloatArray, fallback: float
) -> HeadReport | None:
    """Judge one head.

    Args:
        head: which.
        targets: held-out questions.
        predicted: (Q,), what the head predicts for each of them.
        fallback: the constant (`pipeline.predictors.targets.constant` of the training questions).

    Returns:
        None where fewer than two of the questions say anything on the head.
    """
    counts = [target.counts[head] for target in targets]
    told = np.array([count.trials > 0 for count in counts])
    if told.sum() < 2:
        return None
    successes = np.array([count.successes for count in counts], dtype=np.float64)[told]
    trials = np.array([count.trials for count in counts])[told]
    guess = np.asarray(predicted, dtype=np.float64)[told]
    same = np.full_like(guess, fallback)
    losses = _losses(head, successes, trials, guess)
    losses_constant = _losses(head, successes, trials, same)
    weights = np.ones(len(trials)) if head is Head.TOKENS else trials.astype(np.float64)
    gain_low, gain_high = _ratio_ends(losses_constant - losses, weights)
    brier = brier_constant = ece = None
    if head is not Head.TOKENS:
        from pipeline.statistics.calibration import reliability  # it imports scipy

        outcomes = np.concatenate(
            [np.arange(n) < k for k, n in zip(successes, trials, strict=True)]
        )
        ece = reliability(np.repeat(guess, trials), outcomes).ece
        brier, brier_constant = (_brier(successes / trials, p) for p in (guess, same))
    return HeadReport(
        head=head,
        n_questions=int(told.sum()),
        n_trials=int(trials.sum()),
        loss=float(losses.sum() / weights.sum()),
        loss_constant=float(losses_constant.sum() / weights.sum()),
        gain_low=gain_low,
        gain_high=gain_high,
        brier=brier,
        brier_constant=brier_constant,
        ece=ece,
        rank_correlation=_rank_correlation(guess, successes / trials),
    )


def _losses(
    head: Head, successes: FloatArray, trials: NDArray[np.int64], guess: FloatArray
) -> FloatArray:
    """(Q,): loss of each question, summed over its trials."""
    if head is Head.TOKENS:
        return np.asarray((np.log(np.maximum(successes / trials, 1.0)) - np.log(guess)) ** 2)
    p = np.clip(guess, _FLOOR, 1 - _FLOOR)
    return np.asarray(-(successes * np.log(p) + (trials - successes) * np.log1p(-p)))


def _ratio_ends(difference_Q: FloatArray, weight_Q: FloatArray) -> tuple[float, float]:
    """The 95 % interval of sum(difference) / sum(weight), questions being the clusters."""
    from scipy import stats

    n, value = len(weight_Q), float(difference_Q.sum() / weight_Q.sum())
    apart_Q = (difference_Q - value * weight_Q) / weight_Q.mean()
    half = float(stats.t.ppf(0.975, n - 1)) * float(np.std(apart_Q, ddof=1)) / math.sqrt(n)
    return value - half, value + half


def _brier(share: FloatArray, guess: FloatArray) -> float:
    return float(np.mean(share * (1 - guess) ** 2 + (1 - share) * guess**2))


def _rank_correlation(guess: FloatArray, seen: FloatArray) -> float | None:
    if np.ptp(guess) == 0 or np.ptp(seen) == 0:
        return None
    from scipy import stats

    found = float(stats.spearmanr(guess, seen).statistic)
    return None if math.isnan(found) else found
