"""The paper's evaluation: what its numbers are, what chose them, what they are held against."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.answers.answer_rules import AnswerRule
from pipeline.paper import controls, p0
from pipeline.paper.beliefs import from_other_half, halves_of
from pipeline.paper.evaluation import (
    CALIBRATED,
    TESTED,
    Evaluation,
    evaluate,
    right_from_of,
)
from pipeline.paper.figures import convergence
from pipeline.paper.orders import SampleOrders
from pipeline.paper.replays import GAMMAS, TAUS, Maker, budgets_of
from pipeline.replay.chain_arrays import RIGHT
from pipeline.replay.judging import judged_by_state_machine, rights
from pipeline.replay.pools import CompletionPool, PoolQuestion, read_pool
from pipeline.results.column import TEST, Column
from pipeline.results.compare import Family, compare
from pipeline.statistics.intervals import wilson
from pipeline.statistics.paired import holm, mcnemar
from pipeline.statistics.sampling import pass_at_k
from pipeline.strategies.best_of_n import BestOfN
from pipeline.strategies.self_consistency import (
    AdaptiveConsistency,
    EarlyStoppingSelfConsistency,
    SelfConsistency,
)
from pipeline.theory.transitions import count, labels_of_verdicts, total
from tests.generators import completion
from tests.generators import question as a_question
from tests.pools import pool_of, pool_question, pools

POOL = "tests/data/pool"
N = 8


@lru_cache(maxsize=1)
def pool() -> CompletionPool:
    """The small recorded pool of the embedded models."""
    return read_pool(POOL)


@lru_cache(maxsize=1)
def made() -> Evaluation:
    """Its evaluation in the paper's profile."""
    return evaluated(pool())


def evaluated(of: CompletionPool) -> Evaluation:
    believed = from_other_half(of)
    return evaluate(believed, "tiny", Maker(of.science, believed.p0_source))


def column(right: list[float], tokens: list[float] | None = None, **fields: Any) -> Column:
    values: dict[str, Any] = {
        "backbone": "b", "benchmark": "q", "method": "m", "kind": "k", "n": 8, "rule": "last",
        "fixed": "", "tuned": "", "chosen_on": None, "source": "p",
    }  # fmt: skip
    spent = np.array(tokens or [1.0] * len(right))
    return Column(**(values | fields), right_Q=np.array(right), tokens_Q=spent)


def test_a_half_believes_what_the_other_half_shows() -> None:
    """a and b of a question are counts over the questions of the other half, p0 is left open."""
    half_Q = halves_of(pool())
    believed = from_other_half(pool())
    for half in (0, 1):
        others = [
            labels_of_verdicts(q.round_verdicts)
            for q, h in zip(pool().questions, half_Q, strict=True)
            if h != half
        ]
        counts = total(count(labels) for labels in others)
        priors = {
            (q.question.priors.a, q.question.priors.b, q.question.priors.p0)
            for q, h in zip(believed.judged.questions, half_Q, strict=True)
            if h == half
        }
        assert priors == {
            (
                (counts.right_wrong + 0.5) / (counts.from_right + 1),
                (counts.wrong_right + 0.5) / (counts.from_wrong + 1),
                None,
            )
        }


@pytest.mark.parametrize("half", [0, 1])
def test_nothing_of_a_half_chooses_its_settings(half: int) -> None:
    """With every verdict of a half turned around, tau, gamma and the answer rule for that half
    stay what they were; those of the other half are free to change."""
    half_Q = halves_of(pool())
    turned = {"right": "wrong", "wrong": "right"}

    def other(question: PoolQuestion, mine: int) -> PoolQuestion:
        if mine != half:
            return question
        return replace(
            question, round_verdicts=tuple(turned.get(v or "", v) for v in question.round_verdicts)
        )

    questions = tuple(other(q, h) for q, h in zip(pool().questions, half_Q, strict=True))
    again = evaluated(replace(pool(), questions=questions))
    for candidates in ("stars", "heuristics", "rules"):
        before = made().replays.on_other_half(getattr(made(), candidates)(N)).picked[half]
        after = again.replays.on_other_half(getattr(again, candidates)(N)).picked[half]
        assert before == after


@pytest.mark.parametrize("kind", ["markovscale_t", "markovscale_star", "markovscale_0"])
def test_a_chosen_number_is_the_state_machines(kind: str) -> None:
    """Each half's verdicts and tokens are what exact replay gives the setting that was picked."""
    choice = controls.made_choice(made(), kind, N)
    found = made().get(kind, N)
    assert found is not None
    for half, (strategy, rule) in enumerate(choice.picked):
        exact = judged_by_state_machine(made().pool, strategy)
        mine = made().believed.half_Q == half
        np.testing.assert_array_equal(found.right_Q[mine], rights(exact, rule)[mine])
        np.testing.assert_array_equal(found.tokens_Q[mine], exact.tokens_Q[mine])


