"""The array path decides what the state machine decides, outcome by outcome."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.answers.answer_rules import AnswerRule, apply
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.prices import Prices
from pipeline.core.protocol import (
    Completion,
    PhaseStats,
    Priors,
    Question,
    Stop,
    StopReason,
    Strategy,
)
from pipeline.replay.chain_arrays import NO_ANSWER, NOT_APPLICABLE, chain_arrays, positions_by_depth
from pipeline.replay.exact import Replayed, replay_phases
from pipeline.replay.fast import REASONS, FastReplay
from pipeline.replay.judging import judged_by_state_machine
from pipeline.replay.pools import CompletionPool
from pipeline.statistics.agreement import AgreementWeights
from pipeline.statistics.calibration_maps import IsotonicMap, PlattMap
from pipeline.strategies import STRATEGIES
from pipeline.strategies.chain_agreement import Settled
from pipeline.strategies.markovscale import MarkovScale0, MarkovScaleStar, MarkovScaleT
from pipeline.strategies.self_consistency import EarlyStoppingSelfConsistency
from pipeline.strategies.sequential import ChainSettings, ChainStrategy, MRThinking
from pipeline.theory.posterior import BetaPosterior
from tests.generators import completion, completions_of_any_kind, question, scores
from tests.pools import pool_of, pool_question, pools

ROUNDS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class OfItsOwn(ChainStrategy):
    """A user's chain rule, whose settings depend on the question."""

    kind: ClassVar[str] = "of_its_own"
    n: int = 4
    tau: float = 0.8

    def settings(self, question: Question, statistics: PhaseStats | None = None) -> ChainSettings:
        """Questions with an even name have a gate, the others a prior that is wide."""
        even = question.question_id[-1] in "02468"
        return ChainSettings(
            n=max(1, self.n - even),
            gate=even,
            stopping=True,
            min_rounds=2 - even,
            tau=self.tau,
            a=0.1,
            b=0.3,
            p0=None if even else 0.3,
            p0_source="first_score" if even else "mine",
            prior=None if even else BetaPosterior(0.5, 1.0),
            calibration=None if even else PlattMap(slope=7.3, intercept=-2.1),
        )


