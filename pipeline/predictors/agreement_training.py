"""Weights of `agree` from a recorded pool, and what they are worth on questions held out.

The weights are fitted on the training questions. A threshold is chosen there too: the most accurate
one that draws no more rounds than `chain_asc` does. Both are then judged on held-out questions.
"""

from __future__ import annotations

import posixpath
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pipeline.answers.answer_rules import AnswerRule
from pipeline.core.arrays import BoolArray, FloatArray, IntArray
from pipeline.core.errors import ConfigError
from pipeline.predictors.agreement_fit import fit_agreement
from pipeline.predictors.targets import Part, parts_of
from pipeline.replay.chain_arrays import (
    RIGHT,
    ChainArrays,
    chain_arrays,
)
from pipeline.replay.fast import FastReplay
from pipeline.replay.pools import CompletionPool
from pipeline.replay.sweep import judged_by_arrays, rights
from pipeline.statistics.agreement import (
    NO_FORM,
    AgreementWeights,
    agreement,
)
from pipeline.statistics.calibration import reliability
from pipeline.statistics.paired import Difference, paired_difference
from pipeline.strategies.agree import Agree
from pipeline.strategies.chain_asc import ChainASC

THRESHOLD = 0.95
_TAUS = tuple(round(0.5 + 0.01 * step, 2) for step in range(50))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementCard:
    """Fitted weights and how they did on held-out questions."""

    weights: AgreementWeights
    rounds: int
    """N of the chains, and of both strategies here."""
    fitted_on: int
    held_out: int
    """Of these the answers of both strategies are graded."""
    calibration_error: float
    """Mean distance of P(the leading answer is right) from what came, over ten bins (ECE)."""
    tau: float
    """Chosen on the training questions."""
    accuracy: float
    rounds_drawn: float
    """Mean completions a question."""
    chain_asc_accuracy: float
    chain_asc_rounds: float
    gain: Difference
    """Accuracy minus that of `chain_asc` at threshold 0.95, on the same questions."""

    def to_json(self) -> dict[str, Any]:
        """The file that ``weights: FILE`` reads: ``w`` and ``v``, their digest and this card."""
        values = asdict(self)
        weights = values.pop("weights")
        return {**weights, "digest": self.weights.digest(), "card": values}

    def sentences(self) -> list[str]:
        """What to print."""
        gain = self.gain
        return [
            f"agree: weights {self.weights.digest()} fitted on {self.fitted_on:,} questions, "
            f"calibration error {self.calibration_error:.3f} on {self.held_out:,} held out",
            f"agree at tau {self.tau:g}: {100 * self.accuracy:.1f} % with {self.rounds_drawn:.2f} "
            f"rounds; chain_asc at {THRESHOLD:g}: {100 * self.chain_asc_accuracy:.1f} % with "
            f"{self.chain_asc_rounds:.2f}; gain {100 * gain.value:+.1f} points "
            f"[{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]",
        ]


