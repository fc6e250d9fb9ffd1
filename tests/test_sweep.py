"""Sweeps: what is counted, what is chosen on which questions, and that nothing is mixed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from pydantic import ValidationError

from pipeline.answers.answer_rules import AnswerRule
from pipeline.config.sweep import SweepConfig, grid
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Priors, Strategy
from pipeline.replay.chain_arrays import chain_arrays
from pipeline.replay.fast import FastReplay
from pipeline.replay.judging import judged_by_arrays, judged_by_state_machine
from pipeline.replay.pools import CompletionPool
from pipeline.replay.sweep import RULES, SCHEMA, half_of, sweep, sweep_table
from pipeline.statistics.intervals import mean_interval
from pipeline.strategies.atom_of_thoughts import AtomOfThoughts
from pipeline.strategies.chain_agreement import ChainASC
from pipeline.strategies.markovscale import MarkovScaleStar
from pipeline.strategies.self_consistency import EarlyStoppingSelfConsistency
from pipeline.strategies.sequential import MRThinking
from tests.generators import completion, question
from tests.pools import pool_of, pool_question, pools
from tests.test_fast_replay import ROUNDS, chain_strategies


@given(pool=pools(rounds=ROUNDS), strategy=chain_strategies())
@settings(max_examples=25, deadline=None)
def test_both_paths_judge_alike(pool: CompletionPool, strategy: Strategy) -> None:
    """Verdicts and places under every rule, tokens and completions are the same by arrays and by
    replay."""
    chains = chain_arrays(pool)
    decided = FastReplay(chains).decide(strategy)
    fast = judged_by_arrays(chains, decided)
    slow = judged_by_state_machine(pool, strategy)

    for name in ("verdict_RQ", "place_RQ", "tokens_Q", "completions_Q"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name))
    assert fast.applicable_R == slow.applicable_R


def made_up(n_questions: int = 40) -> CompletionPool:
    """Questions of which those of one half are only right in round 1, the others only in round 0.

    The verifier scores right rounds 1.0 and wrong ones 0.0.
    """
    questions = []
    for number in range(n_questions):
        asked = question(number, priors=Priors(a=0.2, b=0.4))
        late = half_of((asked.benchmark, asked.question_id), 0) == 0
        rounds = [
            completion("1" if late == bool(r) else "2", float(late == bool(r))) for r in (0, 1)
        ]
        samples = [completion(answer) for answer in ("1", "1", "2")]
        questions.append(
            pool_question(
                asked, rounds, samples, lambda seen: "right" if seen.answer == "1" else "wrong"
            )
        )
    return pool_of(questions, rounds=2, samples=3)


def rows_of(
    pool: CompletionPool, settings: list[tuple[str, Strategy]], choose: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    table = sweep_table(sweep(pool, settings), choose)
    assert table.schema.equals(SCHEMA)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_a_row_a_setting_benchmark_and_rule() -> None:
    """Counts, accuracy with its interval, tokens and completions of the whole benchmark."""
    rows = rows_of(
        made_up(),
        [("chain", MRThinking(n=2)), ("esc", EarlyStoppingSelfConsistency(n=3, window=2))],
    )
    by = {(row["strategy"], row["answer_rule"]): row for row in rows}

    assert len(rows) == 2 * sum(not rule.needs_logprobs for rule in RULES)
    late = sum(half_of(q.key, 0) == 0 for q in made_up().questions)
    chain = by[("chain", "last")]
    assert (chain["questions"], chain["right"], chain["graded"], chain["ungraded"]) == (
        40,
        late,
        40,
        0,
    )
    assert chain["low"] < chain["accuracy"] == late / 40 < chain["high"]
    assert (chain["tokens_per_question"], chain["completions_per_question"]) == (20.0, 2.0)
    assert (chain["headline"], by[("chain", "vote")]["headline"]) == (True, False)
    assert by[("chain", "prm_argmax")]["accuracy"] == 1.0
    esc = by[("esc", "vote")]
    assert (esc["window"], esc["accuracy"], esc["completions_per_question"]) == (2, 1.0, 2.0)
    assert {row["chosen_on"] for row in rows} == {None}


def test_held_out_choice_never_sees_the_questions_that_it_is_judged_on() -> None:
    """Where the halves want opposite settings, choosing on the other half is always wrong and
    choosing on the test set right as far as one value can be: the two rows are kept apart."""
    pool = made_up()
    settings = [("chain", MRThinking(n=1)), ("chain", MRThinking(n=2))]
    rows = [row for row in rows_of(pool, settings, ("n",)) if row["answer_rule"] == "last"]
    chosen = {row["chosen_on"]: row for row in rows if row["chosen_on"]}
    late = sum(half_of(q.key, 0) == 0 for q in pool.questions)

    assert set(chosen) == {"held_out", "test"}
    assert (chosen["held_out"]["split"], chosen["held_out"]["right"]) == ("cross_fit", 0)
    assert chosen["held_out"]["questions"] == 40
    assert (chosen["test"]["split"], chosen["test"]["right"]) == ("all", max(late, 40 - late))


def test_of_equally_accurate_settings_the_cheapest_is_chosen() -> None:
    """tau = 0 stops at once and is as right under argmax as any other that is right."""
    asked = question(0, priors=Priors(p0=0.1, p0_source="predictor", a=0.1, b=0.3))
    pool = pool_of(
        [pool_question(asked, [completion("1", 0.9)] * 3, [], lambda _: "right")],
        rounds=3,
        samples=0,
    )
    settings = [("star", MarkovScaleStar(n=3, tau=tau)) for tau in (1.0, 0.0, 0.01)]
    rows = [r for r in rows_of(pool, settings, ("tau",)) if r["chosen_on"]]

    assert {(row["chosen_on"], row["tau"], row["completions_per_question"]) for row in rows} == {
        ("test", 0.0, 1.0)
    }


def test_grid_is_every_combination() -> None:
    """Lists are tried in every combination with the pool's own prompts and decoding."""
    config = SweepConfig.model_validate(
        {
            "strategies": [
                "base",
                {"kind": "markovscale_star", "label": "star", "tau": [0.8, 0.9], "n": [2, 4]},
            ]
        }
    )
    science = made_up().science.model_copy(
        update={"decoding": made_up().science.decoding.__class__(max_tokens=7)}
    )
    built = grid(config, science)

    assert [(label, getattr(s, "tau", None), s.n) for label, s in built] == [  # type: ignore[attr-defined]
        ("base", None, 1),
        ("star", 0.8, 2),
        ("star", 0.8, 4),
        ("star", 0.9, 2),
        ("star", 0.9, 4),
    ]
    assert {s.decoding.max_tokens for _, s in built} == {7}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"kind": "markovscale_star", "tua": [1]}, "tua must be a field of markovscale_star"),
        ({"kind": "markovscale_star", "tau": [2.0]}, "tau must be in"),
        ({"kind": "nonesuch"}, "a strategy must be one of"),
    ],
)
def test_a_setting_that_cannot_be_is_named(entry: dict[str, Any], message: str) -> None:
    """Before anything is replayed."""
    config = SweepConfig.model_validate({"strategies": [entry]})

    with pytest.raises(ConfigError, match=message):
        grid(config, made_up().science)


