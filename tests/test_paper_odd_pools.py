"""The paper's page of pools that lack something: rounds, completions, gold answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeline.core.protocol import Failure, Observation, Priors, Question
from pipeline.paper import controls, opponents
from pipeline.paper.beliefs import from_other_half
from pipeline.paper.evaluation import Evaluation, evaluate
from pipeline.paper.page import build
from pipeline.paper.replays import Maker
from pipeline.replay.pools import CompletionPool, PoolQuestion
from tests.generators import completion
from tests.pools import pool_of, pool_question

LOST = Failure(error="EngineDeadError: the replica was lost", completion_tokens=None)


def asked(number: int, *, rounds: int, samples: int, lost: bool = False) -> PoolQuestion:
    """A question with answers 1 (right) and 2 by turns; `lost` loses the last of each pool."""
    question = Question(
        benchmark="arithmetic",
        question_id=f"q{number}",
        text=f"t{number}",
        seed=number,
        priors=Priors(),
    )
    drawn = [
        completion(str(1 + (number + r) % 2), 0.3 + 0.1 * (r % 5))
        for r in range(max(rounds, samples))
    ]
    chain: list[Observation] = [*drawn[:rounds]]
    parallel: list[Observation] = [*drawn[:samples]]
    if lost:
        chain[-1:], parallel[-1:] = [LOST] * bool(chain), [LOST] * bool(parallel)
    return pool_question(
        question, chain, parallel, lambda c: "right" if c.answer == "1" else "wrong"
    )


def evaluated(pool: CompletionPool) -> Evaluation:
    """As `jobs.paper` does."""
    believed = from_other_half(pool)
    return evaluate(believed, "tiny", Maker(pool.science, believed.p0_source))


def test_a_pool_of_one_round_has_a_page() -> None:
    """Without chains to revise there are no fronts, and everything else stands."""
    questions = [asked(i, rounds=1, samples=4) for i in range(50)]
    pages = dict(build([evaluated(pool_of(questions, rounds=1, samples=4))]))

    assert "Base" in pages["main.csv"]
    assert len(pages["fronts.csv"].splitlines()) == 1


def test_a_lost_sample_costs_nothing_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """pass@N goes by the samples that there are, and a page is made."""
    monkeypatch.setattr(opponents, "SPLITS", 2)
    questions = [asked(i, rounds=4, samples=4, lost=i % 5 == 0) for i in range(50)]
    made = evaluated(pool_of(questions))
    spent = controls.pass_at(made, 2).tokens_Q
    known = [entry.observation.completion_tokens for entry in questions[0].samples[:3]]

    assert spent[0] == 2 * np.mean(known)
    assert "paper.html" in dict(build([made]))


def test_stops_dealt_at_random_judge_no_question_without_a_gold_answer() -> None:
    """Not even one whose chain failed, which is wrong where somebody can say."""
    questions = [asked(i, rounds=4, samples=0, lost=i % 5 == 0) for i in range(50)]
    known = controls.random_stopping(
        evaluated(pool_of(questions, samples=0)), "markovscale_t", 4
    ).right_Q
    nothing = replace(questions[0], gold=None, round_verdicts=(None,) * 4)
    dealt = controls.random_stopping(
        evaluated(pool_of([nothing, *questions[1:]], samples=0)), "markovscale_t", 4
    ).right_Q

    assert not np.isnan(known).any()
    assert np.flatnonzero(np.isnan(dealt)).tolist() == [0]
