"""*train_agreement*: fits the weights of `agree`, a conditional logit, on graded chains.

Every chain is looked at after 1, 2, 3, 4, 6, 8, 12, 16, ... rounds; what happened is which of the
answers seen so far is right, or that none is. Each look counts the same. Weights are fitted on the
training questions with the verifier's scores and without them; a threshold is chosen there too: the
most accurate one that draws no more rounds than `chain_asc` does. All are judged on held-out
questions, and the scores are recommended only where their gain is above 0 there.
"""

from __future__ import annotations

import posixpath
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pipeline.answers.answer_rules import AnswerRule
from pipeline.core.arrays import BoolArray, FloatArray, IntArray
from pipeline.core.errors import ConfigError
from pipeline.predictors.targets import Part, parts_of
from pipeline.replay.chain_arrays import RIGHT, ChainArrays, chain_arrays
from pipeline.replay.fast import FastReplay
from pipeline.replay.judging import judged_by_arrays, rights
from pipeline.replay.pools import CompletionPool
from pipeline.results.compare import difference
from pipeline.statistics.agreement import (
    NO_FORM,
    AgreementWeights,
    agreement,
    agreement_features,
    used_features,
)
from pipeline.statistics.calibration import reliability
from pipeline.statistics.intervals import Interval, mean_interval
from pipeline.strategies.chain_agreement import Agree, ChainASC

THRESHOLD = 0.95
RIDGE_W, RIDGE_V = 8.0, 1.0
"""Strength of the pull to the plain vote: the verifier gets a say within a question only where the
data show that it should."""
LEAST_QUESTIONS = 30
_TAUS = tuple(round(0.5 + 0.01 * step, 2) for step in range(50))
_WITH_SCORES = AgreementWeights(w=(2.5, *[0.0] * 5), v=(0.0,) * 10)
_WITHOUT = AgreementWeights(w=(2.5, 0.0, 0.0), v=(0.0,) * 6)


def looked_at(rounds: int) -> list[int]:
    """Numbers of rounds after which a chain is looked at: 1, 2, 3, 4, 6, 8, 12, ... and all."""
    grid = sorted({n for k in range(12) for n in (2**k, 3 * 2**k)} | {rounds})
    return [n for n in grid if n <= rounds]


