"""Chains that are scored in some of their rounds only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.protocol import Completion, Observation, Priors, Request, StopReason, Strategy
from pipeline.records.journal import as_requested
from pipeline.replay.exact import Replayed, drive
from pipeline.replay.pool_rows import Digests
from pipeline.strategies import STRATEGIES
from pipeline.strategies.markovscale import MarkovScaleStar
from pipeline.strategies.sequential import MRThinking
from pipeline.theory.stopping import StopRule
from tests.generators import completion, question, scores
from tests.pools import pool_question

PRIORS = Priors(a=0.2, b=0.4, p0=0.3, p0_source="priors_file")


def sparse() -> st.SearchStrategy[Strategy]:
    """Every strategy that offers it, with any distance between two scores."""
    n, every = st.integers(1, 6), st.integers(1, 7)
    source = st.sampled_from(["auto", "first_score"])
    return st.one_of(
        st.builds(MRThinking, n=n, score_every=every),
        st.builds(STRATEGIES["markovscale_t"], n=n, score_every=every, p0_source=source),
        st.builds(
            MarkovScaleStar,
            n=n,
            score_every=every,
            p0_source=source,
            tau=scores(),
            stop_rule=st.sampled_from(list(StopRule)),
            gate=st.booleans(),
        ),
    )


def live(strategy: Strategy, values: list[float]) -> Replayed:
    """Engines that score what they are asked to score."""

    def answer(request: Request) -> Observation:
        made = completion(str(request.round), values[request.round])
        return made if request.score else replace(made, score=None, step_scores=None)

    return drive(strategy, question(priors=PRIORS), answer)


@given(strategy=sparse(), values=st.lists(scores(), min_size=6, max_size=6))
def test_scores_are_asked_for_on_schedule(strategy: Any, values: list[float]) -> None:
    """In rounds 0, k, 2k, ... and the last of the budget, and in no other."""
    for request in live(strategy, values).requests:
        due = request.round % strategy.score_every == 0 or request.round == strategy.n - 1
        assert request.score == due


@given(
    strategy=sparse(),
    values=st.lists(scores(), min_size=6, max_size=6),
    others=st.lists(scores(), min_size=6, max_size=6),
)
def test_a_pool_gives_the_decisions_of_a_live_run(
    strategy: Any, values: list[float], others: list[float]
) -> None:
    """Whatever scores the pool has for rounds that the strategy would not have had scored."""
    ran = live(strategy, values)
    due = [r % strategy.score_every == 0 or r == strategy.n - 1 for r in range(6)]
    recorded = [v if d else o for v, o, d in zip(values, others, due, strict=True)]
    chain = [completion(str(r), score) for r, score in enumerate(recorded)]
    pool = pool_question(question(priors=PRIORS), chain, [], lambda _: "right")

    replayed = drive(strategy, pool.question, pool.recording().find)

    assert replayed.stop == ran.stop
    assert replayed.completions == ran.completions
    assert drive(strategy, pool.question, pool.answers(Digests())) == replayed


def test_the_rule_is_tested_in_scored_rounds_only() -> None:
    """Round 1 would end the chain, were it scored; round 2 does."""
    strategy = MarkovScaleStar(
        n=8, score_every=2, tau=0.6, gamma=1.0, gate=False, stop_rule=StopRule.FORECAST
    )
    values = [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]

    ran, dense = live(strategy, values), live(replace(strategy, score_every=1), values)

    assert (dense.stop.reason, len(dense.completions)) == (StopReason.CONFIDENT, 3)
    assert ran.stop.reason is StopReason.CONFIDENT
    assert len(ran.completions) == 5
    assert [isinstance(c, Completion) and c.score for c in ran.completions] == [0, None, 1, None, 1]
    assert ran.stop.belief is not None
    assert len(ran.stop.belief.path) == 5
    assert ran.stop.belief.path[1] == ran.stop.belief.path[0]


def test_rounds_without_a_score_decide_nothing() -> None:
    """The printed rule changes with the round alone: it holds after round 1, which has no score."""
    strategy = MarkovScaleStar(n=8, score_every=3, tau=0.6, gamma=1.0, gate=False)
    priors = Priors(a=0.1, b=0.4, p0=0.3, p0_source="priors_file")

    def answer(request: Request) -> Observation:
        made = completion(str(request.round), 0.1)
        return made if request.score else replace(made, score=None, step_scores=None)

    ran = drive(strategy, question(priors=priors), answer)

    assert (ran.stop.reason, len(ran.completions)) == (StopReason.CONFIDENT, 4)


def test_what_a_score_costs_goes_with_it() -> None:
    """A round that is not asked a score for has neither its tokens nor its cut."""
    made = replace(completion("1", 0.5), verifier_tokens=9, prm_truncated=True)
    request = live(MRThinking(n=3, score_every=3), [0.5] * 6).requests[1]

    assert as_requested(made, request) == replace(
        made, score=None, step_scores=None, verifier_tokens=0, prm_truncated=False
    )
