"""Paired comparisons in the terminal, and the views behind them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jobs import compare as job
from pipeline.answers.answer_rules import AnswerRule
from pipeline.report.comparison import against_rivals, column_of, comparisons_of
from pipeline.report.run_data import Cell, RunData, read_run
from pipeline.results.column import Column
from pipeline.results.compare import Comparison, compare, corrected
from pipeline.statistics.intervals import adjusted_wald, mean_interval, share_saved
from tests.report_runs import MadeUp, made_up_config, question_rows, write_run

STRATEGIES = ["base", "mr_thinking", "markovscale_t", "markovscale_star"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and a parallel run without MR-Thinking."""
    folder = tmp_path_factory.mktemp("runs")
    rows = question_rows(24, ["made-up"])
    config = made_up_config(folder, strategies=STRATEGIES)
    write_run(config, "one", rows, metrics=False)
    write_run(config, "two", rows, MadeUp(chain=(0.7, 0.05, 0.4)), metrics=False)
    parallel = made_up_config(folder, strategies=["self_consistency"], benchmarks=["other"])
    write_run(parallel, "parallel", question_rows(8, ["other"]), metrics=False)
    write_run(config, "new", rows, done=0, metrics=False)
    return folder


@pytest.fixture(scope="module")
def one(folder: Path) -> RunData:
    """The first run."""
    return read_run(str(folder / "one"))


def cell(run: RunData, label: str) -> Cell:
    """A cell by its label."""
    return next(c for c in run.cells if c.label == label)