def test_the_calibrated_threshold_counts_as_many_right_as_are_right() -> None:
    """On the half that it is taken from; the variant that uses it stands in the main table."""
    chains, half_Q = made().replays.chains, made().believed.half_Q
    for half in (0, 1):
        at = half_Q != half
        counted = chains.score_QT[at] >= right_from_of(made(), half)
        assert counted.mean() == pytest.approx((chains.verdict_QT[at] == RIGHT).mean(), abs=0.02)
    assert made().get(CALIBRATED, N) is not None


def test_p0_is_judged_against_a_constant_on_samples_that_nothing_saw() -> None:
    """Log loss of every predictor on the even-numbered samples; the constant is their share, so it
    loses to an oracle that counts the odd-numbered ones; a fit of one half sees the other's samples
    alone."""
    judged = {one.name: one for one in p0.judge(made())}
    assert set(judged) == {"first score", p0.MAPPED, p0.ORACLE}
    right, n = p0.counts_of(made(), 0, 2).sum(axis=0)
    share = right / n
    constant = -(share * np.log(share) + (1 - share) * np.log1p(-share))
    for one in judged.values():
        assert one.report.loss_constant == pytest.approx(constant)
    assert judged[p0.ORACLE].report.beats_constant

    half_Q = made().believed.half_Q
    questions = tuple(
        replace(q, sample_verdicts=("wrong",) * len(q.sample_verdicts)) if h == 0 else q
        for q, h in zip(made().pool.questions, half_Q, strict=True)
    )
    again = replace(made(), pool=replace(made().pool, questions=questions))
    before, after = p0.predictors_of(made()), p0.predictors_of(again)
    np.testing.assert_array_equal(before[p0.MAPPED][half_Q == 0], after[p0.MAPPED][half_Q == 0])
    assert not np.array_equal(before[p0.MAPPED][half_Q == 1], after[p0.MAPPED][half_Q == 1])


def test_copies_are_in_one_half_and_are_one_question() -> None:
    """A pool with each question twice has the transitions of twice as many chains, and the
    intervals, comparisons and fronts of as many questions as there are texts."""
    twice = tuple(
        replace(q, question=replace(q.question, question_id=f"{q.question.question_id}, {copy}"))
        for q in pool().questions
        for copy in range(2)
    )
    of = evaluated(replace(pool(), questions=twice))
    assert (of.believed.half_Q[::2] == of.believed.half_Q[1::2]).all()
    found = of.get("markovscale_star", N)
    assert found is not None
    assert found.accuracy is not None
    assert found.accuracy.half_width == pytest.approx(
        wilson(int(found.right_Q.sum()) // 2, len(pool().questions)).half_width
    )
    curve, again = convergence(made()), convergence(of)
    assert curve is not None
    assert again is not None
    assert again.fit.counts.from_right == 2 * curve.fit.counts.from_right
    assert again.fit.a.half_width == pytest.approx(curve.fit.a.half_width, rel=0.1)


def test_hindsight_is_never_worse_than_a_setting_of_the_grid() -> None:
    """On the very questions that chose it: which is why it is marked."""
    best = made().get("markovscale_star" + TESTED, N)
    assert best is not None
    assert best.accuracy is not None
    for strategy, rule in made().stars(N):
        right_Q = rights(made().replays.judged(strategy), rule)
        assert np.nanmean(right_Q) <= best.accuracy.value


def test_random_stopping_is_the_exact_mean_over_deals() -> None:
    """The mean over every pair of a question and a stop, each stop as often as it came."""
    for kind in controls.OURS:
        dealt = controls.random_stopping(made(), kind, N)
        drawn = made().replays.drawn(controls.made_choice(made(), kind, N))
        chains = made().replays.chains
        position_QT = chains.position_QD[AnswerRule.PRM_ARGMAX][:, 1:].astype(int)
        right_QT = np.take_along_axis(chains.verdict_QT, position_QT, axis=1) == RIGHT
        tokens_QT = chains.tokens_QD[:, 1:].astype(float)
        assert dealt.accuracy is not None
        assert dealt.tokens is not None
        assert np.isclose(dealt.accuracy.value, right_QT[:, drawn - 1].mean())
        assert np.isclose(dealt.tokens.value, tokens_QT[:, drawn - 1].mean())


def test_oracle_and_pass_at_n_are_those_of_the_library() -> None:
    """Stops and shares by question."""
    oracle, passed = controls.oracle(made(), N), controls.pass_at(made(), N)
    for place, question in enumerate(pool().questions):
        right = [verdict == "right" for verdict in question.round_verdicts[:N]]
        spent = [entry.observation.completion_tokens or 0 for entry in question.rounds]
        assert oracle.right_Q[place] == any(right)
        assert oracle.tokens_Q[place] == sum(spent[: right.index(True) + 1 if any(right) else N])
        hits = question.sample_verdicts.count("right")
        assert passed.right_Q[place] == pass_at_k(len(question.sample_verdicts), hits, N)


RIGHTS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40)


