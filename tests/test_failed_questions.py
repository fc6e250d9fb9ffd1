"""A question that failed counts as wrong in every table, and what it drew stays in the bill."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jobs.results import write_summary
from pipeline.answers.answer_rules import AnswerRule
from pipeline.core.protocol import Failure
from pipeline.replay.chain_arrays import NO_VERDICT, WRONG, chain_arrays
from pipeline.replay.fast import Decisions
from pipeline.replay.judging import judged_by_arrays, judged_by_state_machine
from pipeline.report.comparison import accuracy, against_rivals
from pipeline.report.run_data import read_run
from pipeline.strategies.sequential import MRThinking
from tests.generators import completion, question
from tests.pools import pool_of, pool_question
from tests.report_runs import MadeUp, made_up_config, question_rows, write_run

IDS = [f"q{i}" for i in range(30)]


@pytest.mark.parametrize("rule", [r for r in AnswerRule if not r.needs_logprobs])
def test_thirty_of_thirty_failed_are_none_right(tmp_path: Path, rule: AnswerRule) -> None:
    """Chains that fail in round 1 after a right first answer: report, summary and comparison say
    0 of 30, under every rule, and keep the tokens of round 0."""
    config = made_up_config(tmp_path, strategies=["base", "mr_thinking", "markovscale_0"])
    engine = MadeUp(chain=(0.99, 0.0, 1.0), failing=IDS)
    run = write_run(config, "failed", question_rows(30, ["made-up"]), engine, metrics=False)
    entries = {entry["strategy"]: entry for entry in write_summary(run)["strategies"]}
    base, chain, zero = read_run(run.address).cells

    assert all(row["verdict_last"] == "right" for row in chain.rows)
    for cell in (chain, zero):
        own = accuracy(cell, rule)
        assert own is not None
        assert own.value == 0
        counted = entries[cell.label]["accuracy"][rule.value]
        assert (counted["right"], counted["graded"], entries[cell.label]["failed"]) == (0, 30, 30)
        assert entries[cell.label]["tokens"]["completion_tokens"] == sum(base.tokens)
    best = accuracy(base, AnswerRule.LAST)
    assert best is not None
    assert best.value == 1
    (against,) = [c for c in against_rivals([base, chain, zero]) if c.first.of.cell is base]
    assert against.accuracy is not None
    assert against.accuracy.value == 1


def test_without_a_right_answer_nothing_is_graded(tmp_path: Path) -> None:
    """Where nobody knows the right answer a failure is not wrong either: no accuracy anywhere."""
    config = made_up_config(tmp_path, strategies=["mr_thinking", "markovscale_0"])
    rows = question_rows(6, ["made-up"], gold=None)
    run = write_run(config, "no-gold", rows, MadeUp(failing=IDS[:2]), metrics=False)

    for cell in read_run(run.address).cells:
        assert [cell.rights(rule) for rule in AnswerRule] == [{}] * len(AnswerRule)
    for entry in write_summary(run)["strategies"]:
        told = [counts for counts in entry["accuracy"].values() if counts is not None]
        assert {counts["graded"] for counts in told} <= {0}


def test_a_replay_counts_failures_alike() -> None:
    """A chain that fails after a right answer is wrong by arrays and by replay, and ungraded where
    no right answer is known."""
    chain = [completion("1", 0.9), Failure(error="engine: lost")]
    known = pool_question(question(0), chain, [], lambda _: "right")
    unknown = pool_question(question(1), chain, [], lambda _: None)
    object.__setattr__(unknown, "gold", None)
    pool = pool_of([known, unknown], rounds=2, samples=0)
    arrays = chain_arrays(pool)
    failed = Decisions(drawn_Q=np.array([1, 1]), reason_Q=np.array([0, 0]))

    for judged in (
        judged_by_arrays(arrays, failed),
        judged_by_state_machine(pool, MRThinking(n=2)),
    ):
        assert judged.verdict_RQ.tolist() == [[WRONG, NO_VERDICT]] * len(AnswerRule)
        assert judged.tokens_Q.tolist() == [10, 10]
