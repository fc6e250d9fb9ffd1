"""Chains whose changes die out: S by the round, U by the run of equal verdicts, RU by question too.

=====  ============================================  ==========================================
model  right -> wrong, wrong -> right                r, u, z
=====  ============================================  ==========================================
H      a, b                                          the paper's chain
S      a rho^r, b rho^r                              r = the round that is left
U      a q^(u-1), b q^(u-1)                          u = rounds since the verdict changed, from 1
RU     logit a_z = logit a - s z, logit b_z =        z ~ N(0, 1), one a question; the chance of a
       logit b + s z, both times q^(u-1)             right first answer rises with z too
=====  ============================================  ==========================================

`kept` is rho or q, in (0, 1]; 1 is the homogeneous chain of `pipeline.theory.markov`. With
s = a + b, L = b / s and (s; rho)_r = prod_{i<r} (1 - s rho^i), docs/math.md derives

    S: p_r = L + (p0 - L) (s; rho)_r                       limit between p0 and L
    U: limit (1 - A) (p0 + (1 - p0) B) / (1 - A B)         A = 1 - (a; q)_inf, B = 1 - (b; q)_inf

Axes: Q questions, T rounds, D draws, X the two states (right, wrong), K values of r or u - 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from pipeline.core.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:  # it imports scipy, which a verb's --help must not
    from pipeline.statistics.intervals import Interval

Chains = Sequence[Sequence[float | None]] | FloatArray
"""Labels by round of each question, or a matrix of 1, 0 and nan."""

By = Literal["round", "run"]
"""What the chance of a change falls with: the round (S) or the run of equal verdicts (U)."""

_STEPS = 60
_SLOW = 0.999
_DIGITS = 39.0  # factors nearer to 1 than exp(-39) change nothing


def remaining(s: float, kept: float) -> float:
    """(s; kept)_inf = prod_{i>=0} (1 - s kept^i): the share of the distance to L that is never
    covered; 0 where `kept` is 1 and s > 0. Above 0.999 by Euler and Maclaurin's formula."""
    if s == 0 or kept >= 1 or (kept > _SLOW and s >= 1):
        return float(s == 0)
    decay = -math.log(kept)
    if kept > _SLOW:
        from scipy.special import spence  # here, since a verb's --help imports this module

        return math.exp(-float(spence(1 - s)) / decay + math.log1p(-s) / 2)
    terms = max(1, math.ceil((math.log(s) + _DIGITS) / decay))
    return float(np.prod(1 - s * kept ** np.arange(terms)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """A chain whose changes die out.

    Raises:
        ValueError: unless a and b are in [0, 1] and `kept` in (0, 1].
    """

    a: float
    """P(right -> wrong) from round 0, or from a fresh right answer."""
    b: float
    """P(wrong -> right) there."""
    kept: float
    """Factor on both a round (rho) or an equal verdict (q)."""
    by: By = "run"

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in [0, 1], got {getattr(self, name)!r}")
        if not 0 < self.kept <= 1:
            raise ValueError(f"kept must be in (0, 1], got {self.kept!r}")

    def curve(self, p0: float, rounds: int) -> list[float]:
        """p_0, ..., p_{rounds - 1}: the chance of a right answer by round."""
        if self.by == "run":
            return self._run_curve(p0, rounds)
        total, p, size = self.a + self.b, p0, 1.0
        curve = []
        for _ in range(rounds):
            curve.append(p)
            p += size * (self.b - total * p)
            size *= self.kept
        return curve

    def limit(self, p0: float) -> float:
        """Accuracy at which the chain freezes: L_S or L_U; p0 where nothing ever changes, 1/2 for
        a = b = 1, which swings for ever."""
        total = self.a + self.b
        if total == 0:
            return p0
        if self.by == "round" or self.kept == 1:
            return self.b / total + (p0 - self.b / total) * remaining(total, self.kept)
        stays, mends = remaining(self.a, self.kept), 1 - remaining(self.b, self.kept)
        ever = 1 - (1 - stays) * mends
        return stays * (p0 + (1 - p0) * mends) / ever if ever > 0 else 0.5

    def gain(self, p: float, since: int) -> float:
        """What one more round adds where the answer is right with chance `p`.

        Args:
            p: in [0, 1].
            since: rounds drawn after the first (S: r), or rounds that the answer is unchanged,
                from 1 (U: u).

        b - (a + b) p has the sign that the paper's gate tests; `kept` only shrinks it.
        """
        power = since if self.by == "round" else since - 1
        return float(self.kept**power * (self.b - (self.a + self.b) * p))

    def _run_curve(self, p0: float, rounds: int) -> list[float]:
        chance_XU = np.zeros((2, max(rounds, 1)))  # by state and run
        chance_XU[:, 0] = p0, 1 - p0
        leave_XU = np.outer([self.a, self.b], self.kept ** np.arange(max(rounds, 1)))
        curve = [p0]
        for _ in range(rounds - 1):
            left_XU = chance_XU * leave_XU
            chance_XU[:, 1:] = (chance_XU - left_XU)[:, :-1]
            chance_XU[:, 0] = left_XU.sum(axis=1)[::-1]
            curve.append(float(chance_XU[0].sum()))
        return curve[:rounds]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Transitions of questions by state and by r or u - 1: all that S and U are fitted from."""

    trials_QXK: FloatArray
    changed_QXK: FloatArray
    """Of `trials_QXK` those that changed the verdict."""

    def of(self, at: BoolArray) -> Changes:
        """Of some questions."""
        return Changes(trials_QXK=self.trials_QXK[at], changed_QXK=self.changed_QXK[at])


def changes(
    chains: Chains,
    by: By,
    *,
    first: int = 0,
    last: int | None = None,
) -> Changes:
    """Count the transitions of chains.

    Args:
        chains: labels by round; a matrix has 1, 0 and nan.
        by: see `By`. An unknown label ends a run: the next known one is fresh.
        first: the first round that is left.
        last: the last round that is left; None for all.
    """
    right_QT = label_matrix(chains)
    questions, rounds = right_QT.shape
    stop = rounds - 1 if last is None else min(last + 1, rounds - 1)
    trials = np.zeros((questions, 2, max(rounds - 1, 1)))
    changed = np.zeros_like(trials)
    run_Q = np.ones(questions, np.int64)
    rows = np.arange(questions)
    for r in range(stop):
        now, then = right_QT[:, r], right_QT[:, r + 1]
        known = ~np.isnan(now) & ~np.isnan(then)
        moved = known & (now != then)
        if r >= first:
            at = run_Q - 1 if by == "run" else np.full(questions, r)
            state = np.where(now == 1, 0, 1)
            trials[rows[known], state[known], at[known]] += 1
            changed[rows[moved], state[moved], at[moved]] += 1
        run_Q = np.where(known & ~moved, run_Q + 1, 1)
    return Changes(trials_QXK=trials, changed_QXK=changed)


def label_matrix(chains: Chains) -> FloatArray:
    """(Q, T): 1 right, 0 wrong, nan unknown, from labels of any length."""
    if isinstance(chains, np.ndarray):
        return chains
    matrix = np.full((len(chains), max(map(len, chains), default=0)), np.nan)
    for row, chain in zip(matrix, chains, strict=True):
        row[: len(chain)] = [np.nan if label is None else label for label in chain]
    return matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlingFit:
    """A fitted chain with 95 % intervals over questions (Bayesian bootstrap)."""

    chain: Settling
    a: Interval
    b: Interval
    kept: Interval
    limit: Interval
    """Of the chain that starts at the observed accuracy of round 0."""


def fit_settling(chains: Chains, by: By, *, draws: int = 400, seed: int = 0) -> SettlingFit:
    """Fit S or U by maximum likelihood from the counts of transitions.

    Half a change and half a stay are added to each state at its first r or u, as Jeffreys' prior
    adds them to H (`settling_draws`).

    Raises:
        ValueError: where no transition is known.
    """
    from pipeline.statistics.intervals import draws_interval

    value_D3, start_D = settling_draws(chains, by, draws=draws, seed=seed)
    found = [Settling(a=a, b=b, kept=kept, by=by) for a, b, kept in value_D3.tolist()]
    limit_D = np.array([c.limit(p) for c, p in zip(found, start_D.tolist(), strict=True)])
    a, b, kept = (draws_interval(float(v[0]), v[1:]) for v in value_D3.T)
    return SettlingFit(
        chain=found[0],
        a=a,
        b=b,
        kept=kept,
        limit=draws_interval(float(limit_D[0]), limit_D[1:]),
    )


def settling_draws(
    chains: Chains, by: By, *, draws: int = 400, seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """(D, 3) a, b and kept, and (D,) p0: the fit, then draws of the Bayesian bootstrap.

    A draw weighs every question with a unit exponential, and half an observation of each kind as if
    it were as many.

    Raises:
        ValueError: where no transition is known.
    """
    right_QT = label_matrix(chains)
    counted = changes(right_QT, by)
    if not counted.trials_QXK.any():
        raise ValueError("chains must have a transition between known labels, got none")
    rng = np.random.default_rng(seed)
    weight_DQ = np.vstack([np.ones(len(right_QT)), rng.exponential(size=(draws, len(right_QT)))])
    prior_D32 = np.concatenate(
        [np.full((1, 3, 2), 0.5), rng.standard_gamma(0.5, size=(draws, 3, 2)) + 1e-6]
    )
    theta_D3 = _fitted(
        np.tensordot(weight_DQ, counted.trials_QXK, 1).astype(np.float64),
        np.tensordot(weight_DQ, counted.changed_QXK, 1).astype(np.float64),
        prior_D32[:, :2],
    )
    first_Q = right_QT[:, 0]
    known = ~np.isnan(first_Q)
    right_D = weight_DQ[:, known] @ first_Q[known] + prior_D32[:, 2, 0]
    start_D = right_D / (weight_DQ[:, known].sum(axis=1) + prior_D32[:, 2].sum(axis=1))
    return np.exp(theta_D3), start_D


def _fitted(
    trials_DXK: FloatArray,
    changed_DXK: FloatArray,
    prior_DX2: FloatArray | None = None,
    *,
    homogeneous: bool = False,
) -> FloatArray:
    """(D, 3): log a, log b, log kept of largest likelihood, by Newton's method.

    The logarithm of a hazard is linear in them, log a + k log kept, and the likelihood is concave,
    so there is one maximum; one with `kept` above 1 is moved to 1.
    """
    trials, changed = trials_DXK.copy(), changed_DXK.copy()
    prior = np.full((*trials.shape[:2], 2), 0.5) if prior_DX2 is None else prior_DX2
    trials[:, :, 0] += prior.sum(axis=2)
    changed[:, :, 0] += prior[:, :, 0]
    pooled_D2 = np.log(changed.sum(axis=2) / trials.sum(axis=2))
    theta = np.column_stack([pooled_D2, np.full(len(trials), -1e-3)])
    flat = np.column_stack([pooled_D2, np.zeros(len(trials))])
    if homogeneous or trials.shape[2] == 1:
        return flat
    k = np.arange(trials.shape[2])
    value = _likelihood(theta, trials, changed)
    for _ in range(_STEPS):
        # rounds that nobody survived leave their hazard free to pass 1
        hazard = np.exp(np.minimum(_log_hazard(theta, k), -1e-9))
        odds = (trials - changed) * hazard / (1 - hazard)
        slope_XK = changed - odds
        bend_XK = odds / (1 - hazard)
        gradient = np.column_stack([slope_XK.sum(axis=2), (slope_XK * k).sum(axis=(1, 2))])
        hessian = np.zeros((len(theta), 3, 3))
        hessian[:, 0, 0], hessian[:, 1, 1] = bend_XK[:, 0].sum(axis=1), bend_XK[:, 1].sum(axis=1)
        mixed = (bend_XK * k).sum(axis=2)
        hessian[:, 0, 2] = hessian[:, 2, 0] = mixed[:, 0]
        hessian[:, 1, 2] = hessian[:, 2, 1] = mixed[:, 1]
        hessian[:, 2, 2] = (bend_XK * k * k).sum(axis=(1, 2)) + 1e-9
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        size = np.ones(len(theta))
        for _ in range(30):  # halve until the likelihood rises
            new = theta + size[:, None] * step
            risen = _likelihood(new, trials, changed)
            worse = ~(risen >= value - 1e-9 * np.abs(value))
            if not worse.any():
                break
            size = np.where(worse, size / 2, size)
        new = np.where(worse[:, None], theta, new)
        done = np.max(np.abs(new - theta)) < 1e-7
        theta, value = new, np.where(worse, value, risen)
        if done:
            break
    return np.where(theta[:, 2:] > 0, flat, theta)


def _log_hazard(theta_D3: FloatArray, k: IntArray) -> FloatArray:
    return np.asarray(theta_D3[:, :2, None] + theta_D3[:, 2, None, None] * k)


def _likelihood(theta_D3: FloatArray, trials: FloatArray, changed: FloatArray) -> FloatArray:
    """(D,); -inf where a hazard that was survived is not below 1."""
    x = _log_hazard(theta_D3, np.arange(trials.shape[2]))
    stays = trials - changed
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_stay = np.where(x < 0, np.log(-np.expm1(np.minimum(x, 0.0))), -np.inf)
        terms = changed * x + np.where(stays > 0, stays * log_stay, 0.0)
    return np.asarray(terms.sum(axis=(1, 2)))


MODELS = ("H", "S", "U", "RU")
"""The chains that `compare_chains` compares, from the simplest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainComparison:
    """How well each chain predicts the later half of the rounds from the earlier half."""

    split: int
    """Transitions from this round on were predicted."""
    log_likelihood: dict[str, float]
    """Of the later transitions given the earlier, by `MODELS`, in nats."""
    gain: dict[str, Interval]
    """Over H, with 99 % intervals over questions."""
    over: dict[str, Interval]
    """Gain of RU over U: what one more random effect a question adds."""
    q: float
    """Of U, fitted to all rounds."""


def compare_chains(chains: Chains) -> ChainComparison | None:
    """Fit H, S, U and RU to the first half of the rounds and judge them on the second.

    Returns:
        None with fewer than 4 rounds or without transitions in both halves.
    """
    right_QT = label_matrix(chains)
    rounds = right_QT.shape[1]
    if rounds < 4:
        return None
    split = (rounds - 1) // 2
    early = {by: changes(right_QT, by, last=split - 1) for by in ("round", "run")}
    late = {by: changes(right_QT, by, first=split) for by in ("round", "run")}
    if not (early["run"].changed_QXK.any() and late["run"].trials_QXK.any()):
        return None
    of_question: dict[str, FloatArray] = {}
    for model, by in (("H", "round"), ("S", "round"), ("U", "run")):
        own = early[by]
        theta = _fitted(
            own.trials_QXK.sum(axis=0)[None],
            own.changed_QXK.sum(axis=0)[None],
            homogeneous=model == "H",
        )
        theta_Q3 = np.repeat(theta, len(right_QT), axis=0)
        of_question[model] = _likelihood(theta_Q3, late[by].trials_QXK, late[by].changed_QXK)
    mixed = fit_mixed(right_QT, early["run"])
    all_changes = changes(right_QT, "run")
    of_question["RU"] = mixed.log_likelihood(right_QT, all_changes) - mixed.log_likelihood(
        right_QT, early["run"]
    )
    theta_1 = _fitted(
        all_changes.trials_QXK.sum(axis=0)[None], all_changes.changed_QXK.sum(axis=0)[None]
    )
    return ChainComparison(
        split=split,
        log_likelihood={name: float(values.sum()) for name, values in of_question.items()},
        gain={name: _sum_of(of_question[name] - of_question["H"]) for name in MODELS[1:]},
        over={"RU": _sum_of(of_question["RU"] - of_question["U"])},
        q=float(np.exp(theta_1[0, 2])),
    )


def _sum_of(value_Q: FloatArray) -> Interval:
    from pipeline.statistics.intervals import Interval

    half = 2.576 * float(np.sqrt(len(value_Q) * np.var(value_Q, ddof=1)))
    total = float(value_Q.sum())
    return Interval(value=total, low=total - half, high=total + half, level=0.99)


_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_LOG_NODE_WEIGHTS = np.log(_NODE_WEIGHTS / _NODE_WEIGHTS.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedSettling:
    """RU: a, b and p0 of a question move together with its z, and changes die out by the run.

    A question's chance of being right at first is expit(first + first_spread z).
    """

    logit_a: float
    logit_b: float
    spread: float
    """s: deviation of both logits between questions."""
    first: float
    first_spread: float
    kept: float

    def log_likelihood(self, right_QT: FloatArray, counted: Changes) -> FloatArray:
        """(Q,): of what was counted, given the first answer, z integrated out (15 nodes)."""
        start_QZ = self._start(right_QT)
        return _log_mean(start_QZ + self._moves(counted)) - _log_mean(start_QZ)

    def joint(self, right_QT: FloatArray, counted: Changes) -> float:
        """Of the first answers and what was counted."""
        return float(_log_mean(self._start(right_QT) + self._moves(counted)).sum())

    def curve(self, rounds: int) -> FloatArray:
        """(rounds,): mean accuracy of other questions."""
        p_Z = _expit(self.first + self.first_spread * _NODES)
        curves = np.array(
            [
                Settling(a=a, b=b, kept=self.kept).curve(p, rounds)
                for a, b, p in zip(*self._hazards(), p_Z.tolist(), strict=True)
            ]
        )
        return np.asarray(np.exp(_LOG_NODE_WEIGHTS) @ curves)

    def _hazards(self) -> tuple[list[float], list[float]]:
        return (
            _expit(self.logit_a - self.spread * _NODES).tolist(),
            _expit(self.logit_b + self.spread * _NODES).tolist(),
        )

    def _start(self, right_QT: FloatArray) -> FloatArray:
        x_Z = self.first + self.first_spread * _NODES
        first_Q = right_QT[:, :1]
        log_first = np.where(first_Q == 1, -np.logaddexp(0, -x_Z), -np.logaddexp(0, x_Z))
        return np.where(np.isnan(first_Q), 0.0, log_first)

    def _moves(self, counted: Changes) -> FloatArray:
        k = np.arange(counted.trials_QXK.shape[2])
        total = np.zeros((len(counted.trials_QXK), len(_NODES)))
        for state, hazard in enumerate(self._hazards()):
            log_Z = np.log(np.clip(hazard, 1e-12, 1 - 1e-9))
            changed, trials = counted.changed_QXK[:, state], counted.trials_QXK[:, state]
            log_KZ = log_Z + k[:, None] * math.log(self.kept)
            total += changed @ log_KZ + (trials - changed) @ np.log(-np.expm1(log_KZ))
        return total


def fit_mixed(right_QT: FloatArray, counted: Changes) -> MixedSettling:
    """Fit RU by maximum likelihood to first answers and the transitions counted by run."""
    from scipy.optimize import minimize  # here, since a verb's --help imports this module

    used = counted.trials_QXK.any(axis=(0, 1))
    last = int(np.flatnonzero(used)[-1]) + 1 if used.any() else 1
    short = Changes(
        trials_QXK=counted.trials_QXK[:, :, :last], changed_QXK=counted.changed_QXK[:, :, :last]
    )
    log_a, log_b, log_persistence = _fitted(
        short.trials_QXK.sum(axis=0)[None], short.changed_QXK.sum(axis=0)[None]
    )[0]
    first = float(np.clip(np.nanmean(right_QT[:, 0]), 0.02, 0.98))
    start = [
        _logit(math.exp(log_a)),
        _logit(math.exp(log_b)),
        0.5,
        _logit(first),
        0.5,
        _logit(min(math.exp(log_persistence), 0.98)),
    ]

    def made(theta: FloatArray) -> MixedSettling:
        return MixedSettling(
            logit_a=float(theta[0]),
            logit_b=float(theta[1]),
            spread=float(theta[2]),
            first=float(theta[3]),
            first_spread=float(theta[4]),
            kept=float(_expit(theta[5])),
        )

    found = minimize(
        lambda theta: -made(theta).joint(right_QT, short) + 0.5 * float(theta @ theta) / 25,
        np.array(start),
        method="L-BFGS-B",
        bounds=[(-12, 12), (-12, 12), (-8, 8), (-12, 12), (-12, 12), (-8, 12)],
        options={"ftol": 1e-7, "maxiter": 60},
    )
    return made(found.x)


def _log_mean(value_QZ: FloatArray) -> FloatArray:
    weighed = value_QZ + _LOG_NODE_WEIGHTS
    top = weighed.max(axis=1)
    return np.asarray(top + np.log(np.exp(weighed - top[:, None]).sum(axis=1)))


def _expit(x: FloatArray | float) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -60, 60))))


def _logit(p: float) -> float:
    p = min(max(p, 1e-6), 1 - 1e-6)
    return math.log(p / (1 - p))