@given(RIGHTS)
def test_a_comparison_is_mcnemars_and_its_interval_holds_the_difference(
    pairs: list[tuple[bool, bool]],
) -> None:
    """The p-value is that of the library; value within its ends; turned around, all is."""
    one = column([float(a) for a, _ in pairs])
    other = column([float(b) for _, b in pairs])
    found, back = compare(one, other), compare(other, one)
    assert found is not None
    assert back is not None
    only = [sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)]
    assert found.p_accuracy == pytest.approx(mcnemar(*only))
    assert found.accuracy is not None
    assert back.accuracy is not None
    assert found.accuracy.low <= found.accuracy.value <= found.accuracy.high
    assert back.accuracy.value == -found.accuracy.value
    assert back.accuracy.low == pytest.approx(-found.accuracy.high)


def test_all_comparisons_of_a_page_are_one_family() -> None:
    """Every distinct test, of accuracy and tokens, is corrected with all others; none twice; what
    was chosen on these questions is compared and not tested."""
    family = Family()
    base = column([1, 0] * 20, [5.0, 6.0] * 20)
    others = [column([1.0] * (k + 20) + [0.0] * (20 - k), [4.0 + k] * 40) for k in range(4)]
    for other in others:
        assert family.compare(other, base) is family.compare(other, base)
    hindsight = family.compare(column([1.0] * 40, chosen_on=TEST), base)
    assert hindsight is not None
    assert hindsight.p_accuracy is None
    plain = {
        (made_, measure): made_.p(measure)
        for made_ in family.comparisons
        for measure in ("accuracy", "tokens")
        if made_.p(measure) is not None
    }
    assert len(plain) == 8
    assert family.adjusted() == holm(plain)  # type: ignore[arg-type]  # none is None
    family.compare(replace(others[0], method="copy"), base)
    copied = family.adjusted()
    assert len(copied) == 10
    assert set(copied.values()) == set(holm(plain).values())  # type: ignore[arg-type]


def test_claims_are_corrected_among_themselves() -> None:
    """Six questions to none of 30: called as the one claim of a page, not beside 15 others."""
    family = Family()
    rival = column([0.0] * 30)
    claim = family.compare(column([1.0] * 6 + [0.0] * 24), rival, claim=True)
    for k in range(15):
        family.compare(column([0.0] * k + [1.0] * 6 + [0.0] * (24 - k), [2.0 + k] * 30), rival)
    adjusted = family.adjusted()
    assert claim is not None

    assert adjusted[claim, "accuracy"] == pytest.approx(0.03125)
    others = {p for (made_, what), p in adjusted.items() if what == "accuracy"} - {0.03125}
    assert min(others) > 0.05


def test_grids_and_budgets_are_the_papers() -> None:
    """Every tau from .80 to .99, every gamma of its table, N of its main table."""
    assert tuple(t / 100 for t in range(80, 100)) == TAUS
    assert GAMMAS == (1, 4, 7, 10, 20)
    assert budgets_of(64, 64) == (8, 16, 32, 64)
    assert budgets_of(20, 8) == (8, 16)
    assert budgets_of(4, 2) == (4,)


@given(
    pool=pools(rounds=1, samples=6),
    strategy=st.one_of(
        st.builds(SelfConsistency, n=st.integers(1, 6), profile=st.just("paper")),
        st.builds(
            EarlyStoppingSelfConsistency,
            n=st.integers(1, 6),
            window=st.integers(1, 4),
            profile=st.just("paper"),
        ),
        st.builds(
            AdaptiveConsistency,
            n=st.integers(1, 6),
            threshold=st.sampled_from([0.6, 0.75, 0.9]),
            profile=st.just("paper"),
        ),
        st.builds(
            BestOfN, n=st.integers(1, 6), aggregation=st.just("mean"), profile=st.just("paper")
        ),
    ),
)
@settings(max_examples=50, deadline=None)
def test_the_recorded_order_of_samples_is_what_the_state_machine_decides(pool, strategy):
    """Right and tokens of every question, with ties, failures and samples without an answer."""
    found = SampleOrders.of(pool, orders=1).expected(strategy)
    exact = judged_by_state_machine(pool, strategy)

    assert found is not None
    np.testing.assert_array_equal(found[0], rights(exact, AnswerRule(strategy.default_rule)))
    np.testing.assert_array_equal(found[1], exact.tokens_Q)


def test_columns_of_samples_are_means_over_orders():
    """Of 2 of 4 samples right alone, one sample is right half the time whatever came first; the
    whole pool is the same in every order."""
    said = [completion(answer) for answer in ("1", "1", "2", "3")]
    verdicts = {"1": "right", "2": "wrong", "3": "wrong"}
    asked = pool_question(a_question(), said[:1], said, lambda seen: verdicts[seen.answer])
    orders = SampleOrders.of(pool_of([asked], rounds=1), orders=400)
    one = orders.expected(SelfConsistency(n=1, profile="paper"))
    every = orders.expected(SelfConsistency(n=4, profile="paper"))

    assert one is not None
    assert every is not None
    assert one[0] == pytest.approx([0.5], abs=0.08)
    assert every[0] == [1.0]
    assert (one[1], every[1]) == ([10.0], [40.0])
    assert orders.expected(SelfConsistency(n=1)) is None
    assert [values.tolist() for values in orders.single()] == [[0.5], [10.0]]