@pytest.mark.parametrize("fields", [None, 3, [8], {"n": []}])
def test_fields_that_try_nothing_are_refused(fields: Any) -> None:
    """No grid is empty, and fields that are no mapping are named."""
    with pytest.raises(ValidationError, match=r"strategies\.0\.fields"):
        SweepConfig.model_validate({"strategies": [{"kind": "esc", "fields": fields}]})


def test_what_a_pool_cannot_serve_is_refused_before_anything_is_replayed() -> None:
    """AoT asks for what no pool holds; a budget beyond the pool says how to deepen it."""
    with pytest.raises(ConfigError, match="atom_of_thoughts"):
        sweep(made_up(), [("aot", AtomOfThoughts())])
    with pytest.raises(ConfigError, match="n of chain must be at most 2, the depth of the pool"):
        sweep(made_up(), [("chain", MRThinking(n=3))])


def test_rules_that_need_scores_are_left_out_without_them() -> None:
    """An unscored pool has rows for last and vote only."""
    unscored = pool_of(
        [pool_question(question(0), [completion("1", None)], [], lambda _: "right")],
        rounds=1,
        samples=0,
    )

    assert [row["answer_rule"] for row in rows_of(unscored, [("chain", MRThinking(n=1))])] == [
        AnswerRule.LAST.value,
        AnswerRule.VOTE.value,
    ]