def train_agreement(pool: CompletionPool, *, seed: int = 0) -> AgreementCard:
    """Fit on the training questions of a pool, judge on those held out.

    Args:
        pool: graded, with chains.
        seed: of the split and of the bootstrap.

    Raises:
        ConfigError: where the pool has no chains, or too few graded ones to fit or to judge on.
    """
    chains = chain_arrays(pool)
    parts = parts_of([(q.key, q.question.text) for q in pool.questions], seed=seed)
    held_Q = np.array([part is Part.HELD_OUT for part in parts])
    right_QT, graded_QT = chains.verdict_QT == RIGHT, chains.graded_QT
    at = ~held_Q & graded_QT.any(axis=1)
    weights = replace(
        fitted_on_chains(chains, at),
        fitted_on=posixpath.basename(pool.address.rstrip("/")),
    )
    replay, n = FastReplay(chains), chains.n_rounds
    asc_right, asc_drawn = _judged(replay, ChainASC(n=n, threshold=THRESHOLD))
    tau = _tau(replay, weights, ~held_Q, asc_drawn[~held_Q].mean())
    right, drawn = _judged(replay, Agree(n=n, tau=tau, vote_threshold=1.0, weights=weights))
    judged_Q = held_Q & ~np.isnan(right) & ~np.isnan(asc_right)
    rows = np.flatnonzero(judged_Q)
    if not len(rows):
        raise ConfigError(
            f"weights of agree must be judged on graded questions, of {held_Q.sum()} held out none "
            f"is"
        )
    gain = paired_difference(
        {int(q): [float(right[q])] for q in rows},
        {int(q): [float(asc_right[q])] for q in rows},
        seed=seed,
    )
    return AgreementCard(
        weights=weights,
        rounds=n,
        fitted_on=int(at.sum()),
        held_out=len(rows),
        calibration_error=_calibration_error(chains, right_QT, judged_Q, weights),
        tau=tau,
        accuracy=float(right[rows].mean()),
        rounds_drawn=float(drawn[rows].mean()),
        chain_asc_accuracy=float(asc_right[rows].mean()),
        chain_asc_rounds=float(asc_drawn[rows].mean()),
        gain=gain,
    )


def fitted_on_chains(chains: ChainArrays, at_Q: BoolArray) -> AgreementWeights:
    """`fit_agreement` on some chains of a pool, by what of them is graded."""
    return fit_agreement(
        chains.form_QT[at_Q],
        chains.score_QT[at_Q],
        chains.verdict_QT[at_Q] == RIGHT,
        chains.length_Q[at_Q],
        chains.graded_QT[at_Q],
    )


def _judged(replay: FastReplay, strategy: ChainASC | Agree) -> tuple[FloatArray, IntArray]:
    """1 where a question's vote is right, 0 where it is wrong, nan where it is not graded; and the
    completions that were drawn."""
    judged = judged_by_arrays(replay.chains, replay.decide(strategy))
    return rights(judged, AnswerRule.VOTE), judged.completions_Q


def _tau(replay: FastReplay, weights: AgreementWeights, at: BoolArray, most_rounds: float) -> float:
    """The most accurate threshold within a mean number of rounds; of equals the lowest."""
    found = []
    for tau in _TAUS:
        strategy = Agree(n=replay.chains.n_rounds, tau=tau, vote_threshold=1.0, weights=weights)
        right, drawn = _judged(replay, strategy)
        if drawn[at].mean() <= most_rounds:
            found.append((-float(right[at & ~np.isnan(right)].mean()), tau))
    return min(found)[1] if found else _TAUS[0]


def _calibration_error(
    chains: ChainArrays, right_QT: BoolArray, held_Q: BoolArray, weights: AgreementWeights
) -> float:
    """ECE of P(the leading answer is right) over every round of the held-out chains whose leading
    answer is graded."""
    form = chains.form_QT[held_Q]
    found = agreement(form, chains.score_QT[held_Q], weights)
    graded_QT = chains.graded_QT[held_Q]
    first_QT = _first_says(np.where(graded_QT, form, NO_FORM), found.leading_QT)
    is_right = np.take_along_axis(right_QT[held_Q], first_QT, axis=1)
    rounds = np.arange(chains.n_rounds) < chains.length_Q[held_Q][:, None]
    use = rounds & (found.leading_QT >= 0)
    use &= np.take_along_axis(form, first_QT, axis=1) == found.leading_QT
    use &= np.take_along_axis(graded_QT, first_QT, axis=1)
    if not use.any():
        raise ConfigError("weights of agree must be judged on graded answers, got none held out")
    predicted: FloatArray = found.probability_QT[use]
    return reliability(predicted, is_right[use]).ece


def _first_says(form_QT: IntArray, leading_QT: IntArray) -> IntArray:
    """The first round whose answer is the leading one; 0 where there is none."""
    return np.asarray((form_QT[:, None, :] == leading_QT[:, :, None]).argmax(axis=2))