def test_one_run_is_held_against_mr_thinking(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without labels every strategy meets MR-Thinking at its N, with what one question weighs."""
    assert job.main([str(folder / "one")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "SYNTHETIC: scripted engines made one, no model did" in said
    assert "Base by last against MR-Thinking by " in said
    assert "On 24 questions one question is worth 4.2 points" in said
    assert "calls no difference below " in said


def test_two_runs_share_a_strategy(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A label in both runs is paired by question, read by the rule asked for."""
    arguments = [str(folder / "one"), str(folder / "two"), "--strategy", "markovscale_t"]

    assert job.main([*arguments, "--rule", "last"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "MarkovScaleᵗ in one" in said
    assert "both by last" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{f}/nowhere"], "a run directory must hold config.json"),
        (["{f}/one", "--strategy", "base"], "one run must have two strategies to compare"),
        (["{f}/one", "--strategy", "base", "--strategy", "x"], "must have a strategy 'x', it has"),
        (["{f}/one", *["--strategy", "base"] * 3], "twice, not more"),
        (["{f}/parallel"], "parallel must have outcomes of one MR-Thinking"),
        (["{f}/new", "--rule", "vote"], "a run to compare must have outcomes"),
        (["{f}/one", "{f}/two/../one"], "runs to look at together must differ"),
        (["{f}/one", "{f}/parallel"], "must share a strategy and questions"),
        (["{f}/one", "{f}/two", "{f}/parallel"], "one or two runs can be compared, got 3"),
    ],
)
def test_what_cannot_be_compared_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """Exit 2 and one clear line."""
    assert job.main([argument.format(f=folder) for argument in arguments]) == 2
    assert message in capsys.readouterr().err


def pair(first: Cell, second: Cell) -> Comparison | None:
    """Two cells by their headline rules."""
    return compare(column_of(first), column_of(second))


def test_p_values_are_corrected_for_all_that_is_shown(one: RunData) -> None:
    """Holm over all that was looked at: every strategy against every reading of MR-Thinking, on
    every benchmark, tests of the same differences once."""
    elsewhere = [replace(c, benchmark="other") for c in one.cells]
    rival = cell(one, "mr_thinking")
    looked_at = [
        made
        for first in one.cells
        for rule in AnswerRule
        if first is not rival and rival.rights(rule)
        and (made := compare(column_of(first), column_of(rival, rule))) is not None
    ]  # fmt: skip
    distinct = len({made.identity("accuracy") for made in looked_at})
    best = max(sum(rival.rights(rule).values()) for rule in AnswerRule)
    alone, together = (against_rivals(group) for group in (one.cells, [*one.cells, *elsewhere]))

    assert len(together) == 2 * len(alone) == 6
    primary = {m.identity("accuracy") for m in looked_at if m.first.kind == "markovscale_t"}
    assert [c.first.kind for c in alone if c.primary] == ["markovscale_t"]
    assert {c.tests for c in alone if not c.primary} == {distinct}
    assert {c.tests for c in together if not c.primary} == {2 * distinct}
    assert {c.tests for c in alone if c.primary} == {len(primary)}
    assert {sum(rival.rights(AnswerRule(c.second.rule)).values()) for c in alone} == {best}
    for c, d in zip(alone, together, strict=False):
        assert (c.p_accuracy or 0) <= (c.p_adjusted or 0) <= (d.p_adjusted or 0)


def test_mr_thinking_is_read_alike_whether_it_is_named_or_not(one: RunData) -> None:
    """Naming the opponent changes neither its answer rule nor the difference."""
    named = comparisons_of([one], ["markovscale_t", "mr_thinking"])
    unnamed = [c for c in comparisons_of([one], []) if c.first.kind == "markovscale_t"]

    assert [(c.second.rule, c.accuracy) for c in named] == [
        (c.second.rule, c.accuracy) for c in unnamed
    ]


@pytest.mark.parametrize(
    ("n", "only_first", "only_second", "low", "high"),
    [(60, 9, 3, -0.019, 0.213), (30, 6, 2, -0.064, 0.314)],
)
def test_one_pair_has_one_interval(
    n: int, only_first: int, only_second: int, low: float, high: float
) -> None:
    """A run's page and the paper's show adjusted Wald, by the same function."""
    right = np.zeros((2, n))
    right[0, :only_first] = right[1, only_first : only_first + only_second] = 1
    sides = [
        Column(backbone="b", benchmark="q", method="m", kind="k", n=1, rule="last",
               right_Q=one, tokens_Q=np.ones(n))
        for one in right
    ]  # fmt: skip
    made = compare(*sides)
    assert made is not None
    assert made.accuracy is not None

    assert (made.accuracy.low, made.accuracy.high) == pytest.approx((low, high), abs=5e-4)


def test_a_cell_against_itself_shows_no_difference(one: RunData) -> None:
    """Zero difference, no discordant question, and an interval that is not empty for all that."""
    made = pair(cell(one, "mr_thinking"), cell(one, "mr_thinking"))
    assert made is not None
    assert made.accuracy is not None
    low, high = made.accuracy.low, made.accuracy.high

    assert (made.accuracy.value, made.tokens.value) == (0.0, 0.0)
    assert (made.only_first, made.only_second) == (0, 0)
    assert low == -high < 0
    assert not made.distinguishable


def test_ungraded_questions_leave_the_pairs(one: RunData) -> None:
    """What is ungraded on one side is left out of both and counted."""
    first, second = cell(one, "base"), cell(one, "mr_thinking")
    rows = [dict(row) for row in first.rows]
    rows[0]["verdict_last"] = "ungraded"
    made = pair(replace(first, rows=tuple(rows)), second)
    assert made is not None

    assert (made.n_questions, made.left_out) == (23, 1)


def test_without_grades_only_tokens_are_compared(one: RunData) -> None:
    """Nothing graded: no test, no difference in accuracy, tokens all the same."""
    first, second = cell(one, "base"), cell(one, "mr_thinking")
    blind = tuple({**row, "verdict_last": None, "error": None} for row in first.rows)
    made = pair(replace(first, rows=blind), second)
    assert made is not None

    assert (made.n_questions, made.accuracy, made.p_adjusted) == (0, None, None)
    assert made.tokens.value < 0
    assert corrected([(made, "accuracy")]) == {}


def test_rules_apply_by_what_is_graded(one: RunData) -> None:
    """Where every graded question failed, all are wrong, as in summary.json: whether one without a
    gold answer went well says nothing."""
    rows = [{**row, "error": "lost"} for row in cell(one, "base").rows]
    rows[0] |= {"error": None, "verdict_last": None}
    blind = frozenset([(rows[0]["benchmark"], rows[0]["question_id"])])
    failed = replace(cell(one, "base"), rows=rows, without_gold=blind)

    assert failed.rights(AnswerRule.LAST) == dict.fromkeys(failed.by_question.keys() - blind, False)


def test_the_adjusted_interval_is_that_of_bonett_and_price() -> None:
    """Their worked form: ((f12 + 1) - (f21 + 1)) / (n + 2) and its half width."""
    low, high = adjusted_wald(2, 0, 30)
    one, other = 3 / 32, 1 / 32
    half = 1.959964 * math.sqrt((one + other - (one - other) ** 2) / 32)

    assert (low, high) == pytest.approx((one - other - half, one - other + half), abs=1e-6)


def test_means_have_the_interval_of_student() -> None:
    """Against the textbook: 1, 2, 3 has mean 2 and half width 4.303 / sqrt(3)."""
    found, single = mean_interval([1.0, 2.0, 3.0]), mean_interval([5.0])

    assert (found.value, found.half_width) == pytest.approx((2.0, 4.3027 / math.sqrt(3)), abs=1e-4)
    assert (single.low, single.high) == (5.0, 5.0)


def test_the_share_saved_covers() -> None:
    """The delta method's interval of a ratio of paired means holds its level in simulation."""
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(1_000):
        second = rng.gamma(4, 100, size=60)
        first = second * rng.uniform(0.2, 0.8, size=60)
        saved = share_saved(first.tolist(), second.tolist())
        assert saved is not None
        hits += saved.low <= 0.5 <= saved.high

    assert 0.93 < hits / 1_000 < 0.97
    assert share_saved([0.0], [0.0]) is None