@pytest.mark.parametrize(
    ("path", "override", "message"),
    [
        ("configs/laptop.yaml", "seed=1", "a sweep must have its own file"),
        ("configs/sweeps/small.yaml", "science.priors.a=0.1", "in a sweep it is priors.a=0.1"),
    ],
)
def test_what_is_of_a_run_is_named_in_a_sweep(path: str, override: str, message: str) -> None:
    """The file of a run, and fields as a run's file has them."""
    with pytest.raises(ConfigError, match=message):
        SweepConfig.load(path, [override])


def chains_of(answers: list[list[list[str]]]) -> CompletionPool:
    """Answers by question, chain and round; "1" is right, each completion costs 10 tokens."""
    questions = []
    for number, chains in enumerate(answers):
        first, *others = [
            pool_question(
                question(number),
                [completion(answer) for answer in chain],
                [],
                lambda seen: "right" if seen.answer == "1" else "wrong",
            )
            for chain in chains
        ]
        more = tuple((other.rounds, other.round_verdicts) for other in others)
        questions.append(replace(first, more_chains=more))
    return pool_of(questions, rounds=len(answers[0][0]), samples=0)


def test_values_of_several_chains_are_means_with_intervals_over_questions() -> None:
    """By hand: three chains a question end right, right, wrong; wrong, wrong, right; and with three
    answers of which one is right."""
    pool = chains_of(
        [
            [["2", "1"], ["1", "1"], ["1", "2"]],
            [["1", "3"], ["2", "3"], ["3", "1"]],
            [["1", "2"], ["2", "1"], ["1", "3"]],
        ]
    )
    shares = np.array([2, 1, 1]) / 3
    rows = rows_of(pool, [("chain", MRThinking(n=2))])
    (chain,) = [row for row in rows if row["answer_rule"] == "last"]

    assert (chain["chains"], chain["questions"], chain["right"], chain["graded"]) == (3, 3, 4, 9)
    expected = mean_interval(shares)
    found = [chain["accuracy"], chain["low"], chain["high"]]
    assert found == pytest.approx([expected.value, max(0, expected.low), min(1, expected.high)])


def test_a_sweep_over_chains_is_the_mean_of_the_sweeps_over_each() -> None:
    """For settings by arrays and by the state machine; samples are read once."""
    pool = chains_of([[["1", "2"], ["2", "2"]], [["1", "1"], ["3", "1"]], [["2", "3"], ["1", "1"]]])
    settings = [("all", MRThinking(n=2)), ("vote", ChainASC(n=2))]
    alone = [
        replace(pool.with_chain(chain), questions=tuple(
            replace(q, more_chains=()) for q in pool.with_chain(chain).questions))
        for chain in (0, 1)
    ]  # fmt: skip
    whole, *parts = [rows_of(each, settings) for each in (pool, *alone)]
    for row, one, other in zip(whole, *parts, strict=True):
        assert one["chains"] == 1
        for name in ("accuracy", "tokens_per_question", "completions_per_question"):
            assert row[name] == pytest.approx((one[name] + other[name]) / 2)
        assert row["right"] == one["right"] + other["right"]