def fit_agreement(
    form_QT: IntArray,
    score_QT: FloatArray,
    right_QT: BoolArray,
    length_Q: IntArray,
    graded_QT: BoolArray | None = None,
    *,
    scores: bool = True,
) -> AgreementWeights:
    """Weights (version 2) that make what was right most probable.

    Args:
        form_QT: number of each answer among the distinct ones of its question
            (`pipeline.statistics.agreement.count_votes`).
        score_QT: verifier scores in [0, 1], nan where there is none.
        right_QT: whether each completion is right by its gold answer.
        length_Q: completions of each chain, at most T.
        graded_QT: whether it is known if a completion is right; None where all are. Looks at a
            chain that do not tell which of its answers is right are left out.
        scores: whether the features of the verifier's scores are fitted.

    Raises:
        ConfigError: with fewer than 30 graded chains, or none that is ever right or ever wrong.
    """
    from scipy.optimize import minimize

    labelled_QT = np.arange(right_QT.shape[1]) < length_Q[:, None]
    if graded_QT is not None:
        labelled_QT = labelled_QT & graded_QT
    chains = len(form_QT) if graded_QT is None else int(labelled_QT.any(axis=1).sum())
    share = float(right_QT[labelled_QT].mean()) if labelled_QT.any() else 0.0
    if chains < LEAST_QUESTIONS or share in (0.0, 1.0):
        raise ConfigError(
            f"weights of agree must be fitted on at least {LEAST_QUESTIONS} chains with right and "
            f"wrong answers, got {chains} chains, {share:.0%} of their answers right"
        )
    start = _WITH_SCORES if scores else _WITHOUT
    seen = _observations(form_QT, score_QT, right_QT, length_Q, labelled_QT, start)
    centre = np.array([*start.w, *start.v])
    strength = np.array([RIDGE_W] * len(start.w) + [RIDGE_V] * len(start.v))

    def cost(theta: FloatArray) -> tuple[float, FloatArray]:
        likelihood, gradient = seen.log_likelihood(theta[: len(start.w)], theta[len(start.w) :])
        pull = theta - centre
        return (
            -likelihood + 0.5 * float(strength @ pull**2),
            np.asarray(-gradient + strength * pull),
        )

    found = minimize(cost, centre, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    fitted = [round(float(value), 6) for value in found.x]
    return AgreementWeights(w=tuple(fitted[: len(start.w)]), v=tuple(fitted[len(start.w) :]))


@dataclass(frozen=True, slots=True)
class _Observations:
    """Looks at chains, flat: A answers in S looks, the answers of a look side by side."""

    answer_AF: FloatArray
    right_A: BoolArray
    look_A: IntArray
    first_S: IntArray
    """Where the answers of each look begin."""
    chain_SF: FloatArray

    def log_likelihood(self, w: FloatArray, v: FloatArray) -> tuple[float, FloatArray]:
        """Log-likelihood of which answer was right, and its gradient in (w, v)."""
        utility = self.answer_AF @ w + (self.chain_SF @ v)[self.look_A]
        top = np.maximum(np.maximum.reduceat(utility, self.first_S), 0.0)
        part = np.exp(utility - top[self.look_A])
        total = np.add.reduceat(part, self.first_S) + np.exp(-top)
        right = np.add.reduceat(np.where(self.right_A, part, 0.0), self.first_S)
        some = np.add.reduceat(self.right_A.astype(np.int64), self.first_S) > 0
        happened = np.where(some, right, np.exp(-top))
        likelihood = float(np.sum(np.log(happened) - np.log(total)))
        pull = np.where(self.right_A, part / np.where(some, right, 1.0)[self.look_A], 0.0)
        pull = pull - part / total[self.look_A]
        by_look = np.add.reduceat(pull, self.first_S)
        return likelihood, np.concatenate([pull @ self.answer_AF, by_look @ self.chain_SF])


def _observations(
    form_QT: IntArray,
    score_QT: FloatArray,
    right_QT: BoolArray,
    length_Q: IntArray,
    labelled_QT: BoolArray,
    like: AgreementWeights,
) -> _Observations:
    rounds = form_QT.shape[1]
    at = np.array(looked_at(rounds)) - 1
    features = agreement_features(form_QT, score_QT)
    of_answer, of_chain = used_features(like)
    known = features.known_QTK[:, at] & (at < length_Q[:, None])[:, :, None]
    kinds = known.shape[2]
    is_right = np.zeros((len(form_QT), kinds), np.bool_)  # by the first completion that says it
    is_labelled = np.zeros_like(is_right)
    for q, forms in enumerate(form_QT):
        for t in reversed(range(int(length_Q[q]))):
            if forms[t] >= 0 and labelled_QT[q, t]:
                is_right[q, forms[t]], is_labelled[q, forms[t]] = right_QT[q, t], True
    right_observed = (known & is_right[:, None]).any(axis=2)
    looks = known.any(axis=2) & (right_observed | ~(known & ~is_labelled[:, None]).any(axis=2))
    q_S, s_S = np.nonzero(looks)
    known_SK = known[q_S, s_S]
    look_A, k_A = np.nonzero(known_SK)
    return _Observations(
        answer_AF=features.answer_QTKF[q_S[look_A], at[s_S[look_A]], k_A][:, of_answer],
        right_A=is_right[q_S[look_A], k_A],
        look_A=look_A,
        first_S=np.concatenate([[0], np.cumsum(known_SK.sum(axis=1))[:-1]]),
        chain_SF=features.chain_QTF[q_S, at[s_S]][:, of_chain],
    )


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
    """Mean distance of P(the leading answer is right) from what came, over ten bins (ECE), at the
    round after which `agree` stopped at `tau`."""
    tau: float
    """Chosen on the training questions."""
    accuracy: float
    rounds_drawn: float
    """Mean completions a question."""
    chain_asc_accuracy: float
    chain_asc_rounds: float
    gain: Interval
    """Accuracy minus that of `chain_asc` at threshold 0.95, on the same questions."""

    def to_json(self) -> dict[str, Any]:
        """The file that ``weights: FILE`` reads: ``w`` and ``v``, their digest and this card."""
        values = asdict(self)
        weights = values.pop("weights")
        return {"version": 2, **weights, "digest": self.weights.digest(), "card": values}

    def sentences(self) -> list[str]:
        """What to print."""
        gain = self.gain
        scores = "with scores" if self.weights.reads_scores else "without scores"
        return [
            f"agree {scores}: weights {self.weights.digest()} fitted on {self.fitted_on:,} "
            f"questions; on {self.held_out:,} held out the calibration error where it stops is "
            f"{self.calibration_error:.3f}",
            f"agree {scores} at tau {self.tau:g}: {100 * self.accuracy:.1f} % with "
            f"{self.rounds_drawn:.2f} rounds; chain_asc at {THRESHOLD:g}: "
            f"{100 * self.chain_asc_accuracy:.1f} % with {self.chain_asc_rounds:.2f}; gain "
            f"{100 * gain.value:+.1f} points [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]",
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementTraining:
    """Weights with scores and without, and which of the two to use."""

    without: AgreementCard
    with_scores: AgreementCard | None
    """None where no completion has a score."""
    score_gain: Interval | None
    """Accuracy with scores minus without, at the tau of each, on the same held-out questions."""
    score_rounds: Interval | None
    """Rounds drawn with scores minus without."""

    @property
    def recommended(self) -> AgreementCard:
        """With scores only where the 95 % interval says that they gain accuracy, or where they lose
        none and the interval says that they save rounds."""
        gain, rounds = self.score_gain, self.score_rounds
        if self.with_scores is None or gain is None or rounds is None:
            return self.without
        pays = gain.low > 0 or (gain.value >= 0 and rounds.high < 0)
        return self.with_scores if pays else self.without

    def sentences(self) -> list[str]:
        """What to print."""
        if self.with_scores is None or self.score_gain is None or self.score_rounds is None:
            return [*self.without.sentences(), "agree: no completion has a score"]
        gain, rounds = self.score_gain, self.score_rounds
        verdict = "use them" if self.recommended is self.with_scores else "leave them out"
        return [
            *self.without.sentences(),
            *self.with_scores.sentences(),
            f"agree: scores gain {100 * gain.value:+.1f} points "
            f"[{100 * gain.low:+.1f}, {100 * gain.high:+.1f}] and {rounds.value:+.2f} rounds "
            f"[{rounds.low:+.2f}, {rounds.high:+.2f}] on held-out questions: {verdict}",
        ]


def train_agreement(pool: CompletionPool, *, seed: int = 0) -> AgreementTraining:
    """Fit on the training questions of a pool, judge on those held out.

    Args:
        pool: graded, with chains.
        seed: of the split and of the bootstrap.

    Raises:
        ConfigError: where the pool has no chains, or too few graded ones to fit or to judge on.
    """
    chains = chain_arrays(pool)
    parts = parts_of([(q.key, q.question.text) for q in pool.questions], seed=seed)
    training_Q = np.array([part is not Part.HELD_OUT for part in parts])
    trainer = _Trainer(pool, chains, training_Q, seed)
    without, right_Q, drawn_Q = trainer.card(scores=False)
    if np.isnan(chains.score_QT).all():
        return AgreementTraining(
            without=without, with_scores=None, score_gain=None, score_rounds=None
        )
    with_scores, scored_Q, scored_drawn_Q = trainer.card(scores=True)
    rows = np.flatnonzero(~training_Q & ~np.isnan(right_Q) & ~np.isnan(scored_Q))
    return AgreementTraining(
        without=without,
        with_scores=with_scores,
        score_gain=difference(scored_Q[rows] - right_Q[rows]),
        score_rounds=mean_interval((scored_drawn_Q[rows] - drawn_Q[rows]).astype(np.float64)),
    )


class _Trainer:
    """Fits on some questions of a pool and judges on the others."""

    def __init__(
        self, pool: CompletionPool, chains: ChainArrays, training_Q: BoolArray, seed: int
    ) -> None:
        self._pool, self._chains, self._training_Q, self._seed = pool, chains, training_Q, seed
        self._replay = FastReplay(chains)
        self._fitted_Q = training_Q & chains.graded_QT.any(axis=1)

    def card(self, *, scores: bool) -> tuple[AgreementCard, FloatArray, IntArray]:
        """The card of weights, which questions they answer rightly (nan: not graded), and the
        rounds drawn."""
        chains, n = self._chains, self._chains.n_rounds
        fitted = np.flatnonzero(self._fitted_Q).tolist()
        texts = [self._pool.questions[q].question.text for q in fitted]
        weights = replace(
            fitted_on_chains(chains, self._fitted_Q, scores=scores),
            fitted_on=posixpath.basename(self._pool.address.rstrip("/")),
            origin=self._pool.science.origin(texts),
        )
        asc_right, asc_drawn = self._judged(ChainASC(n=n, threshold=THRESHOLD))
        tau = self._tau(weights, float(asc_drawn[self._training_Q].mean()))
        strategy = Agree(n=n, tau=tau, vote_threshold=1.0, weights=weights)
        right, drawn = self._judged(strategy)
        judged_Q = ~self._training_Q & ~np.isnan(right) & ~np.isnan(asc_right)
        rows = np.flatnonzero(judged_Q)
        if not len(rows):
            raise ConfigError(
                f"weights of agree must be judged on graded questions, of "
                f"{(~self._training_Q).sum()} held out none is"
            )
        believed = believed_at_stop(chains, weights, drawn, rows)
        some = ~np.isnan(believed)
        if not some.any():
            raise ConfigError("weights of agree must be judged on answers, got none held out")
        found = AgreementCard(
            weights=weights,
            rounds=n,
            fitted_on=len(fitted),
            held_out=len(rows),
            calibration_error=reliability(believed[some], right[rows][some] == 1).ece,
            tau=tau,
            accuracy=float(right[rows].mean()),
            rounds_drawn=float(drawn[rows].mean()),
            chain_asc_accuracy=float(asc_right[rows].mean()),
            chain_asc_rounds=float(asc_drawn[rows].mean()),
            gain=difference(right[rows] - asc_right[rows]),
        )
        return found, right, drawn

    def _judged(self, strategy: ChainASC | Agree) -> tuple[FloatArray, IntArray]:
        """1 where a question's vote is right, 0 where it is wrong, nan where it is not graded; and
        the completions that were drawn."""
        judged = judged_by_arrays(self._chains, self._replay.decide(strategy))
        return rights(judged, AnswerRule.VOTE), judged.completions_Q

    def _tau(self, weights: AgreementWeights, most_rounds: float) -> float:
        """The most accurate threshold within a mean number of rounds; of equals the lowest."""
        at, found = self._training_Q, []
        for tau in _TAUS:
            strategy = Agree(n=self._chains.n_rounds, tau=tau, vote_threshold=1.0, weights=weights)
            right, drawn = self._judged(strategy)
            if drawn[at].mean() <= most_rounds:
                found.append((-float(right[at & ~np.isnan(right)].mean()), tau))
        return min(found)[1] if found else _TAUS[0]


def believed_at_stop(
    chains: ChainArrays, weights: AgreementWeights, drawn_Q: IntArray, rows: IntArray
) -> FloatArray:
    """P(the leading answer is right) when each of some chains stopped; nan where none leads."""
    last = np.maximum(drawn_Q[rows] - 1, 0)
    found = agreement(chains.form_QT[rows], chains.score_QT[rows], weights)
    at = np.arange(len(rows))
    leads = found.leading_QT[at, last] != NO_FORM
    return np.where(leads, found.probability_QT[at, last], np.nan)


def fitted_on_chains(
    chains: ChainArrays, at_Q: BoolArray, *, scores: bool = True
) -> AgreementWeights:
    """`fit_agreement` on some chains of a pool, by what of them is graded."""
    return fit_agreement(
        chains.form_QT[at_Q],
        chains.score_QT[at_Q],
        chains.verdict_QT[at_Q] == RIGHT,
        chains.length_Q[at_Q],
        chains.graded_QT[at_Q],
        scores=scores,
    )