def chain_strategies() -> st.SearchStrategy[Strategy]:
    """Every strategy of the sequential family with every setting."""
    n = st.integers(1, ROUNDS)
    tau = scores() | st.sampled_from([0.8, 0.9, 0.95])
    gamma = st.sampled_from([0.5, 1.0, 2.0, 10.0, 37.5])
    sigma = st.sampled_from([-0.2, 0.0, 0.1])
    source = st.sampled_from(["auto", "first_score"])
    flag = st.booleans()
    maps = st.sampled_from(
        [
            None,
            IsotonicMap(scores=(0.2, 0.5, 0.7), probabilities=(0.1, 0.1, 0.9)),
            PlattMap(slope=7.3, intercept=-2.1),
        ]
    )
    cls = STRATEGIES
    return st.one_of(
        st.just(cls["base"]()),
        st.builds(OfItsOwn, n=n, tau=tau),
        st.builds(cls["mr_thinking"], n=n),
        st.builds(
            cls["markovscale_t"],
            n=n,
            sigma=sigma,
            chain=st.sampled_from(["homogeneous", "settling"]),
            p0_source=source,
            calibration=maps,
        ),
        st.builds(
            cls["markovscale_star"],
            n=n,
            tau=tau,
            chain=st.sampled_from(["homogeneous", "settling"]),
            kept=st.sampled_from([0.3, 0.6, 1.0]),
            price=st.sampled_from([0.0, 0.01, 0.1]),
            gamma=gamma,
            sigma=sigma,
            gate=flag,
            stopping=flag,
            p0_source=source,
            calibration=maps,
        ),
        st.builds(
            cls["markovscale_star"],
            n=n,
            tau=st.sampled_from([0.95, 1.0]),
            chain=st.sampled_from(["homogeneous", "settling"]),
            gate=flag,
            value_of_right_usd=st.sampled_from([1e-5, 1e-4, 1e-3, 1.0]),
            usd_per_million=st.just(Prices(prompt=1.0, completion=2.0, verifier=0.5)),
            calibration=maps,
        ),
        st.builds(
            cls["markovscale_0"],
            n=n,
            tau=tau,
            alpha0=st.sampled_from([0.0, 1.0, 9.0]),
            beta0=st.sampled_from([0.5, 1.0]),
            warm_up=st.integers(2, 5),
            profile=st.sampled_from(["upstream", "paper"]),
            calibration=maps,
            right_from=scores(),
            gate=flag,
            sigma=sigma,
        ),
        st.builds(cls["chain_asc"], n=n, threshold=scores() | st.sampled_from([0.75, 0.875, 0.9])),
        st.builds(
            cls["agree"],
            n=n,
            tau=scores() | st.sampled_from([0.6, 0.8]),
            vote_threshold=scores() | st.sampled_from([0.9, 1.0]),
            repeat=st.sampled_from([None, 2, 3]),
            weights=st.sampled_from(
                [
                    None,
                    AgreementWeights(w=(1.5, 2.0, -0.5), v=(-0.5, 0.1, 0, 1, 0.4, 0.6, 0.2, -0.1)),
                    AgreementWeights(
                        w=(1, 1, -0.1, 0.3, 1, -0.2),
                        v=(-2, 0.6, -1.5, -1.8, -2, 0.5, 0.5, 2.5, 0.8, -1.5),
                    ),
                    AgreementWeights(w=(1, 1, -0.1), v=(-1, 0.9, -1.3, -0.1, -1.5, 0.3)),
                ]
            ),
        ),
        st.builds(
            cls["settled"],
            n=n,
            repeat=st.sampled_from([None, 2, 3, 4]),
            score_at_least=st.none() | scores(),
            min_rounds=st.integers(1, 4),
            stop_flag=flag,
            discount=st.sampled_from([0.0, 0.5, 0.8, 1.0]),
        ),
        st.builds(
            cls["chain_expected_agreement"],
            n=n,
            price=st.sampled_from([0.0, 0.001, 0.01, 0.05]),
            alpha=st.sampled_from([0.5, 1.0]),
            discount=st.sampled_from([0.8, 1.0]),
        ),
    )


def by_state_machine(pool: CompletionPool, strategy: Strategy) -> dict[Any, Replayed]:
    """`pipeline.replay.exact` of every question, benchmark by benchmark."""
    found: dict[Any, Replayed] = {}
    for benchmark in pool.benchmarks:
        mine = {q.question.question_id: q for q in pool.questions if q.key[0] == benchmark}
        recordings = {key: q.recording() for key, q in mine.items()}
        outcomes = replay_phases(
            strategy,
            [q.question for q in mine.values()],
            lambda asked, request, known=recordings: known[asked.question_id].find(request),
        )
        found |= {mine[key].key: outcome for key, outcome in outcomes.items()}
    return found


@given(pool=pools(rounds=ROUNDS), strategy=chain_strategies())
@settings(max_examples=80, deadline=None)
def test_arrays_and_state_machine_decide_alike(pool: CompletionPool, strategy: Strategy) -> None:
    """Same reason, same completions, same choice under every rule, same tokens, for every
    question, over pools with failures and ties and every setting of the family."""
    chains = chain_arrays(pool)
    decided = FastReplay(chains).decide(strategy)

    for q, (key, outcome) in enumerate(by_state_machine(pool, strategy).items()):
        q = [known.key for known in pool.questions].index(key)
        drawn = int(decided.drawn_Q[q])
        assert REASONS[decided.reason_Q[q]] == outcome.stop.reason
        if decided.position_RQ is None:
            assert tuple(range(drawn)) == outcome.stop.rounds
        assert chains.tokens_QD[q, drawn] == sum(
            c.completion_tokens for c in outcome.completions if isinstance(c, Completion)
        )
        for rule in AnswerRule:
            chosen = apply(rule, outcome.completions, outcome.stop)
            position = NOT_APPLICABLE if chosen is None else chosen.position
            position = NO_ANSWER if position is None else position
            own = decided.position_RQ
            found = chains.position_QD[rule][q, drawn] if own is None else own[rule][q]
            assert found == position


