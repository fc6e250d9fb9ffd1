"""Replay of the sequential family over a whole pool at once, in numpy.

Decides what `pipeline.replay.exact` decides for every `ChainStrategy`, a user's own among them, and
for `chain_asc` and `agree`, from the same numbers by the same arithmetic in the same order, so that
not even rounding differs; tests compare the two outcome by outcome. A strategy's generator is the
definition: where the two should differ, this is wrong.

Axes: Q questions, T rounds of the pool, N = n rounds of a strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from pipeline.answers.answer_rules import AnswerRule, Rule
from pipeline.core.arrays import BoolArray, FloatArray, IntArray
from pipeline.core.errors import ConfigError, DataError, ProtocolError
from pipeline.core.protocol import PhaseStats, Question, StopReason, Strategy
from pipeline.replay.chain_arrays import NOT_APPLICABLE, ChainArrays
from pipeline.statistics.agreement import (
    NO_FORM,
    VOTE,
    Agreement,
    agreement,
    count_votes,
    recent_leader,
    runs,
)
from pipeline.statistics.calibration_maps import CalibrationMap
from pipeline.strategies.chain_agreement import NO_STOP_FLAG, Agree, ChainASC, Settled
from pipeline.strategies.expected_agreement import ChainExpectedAgreement
from pipeline.strategies.markovscale import WarmUp
from pipeline.strategies.sequential import ChainSettings, ChainStrategy, MRThinking
from pipeline.theory.expected_agreement import first_stop
from pipeline.theory.markov import stationary_accuracy
from pipeline.theory.settling import Settling
from pipeline.theory.stopping import eq12_holds_QN, left_of_eq12

VOTERS = (ChainASC, Agree, Settled, ChainExpectedAgreement)
"""Other chains that are replayed as arrays; a derived class may decide otherwise."""

REASONS = (
    StopReason.FAILED,
    StopReason.GATED,
    StopReason.CONFIDENT,
    StopReason.AGREED,
    StopReason.BUDGET,
)
"""What a chain can stop for, in the order in which it is tested; codes are positions here."""

_NEVER = np.iinfo(np.int64).max
_SHARED = attrgetter(
    *("n", "gate", "stopping", "min_rounds", "tau", "sigma", "gamma", "kept", "price"),
    *("value_of_right_usd", "usd_per_million"),
)
_KEPT = 64  # intermediate arrays held at once, of Q x T numbers each
_TOLERANCE = 1e-12

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """How every question stopped."""

    drawn_Q: IntArray
    """Completions that the answer rests on: those drawn, without a failed last request."""
    reason_Q: IntArray
    """Positions in `REASONS`."""
    position_RQ: dict[Rule, IntArray] | None = None
    """Round that each rule takes the answer from, where the stop rests on some rounds alone."""

    @property
    def failed_Q(self) -> BoolArray:
        """Whether the chain ended with a request that could not be served."""
        return np.asarray(self.reason_Q == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beliefs:
    """What a strategy believes of each question when it starts; nan where nothing."""

    p0_Q: FloatArray
    a_Q: FloatArray
    b_Q: FloatArray
    alpha_Q: FloatArray
    beta_Q: FloatArray
    """The prior where the settings give one, else p0 and gamma make it."""
    first_score_Q: BoolArray
    """Whether p0 is the score of round 0."""

    @classmethod
    def of(cls, settings_Q: Sequence[ChainSettings]) -> _Beliefs:
        """What the settings of all questions say."""
        priors_Q = [each.prior for each in settings_Q]
        return cls(
            p0_Q=_array([each.p0 for each in settings_Q]),
            a_Q=_array([each.a for each in settings_Q]),
            b_Q=_array([each.b for each in settings_Q]),
            alpha_Q=_array([None if prior is None else prior.alpha for prior in priors_Q]),
            beta_Q=_array([None if prior is None else prior.beta for prior in priors_Q]),
            first_score_Q=np.array([each.p0_source == "first_score" for each in settings_Q]),
        )

    @property
    def key(self) -> Hashable:
        """Equal beliefs have equal keys."""
        return tuple(getattr(self, each.name).tobytes() for each in fields(self))


def replays_as_arrays(strategy: Strategy) -> bool:
    """Whether `FastReplay` can replay a strategy: chains whose decisions all follow from their
    settings, after a warm-up at most."""
    if type(strategy) in VOTERS:
        return True
    if not isinstance(strategy, ChainStrategy):
        return False
    if isinstance(strategy, MRThinking) and strategy.chain:
        return False  # the arrays hold the first chain of each question
    *before, last = strategy.phases()
    own = (type(strategy).decide, type(strategy).prepare)
    return (
        own == (ChainStrategy.decide, Strategy.prepare)
        and last.strategy is strategy
        and all(type(phase) is WarmUp for phase in before)
    )


@dataclass(frozen=True, slots=True)
class FastReplay:
    """Replays strategies over the chains of a pool; keeps what settings share."""

    chains: ChainArrays
    _kept: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def decide(self, strategy: Strategy) -> Decisions:
        """Replay one strategy over all questions.

        Raises:
            ConfigError: where the strategy is of another family, needs more rounds than the pool
                has, or lacks a prior.
            DataError: where it needs scores that were not recorded.
        """
        if not replays_as_arrays(strategy):
            raise ConfigError(
                f"only chains that decide by their settings are replayed as arrays, got "
                f"{strategy.kind}: use pipeline.replay.exact"
            )
        if strategy.n > self.chains.n_rounds:
            raise ConfigError(
                f"n must be at most {self.chains.n_rounds}, the rounds of the pool, "
                f"got {strategy.n}"
            )
        if isinstance(strategy, ChainASC | Agree):
            return self._voted(strategy)
        if isinstance(strategy, Settled):
            return self._settled(strategy)
        if isinstance(strategy, ChainExpectedAgreement):
            return self._expected(strategy)
        assert isinstance(strategy, ChainStrategy)  # by `replays_as_arrays`
        known = self._statistics(strategy)

        def settings(questions: Sequence[Question]) -> list[ChainSettings]:
            return [strategy.settings(q, known.get(q.benchmark)) for q in questions]

        names = vars(type(strategy)).get("belief_fields")  # of this class, which has its `settings`
        if names is not None:
            of_benchmarks = ((name, each.a, each.b) for name, each in known.items())
            key = (type(strategy), *(getattr(strategy, name) for name in names), *of_benchmarks)
            beliefs = self._keep(key, lambda: _Beliefs.of(settings(self.chains.question_Q)))
            if len(set(beliefs.first_score_Q.tolist())) > 1:
                raise ConfigError(
                    "p0 must be known of every question or of none, got a mixture: set p0_source"
                )
            (first,) = settings(self.chains.question_Q[:1])
            return self._calibrated(first.calibration)._chained(first, beliefs)
        settings_Q = settings(self.chains.question_Q)
        beliefs = _Beliefs.of(settings_Q)
        shared = [(*_SHARED(each), id(each.calibration)) for each in settings_Q]
        found = {
            key: self._calibrated(each.calibration)._chained(each, beliefs)
            for key, each in dict(zip(shared, settings_Q, strict=True)).items()
        }
        if len(found) == 1:
            return next(iter(found.values()))
        own = [(found[key], q) for q, key in enumerate(shared)]
        return Decisions(
            drawn_Q=np.array([decided.drawn_Q[q] for decided, q in own]),
            reason_Q=np.array([decided.reason_Q[q] for decided, q in own]),
        )

    def _chained(self, settings: ChainSettings, beliefs: _Beliefs) -> Decisions:
        """How every question stops under the settings of one."""
        gated = confident = np.full_like(self.chains.length_Q, _NEVER)
        if settings.stopping:
            self._check_scores(settings.n, np.ones_like(beliefs.first_score_Q))
            hits_QN = self._confident(settings, beliefs)
            if settings.value_of_right_usd is not None:
                hits_QN = hits_QN | self._not_worth(settings, beliefs)
            hits_QN[:, : settings.min_rounds - 1] = False
            confident = np.where(hits_QN.any(axis=1), hits_QN.argmax(axis=1), _NEVER)
        if settings.gate:
            self._check_scores(settings.n, beliefs.first_score_Q)
            gated = np.where(self._gated(settings, beliefs), settings.min_rounds - 1, _NEVER)
        return self._stopped(settings.n, gated=gated, confident=confident)

    def _calibrated(self, calibration: CalibrationMap | None) -> FastReplay:
        """The replay over mapped scores: decisions read nothing else of a score."""
        if calibration is None:
            return self
        return self._keep(
            ("calibrated", calibration), lambda: FastReplay(_mapped(self.chains, calibration))
        )

    def _voted(self, strategy: ChainASC | Agree) -> Decisions:
        """Decide by the votes and probabilities that the strategies themselves compute, which do
        not depend on other questions or later rounds."""
        form_QT = self.chains.form_QT
        voted_QT = self._keep("voted", lambda: np.cumsum(form_QT != NO_FORM, axis=1) > 0)
        lasts_QT = self._keep("lasts", lambda: count_votes(form_QT).lasts_QT)
        if isinstance(strategy, ChainASC):
            agreed_Q = _first(voted_QT & (lasts_QT >= strategy.threshold))
            return self._stopped(strategy.n, agreed=agreed_Q)
        weights = strategy.weights or VOTE
        found: Agreement = self._keep(
            ("agreement", weights), lambda: agreement(form_QT, self.chains.score_QT, weights)
        )
        agreed_QT = lasts_QT >= strategy.vote_threshold
        if strategy.repeat is not None:
            agreed_QT = agreed_QT | (self._runs() >= strategy.repeat)
        tests = {"agreed": _first(voted_QT & agreed_QT)}
        if strategy.weights is not None:
            tests["confident"] = _first(voted_QT & (found.probability_QT >= strategy.tau))
        decided = self._stopped(strategy.n, **tests)
        return replace(decided, position_RQ=self._positions(found.leading_QT, decided.drawn_Q))

    def _runs(self) -> IntArray:
        return self._keep("runs", lambda: runs(self.chains.form_QT))

    def _elected(self, decided: Decisions, discount: float) -> Decisions:
        """Read by the discounted vote."""
        form_QT = self.chains.form_QT
        leading_QT = self._keep(("recent", discount), lambda: recent_leader(form_QT, discount))
        return replace(decided, position_RQ=self._positions(leading_QT, decided.drawn_Q))

    def _settled(self, strategy: Settled) -> Decisions:
        chains, tests = self.chains, dict[str, IntArray]()
        late_QT = (chains.form_QT != NO_FORM) & (
            np.arange(chains.n_rounds) >= strategy.min_rounds - 1
        )
        if strategy.score_at_least is not None:
            self._check_scores(strategy.n, np.ones(len(late_QT), np.bool_))
            tests["confident"] = _first(late_QT & (chains.score_QT >= strategy.score_at_least))
        if strategy.stop_flag:
            flag_QT = chains.says_stop_QT
            drawn_QN = np.arange(strategy.n) < chains.length_Q[:, None]
            if (drawn_QN & (flag_QT[:, : strategy.n] < 0)).any():
                raise DataError(NO_STOP_FLAG)
            said_Q = _first(late_QT & (flag_QT == 1))
            tests["confident"] = np.minimum(said_Q, tests.get("confident", said_Q))
        if strategy.repeat is not None:
            tests["agreed"] = _first(late_QT & (self._runs() >= strategy.repeat))
        return self._elected(self._stopped(strategy.n, **tests), strategy.discount)

    def _expected(self, strategy: ChainExpectedAgreement) -> Decisions:
        n, price, alpha = strategy.n, strategy.price, strategy.alpha
        drawn_Q = self._keep(
            ("expected", n, price, alpha),
            lambda: first_stop(self.chains.form_QT, n, price, alpha),
        )
        agreed_Q = np.where(drawn_Q < n, drawn_Q - 1, _NEVER)
        decided = self._stopped(n, agreed=agreed_Q)
        return decided if strategy.discount == 1.0 else self._elected(decided, strategy.discount)

    def _stopped(self, n: int, **first_Q: IntArray) -> Decisions:
        """The earliest of the rounds after which each test holds first, by reason."""
        failed = np.where(self.chains.failed_Q, self.chains.length_Q, _NEVER)
        never = np.full_like(failed, _NEVER)
        tests = [first_Q.get(name, never) for name in ("gated", "confident", "agreed")]
        rounds = np.stack([failed, *tests, np.full_like(failed, n - 1)])
        reason_Q = rounds.argmin(axis=0)  # the first of equals, as REASONS are ordered
        last_Q = rounds.min(axis=0)
        return Decisions(drawn_Q=np.where(reason_Q == 0, last_Q, last_Q + 1), reason_Q=reason_Q)

    def _positions(self, leading_QT: IntArray, drawn_Q: IntArray) -> dict[Rule, IntArray]:
        """The round that each shipped rule answers from: of those that gave the leading answer."""
        chains, rows = self.chains, np.arange(len(drawn_Q))
        last_Q = np.maximum(drawn_Q - 1, 0)
        leading_Q = leading_QT[rows, last_Q]
        rounds = np.arange(chains.n_rounds)
        ours_QT = (chains.form_QT == leading_Q[:, None]) & (rounds < drawn_Q[:, None])
        scored_QT = ours_QT & ~np.isnan(chains.score_QT)
        best_QT = np.where(scored_QT, chains.score_QT, -1.0)
        unscored_Q = ~scored_QT.any(axis=1)
        chosen: dict[Rule, IntArray] = {
            AnswerRule.LAST: chains.n_rounds - 1 - ours_QT[:, ::-1].argmax(axis=1),
            AnswerRule.VOTE: ours_QT.argmax(axis=1),
            AnswerRule.PRM_ARGMAX: np.where(unscored_Q, NOT_APPLICABLE, best_QT.argmax(axis=1)),
            AnswerRule.PRM_WEIGHTED_VOTE: np.where(
                unscored_Q, NOT_APPLICABLE, scored_QT.argmax(axis=1)
            ),
        }
        scored_QT = ours_QT & chains.logprobs_QT
        first_scored_Q = np.where(scored_QT.any(axis=1), scored_QT.argmax(axis=1), NOT_APPLICABLE)
        chosen |= {rule: first_scored_Q for rule in AnswerRule if rule.needs_logprobs}
        none_Q = (leading_Q == NO_FORM) | (drawn_Q == 0)  # the stop rests on all rounds there
        return {
            rule: np.where(none_Q, chains.position_QD[rule][rows, drawn_Q], position_Q)
            for rule, position_Q in chosen.items()
        }

    def _statistics(self, strategy: ChainStrategy) -> Mapping[str, PhaseStats]:
        """What a warm-up learns, by benchmark (`WarmUp.fold`)."""
        for phase in strategy.phases()[:-1]:
            assert isinstance(phase, WarmUp)  # by `replays_as_arrays`
            key = ("statistics", phase.strategy.n, phase.right_from)
            replay = self._calibrated(phase.calibration)
            return replay._keep(key, partial(replay._counted, phase.strategy.n, phase.right_from))
        return {}

    def _counted(self, warm_up: int, right_from: float) -> dict[str, PhaseStats]:
        score_QN = self.chains.score_QT[:, :warm_up]
        known, right = ~np.isnan(score_QN), score_QN >= right_from
        both = known[:, :-1] & known[:, 1:]
        before, after = right[:, :-1], right[:, 1:]
        benchmark_Q = np.array([q.benchmark for q in self.chains.question_Q])
        counted = {}
        for benchmark in dict.fromkeys(benchmark_Q.tolist()):
            of = (benchmark_Q == benchmark)[:, None] & both
            from_right, from_wrong = int(np.sum(of & before)), int(np.sum(of & ~before))
            counted[benchmark] = PhaseStats(
                a=(int(np.sum(of & before & ~after)) + 0.5) / (from_right + 1.0),
                b=(int(np.sum(of & ~before & after)) + 0.5) / (from_wrong + 1.0),
                labels="score",
            )
        return counted

    def _gated(self, settings: ChainSettings, beliefs: _Beliefs) -> BoolArray:
        """Theorem 1, as `pipeline.theory.markov.regime` decides it."""
        p0_Q = np.where(beliefs.first_score_Q, self.chains.score_QT[:, 0], beliefs.p0_Q)
        _check_known("gate", beliefs, beliefs.first_score_Q | ~np.isnan(beliefs.p0_Q))
        if settings.kept is None:
            limit_Q = np.asarray(stationary_accuracy(beliefs.a_Q, beliefs.b_Q))
        else:
            kept = settings.kept
            each = zip(beliefs.a_Q.tolist(), beliefs.b_Q.tolist(), p0_Q.tolist(), strict=True)
            limit_Q = self._keep(
                ("limit", beliefs.key, kept),
                lambda: np.array([Settling(a=a, b=b, kept=kept).limit(p0) for a, b, p0 in each]),
            )
        return np.asarray(~(limit_Q + settings.sigma - p0_Q > _TOLERANCE))  # nan, no L, is gated

    def _confident(self, settings: ChainSettings, beliefs: _Beliefs) -> BoolArray:
        """(Q, N): whether the stopping rule holds after each round."""
        made_Q = np.isnan(beliefs.alpha_Q)
        known_Q = ~made_Q | beliefs.first_score_Q | ~np.isnan(beliefs.p0_Q)
        _check_known("stopping rule", beliefs, known_Q)
        key = (beliefs.key, settings.gamma if made_Q.any() else None)
        map_QT = self._modes(beliefs, settings.gamma)
        if settings.kept is not None:
            return self._settling_hits(settings, beliefs, map_QT[:, : settings.n])
        a_Q, b_Q, n = beliefs.a_Q, beliefs.b_Q, settings.n
        left_QN = self._keep(("left", key, n), lambda: left_of_eq12(map_QT, a_Q, b_Q, n))
        return eq12_holds_QN(left_QN, map_QT[:, :n], a_Q, b_Q, settings.tau)

    def _settling_hits(
        self, settings: ChainSettings, beliefs: _Beliefs, map_QN: FloatArray
    ) -> BoolArray:
        """(Q, N): whether the belief reaches tau, or one more round is not worth its price."""
        gain_QN = self._gains(settings, beliefs, map_QN)
        return np.asarray((map_QN >= settings.tau) | (gain_QN <= settings.price))

    def _not_worth(self, settings: ChainSettings, beliefs: _Beliefs) -> BoolArray:
        """(Q, N): whether one more round is not expected to be worth what rounds have cost."""
        assert settings.usd_per_million is not None
        assert settings.value_of_right_usd is not None
        kinds = ("prompt", "cached", "completion", "verifier")
        spent = {kind: self.chains.spent_QD[kind][:, 1 : settings.n + 1] for kind in kinds}
        usd_QN = settings.usd_per_million.of(**spent) / np.arange(1, settings.n + 1)
        map_QN = self._modes(beliefs, settings.gamma)[:, : settings.n]
        gain_QN = self._gains(settings, beliefs, map_QN)
        return np.asarray(gain_QN * settings.value_of_right_usd <= usd_QN)

    def _gains(self, settings: ChainSettings, beliefs: _Beliefs, map_QN: FloatArray) -> FloatArray:
        """(Q, N): what one more round is expected to add (`Settling.gain`)."""
        total, fixed = (beliefs.a_Q + beliefs.b_Q)[:, None], beliefs.b_Q[:, None]
        gain_QN = fixed - total * map_QN
        if settings.kept is None:
            return np.asarray(gain_QN)
        power_U = np.array([settings.kept**u for u in range(settings.n)])  # as Python rounds it
        run_QN = np.maximum(self._runs()[:, : settings.n], 1)
        return np.asarray(power_U[run_QN - 1] * gain_QN)

    def _modes(self, beliefs: _Beliefs, gamma: float) -> FloatArray:
        """(Q, T): the posterior mode after each round, held for other settings."""
        key = (beliefs.key, gamma if np.isnan(beliefs.alpha_Q).any() else None)
        return self._keep(("map", key), lambda: self._posterior_modes(beliefs, gamma))

    def _posterior_modes(self, beliefs: _Beliefs, gamma: float) -> FloatArray:
        """(Q, T): Eq. 16 after each round; sums run round by round, as the updates do."""
        score_QT = self.chains.score_QT
        p0_Q = np.where(np.isnan(beliefs.p0_Q), score_QT[:, 0], beliefs.p0_Q)
        made_Q = np.isnan(beliefs.alpha_Q)
        alpha0_Q = np.where(made_Q, p0_Q * gamma, beliefs.alpha_Q)
        beta0_Q = np.where(made_Q, (1 - p0_Q) * gamma, beliefs.beta_Q)
        alpha = np.cumsum(np.column_stack([alpha0_Q, score_QT]), axis=1)[:, 1:]
        beta = np.cumsum(np.column_stack([beta0_Q, 1 - score_QT]), axis=1)[:, 1:]
        with np.errstate(divide="ignore", invalid="ignore"):  # the branch not taken
            mode, mean = (alpha - 1) / (alpha + beta - 2), alpha / (alpha + beta)
        return np.where((alpha <= 1) | (beta <= 1), mean, mode)

    def _check_scores(self, n: int, asked_Q: BoolArray) -> None:
        """Refuse rounds without a score in the questions asked for."""
        drawn_QN = np.arange(n) < self.chains.length_Q[:, None]
        missing = asked_Q[:, None] & drawn_QN & np.isnan(self.chains.score_QT[:, :n])
        if missing.any():
            q, r = np.argwhere(missing)[0]
            question = self.chains.question_Q[q]
            raise DataError(
                f"every round must carry a score, round {r} of question "
                f"{question.question_id!r} of {question.benchmark!r} has none"
            )

    def _keep(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._kept:
            while len(self._kept) >= _KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = make()
        kept: T = self._kept[key]
        return kept


def _mapped(chains: ChainArrays, calibration: CalibrationMap) -> ChainArrays:
    """The chains with calibrated scores, each by the very arithmetic of the map."""
    scores, where_QT = np.unique(chains.score_QT, return_inverse=True)
    values = np.array([calibration(score) for score in scores.tolist()])
    known_QT = ~np.isnan(chains.score_QT)
    score_QT = np.where(known_QT, values[where_QT.reshape(known_QT.shape)], np.nan)
    return replace(chains, score_QT=score_QT)


def _check_known(what: str, beliefs: _Beliefs, known_Q: BoolArray) -> None:
    if not (known_Q & ~np.isnan(beliefs.a_Q) & ~np.isnan(beliefs.b_Q)).all():
        raise ProtocolError(f"the {what} needs p0, a and b")


def _first(holds_QT: BoolArray) -> IntArray:
    return np.where(holds_QT.any(axis=1), holds_QT.argmax(axis=1), _NEVER)


def _array(values: list[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values])