@given(
    drawn=st.lists(
        completions_of_any_kind()
        | st.builds(lambda c: replace(c, score=None), completions_of_any_kind()),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=80, deadline=None)
def test_positions_by_depth_are_the_rules_on_every_prefix(drawn: list[Completion]) -> None:
    """One pass gives what `apply` gives on each prefix, unscored completions included."""
    found = positions_by_depth(drawn)

    for rule in AnswerRule:
        for depth in range(1, len(drawn) + 1):
            stop = Stop(reason=StopReason.BUDGET, rounds=tuple(range(depth)))
            chosen = apply(rule, drawn, stop)
            wanted = NOT_APPLICABLE if chosen is None else chosen.position
            assert found[rule][depth - 1] == (NO_ANSWER if wanted is None else wanted)


def small_pool(*scores_of_rounds: float | None) -> CompletionPool:
    chain = [completion("1", score) for score in scores_of_rounds]
    return pool_of(
        [pool_question(question(), chain, [], lambda _: "right")], rounds=len(chain), samples=0
    )


def test_a_budget_beyond_the_pool_is_refused() -> None:
    """No round is made up."""
    with pytest.raises(ConfigError, match="n must be at most 2, the rounds of the pool, got 3"):
        FastReplay(chain_arrays(small_pool(0.5, 0.5))).decide(MRThinking(n=3))


def test_missing_scores_are_named() -> None:
    """A strategy that decides by scores is told which round has none; others do not ask."""
    replay = FastReplay(chain_arrays(small_pool(0.5, None)))

    assert replay.decide(MRThinking(n=2)).drawn_Q.tolist() == [2]
    with pytest.raises(DataError, match="round 1 of question 'q0' of 'made-up' has none"):
        replay.decide(MarkovScaleStar(n=2))


def test_missing_stop_flags_are_refused() -> None:
    """Of arrays and of the state machine alike, where a chain is to end on them."""
    pool, strategy = small_pool(0.5, 0.5), Settled(n=2, stop_flag=True)

    with pytest.raises(DataError, match=r"science\.generator\.stop_flag"):
        FastReplay(chain_arrays(pool)).decide(strategy)
    with pytest.raises(DataError, match=r"science\.generator\.stop_flag"):
        by_state_machine(pool, strategy)


def test_other_families_are_refused() -> None:
    """Samples are replayed by the state machine."""
    match = "only chains that decide by their settings are replayed as arrays, got esc"
    with pytest.raises(ConfigError, match=match):
        FastReplay(chain_arrays(small_pool(0.5))).decide(EarlyStoppingSelfConsistency())


def test_a_pool_without_chains_is_refused() -> None:
    """Nothing is swept over nothing."""
    with pytest.raises(ConfigError, match="must have chains"):
        chain_arrays(pool_of([pool_question(question(), [], [], lambda _: None)], rounds=0))


def test_p0_of_some_questions_only_is_refused() -> None:
    """Half a predictor would gate by two different beliefs."""
    known = pool_question(question(0), [completion("1")], [], lambda _: "right")
    unknown = pool_question(
        question(1, priors=Priors(a=0.1, b=0.3)), [completion("1")], [], lambda _: "right"
    )

    with pytest.raises(ConfigError, match="p0 must be known of every question or of none"):
        FastReplay(chain_arrays(pool_of([known, unknown], rounds=1))).decide(MarkovScaleT(n=1))


def test_the_papers_zero_neither_waits_for_its_warm_up_nor_pays_for_it() -> None:
    """Scores of 1 satisfy the rule after one round: the paper's profile stops there and is billed
    for it alone, where the other has the four rounds of its warm-up."""
    pool = pool_of(
        [pool_question(question(n), [completion("1", 1.0)] * 8, [], lambda _: "right")
         for n in range(3)],
        rounds=8,
        samples=0,
    )  # fmt: skip
    chains = chain_arrays(pool)
    drawn = {
        profile: FastReplay(chains)
        .decide(MarkovScale0(n=8, tau=0.5, profile=profile))
        .drawn_Q.tolist()
        for profile in ("upstream", "paper")
    }

    assert drawn == {"upstream": [4] * 3, "paper": [1] * 3}
    judged = judged_by_state_machine(pool, MarkovScale0(n=8, tau=0.5, profile="paper"))
    assert judged.tokens_Q.tolist() == [10] * 3
