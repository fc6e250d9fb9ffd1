"""Fronts of sweeps and of the paper's page: which families, which controls, what is shown."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.synthetic_pool import write_synthetic_pool
from jobs import sweep as sweep_job
from pipeline.answers.answer_rules import AnswerRule
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Decisions, PhaseStats, Question, Stop, StopReason
from pipeline.paper.beliefs import from_other_half, settling_on_other_half
from pipeline.paper.controls import gate_controls
from pipeline.paper.evaluation import Evaluation, evaluate
from pipeline.paper.opponents import (
    PROBABILITIES,
    SETTLING,
    UNTIL_ALIKE,
    UNTIL_SCORE,
    VOTE_THRESHOLDS,
    agree_weights,
    cheapest,
    families_of,
    fronts_of,
)
from pipeline.paper.p0 import MAPPED
from pipeline.paper.replays import Maker
from pipeline.predictors.agreement_training import fit_agreement
from pipeline.replay.chain_arrays import RIGHT
from pipeline.replay.costs import Cost
from pipeline.replay.fronts import MARKS, SCHEMA, budgets, control_settings, sweep_fronts
from pipeline.replay.judging import judged_by_state_machine, rights
from pipeline.replay.pools import CompletionPool, read_pool
from pipeline.replay.sweep import sweep
from pipeline.report.fronts_view import fronts_name
from pipeline.statistics.fronts import Family
from pipeline.strategies.chain_agreement import Agree, ChainASC
from pipeline.strategies.sequential import MRThinking, Revisions

POOL = "tests/data/pool"
CONTROLS = ("chain_asc (vote)", "mr_thinking (vote)", "markovscale_star (vote)")
GRIDS = """
strategies:
  - {kind: asc, n: [2, 4]}
priors: {a: 0.06, b: 0.3}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stable(ChainASC):
    """A user's own chain strategy: stops where two answers in a row are the same."""

    kind: ClassVar[str] = "stable"
    default_rule: ClassVar[str] = "last"

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Stop on two equal answers, or at N."""
        chain, reason = Revisions(question, self), StopReason.BUDGET
        while len(chain.completions) < self.n and reason is StopReason.BUDGET:
            if (yield from chain.draw(score=self.score)) is None:
                reason = StopReason.FAILED
            elif len(chain.answers) > 1 and chain.answers[-1] == chain.answers[-2]:
                reason = StopReason.AGREED
        return Stop(reason=reason, rounds=tuple(range(len(chain.completions))))


@lru_cache(maxsize=1)
def made() -> Evaluation:
    """The evaluation of the small recorded pool."""
    return evaluation(read_pool(POOL))


def evaluation(pool: CompletionPool) -> Evaluation:
    believed = from_other_half(pool)
    return evaluate(believed, "tiny", Maker(pool.science, believed.p0_source))


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An exported pool of 240 made-up questions, with fewer samples than rounds."""
    address = str(tmp_path_factory.mktemp("fronts") / "pool")
    write_synthetic_pool(address, questions=240, rounds=8, samples=4)
    return address


@pytest.fixture(scope="module")
def table(pool: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``jobs.sweep`` writes for a grid without any control."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "grids.yaml").write_text(GRIDS)
    command = ["--pool", pool, "--config", str(folder / "grids.yaml"), "--quiet"]
    assert sweep_job.main([*command, "--out", str(folder / "sweep.parquet")]) == 0
    return folder / "sweep.parquet"


@pytest.fixture(scope="module")
def swept(table: Path) -> list[dict[str, Any]]:
    """The rows of its fronts."""
    assert set(pq.read_table(table)["strategy"].to_pylist()) == {"asc"}
    fronts = pq.read_table(table.with_name(fronts_name(table.name)))
    assert fronts.schema.equals(SCHEMA)
    rows: list[dict[str, Any]] = fronts.to_pylist()
    return rows


def test_the_controls_are_always_there(swept: list[dict[str, Any]]) -> None:
    """A grid of one strategy has all three beside it, and is held against each, at every mark and
    in the mean, on every benchmark; none is held against itself."""
    benchmarks = {row["benchmark"] for row in swept}
    assert benchmarks
    for benchmark in benchmarks:
        own = [row for row in swept if row["benchmark"] == benchmark]
        assert {*CONTROLS, "asc (vote)"} <= {row["family"] for row in own}
        for measure in ("mean_difference", "tokens_ratio"):
            pairs = [(r["family"], r["against"]) for r in own if r["measure"] == measure]
            assert {against for family, against in pairs if family == "asc (vote)"} == {*CONTROLS}
            assert all(family != against for family, against in pairs)
            assert len(pairs) == len(set(pairs))


def test_differences_are_those_of_the_accuracies(swept: list[dict[str, Any]]) -> None:
    """At every marked budget and in the mean, and turned around they change sign; accuracies are
    shares within their intervals."""
    at = {(r["benchmark"], r["family"], r["against"], r["measure"], r["tokens"]): r for r in swept}
    for (benchmark, family, against, measure, tokens), row in at.items():
        if row["low"] is not None:
            assert row["low"] <= row["value"] <= row["high"]
        if measure not in ("difference", "mean_difference"):
            continue
        kind = measure.replace("difference", "accuracy")
        mine, theirs = (at[benchmark, f, None, kind, tokens]["value"] for f in (family, against))
        assert row["value"] == pytest.approx(mine - theirs)
        if (benchmark, against, family, measure, tokens) in at:
            back = at[benchmark, against, family, measure, tokens]
            assert back["value"] == pytest.approx(-row["value"])
            assert back["low"] == pytest.approx(-row["high"])
    marks = {
        round(r["tokens"] / r["base_tokens"], 6) for r in swept if r["measure"] == "difference"
    }
    assert marks <= {float(mark) for mark in MARKS}


def test_a_setting_on_a_front_is_what_the_state_machine_gives() -> None:
    """Tokens and accuracy of every setting shown are those of the half that it is judged on."""
    pool = read_pool(POOL)
    tried = [*control_settings(pool), ("mine", MRThinking(n=3, **shared(pool)))]
    result = sweep(pool, tried)
    rows = [r for r in sweep_fronts(result) if r["family"] == "mine (last)"]
    exact = judged_by_state_machine(pool, tried[-1][1])
    found = [r for r in rows if r["measure"] == "setting" and r["setting"] != "base"]
    for row in found:
        mine = result.group_Q % 2 == row["half"]
        assert row["tokens"] == pytest.approx(exact.tokens_Q[mine].mean())
        assert row["value"] == pytest.approx(rights(exact, AnswerRule.LAST)[mine].mean())
    assert rows


def shared(pool: CompletionPool) -> dict[str, Any]:
    return {"decoding": pool.science.decoding, "prompts": pool.science.prompts}


def test_a_new_chain_strategy_is_swept_as_deep_as_the_chains(pool: str) -> None:
    """Depth goes by what a strategy asks for first, not by its class: N = 8 over 8 rounds and 4
    samples. It is judged by its own decisions, not by those of the class that it is derived from,
    and it has a front of its own."""
    read = read_pool(pool)
    settings = [("stable", Stable(n=n, **shared(read))) for n in (2, 4, 8)]
    result = sweep(read, [*control_settings(read), *settings])
    assert "stable (last)" in {row["family"] for row in sweep_fronts(result)}
    for tally, (_, strategy) in zip(result.settings[-3:], settings, strict=True):
        exact = judged_by_state_machine(read, strategy)
        np.testing.assert_array_equal(tally.judged.completions_Q, exact.completions_Q)
        np.testing.assert_array_equal(tally.judged.verdict_RQ, exact.verdict_RQ)


def test_weights_of_agree_are_fitted_on_the_other_half() -> None:
    """The family's answers of a half are those of the state machine with weights of the other."""
    weights = agree_weights(made(), made().believed.half_Q)
    assert weights is not None
    chains, half_Q = made().replays.chains, made().believed.half_Q
    for half in (0, 1):
        at = half_Q == half
        assert weights[half] == fit_agreement(
            chains.form_QT[at], chains.score_QT[at], (chains.verdict_QT == RIGHT)[at],
            chains.length_Q[at],
        )  # fmt: skip
    family = families()["Agree"]
    tried = list(itertools.product(budgets(8), PROBABILITIES, VOTE_THRESHOLDS))
    place = tried.index((8, 0.9, 0.95))
    for half in (0, 1):
        own = {"weights": weights[1 - half], **shared(made().pool)}
        strategy = Agree(n=8, tau=0.9, vote_threshold=0.95, **own)
        exact = judged_by_state_machine(made().pool, strategy)
        mine = half_Q == half
        right_Q = rights(exact, AnswerRule.VOTE)
        np.testing.assert_array_equal(family.right_SQ[place, mine], right_Q[mine])
        np.testing.assert_array_equal(family.tokens_SQ[place, mine], exact.tokens_Q[mine])


@lru_cache(maxsize=1)
def families() -> dict[str, Family]:
    """Every opponent on the small pool, by name."""
    weights = agree_weights(made(), made().believed.half_Q)
    return {family.name: family for family in families_of(made(), weights)}


@pytest.mark.slow
def test_the_paper_has_all_families_and_the_star_by_its_own_rule_as_a_control() -> None:
    """Chains, variants, agree and samplers, MR-Thinking by every rule; means over ten splits with
    their spread, weights of agree fitted anew on each."""
    rows = fronts_of(made(), list(families().values()))
    assert {"Chain ASC", "Agree", "MR-Thinking, prm_argmax", "MarkovScale*", "ASC", "Best-of-N",
            "Settled", "Expected Agreement, rounds", "Expected Agreement", SETTLING,
            UNTIL_SCORE, UNTIL_ALIKE} <= {row["family"] for row in rows}  # fmt: skip
    assert {row["against"] for row in rows if row["against"]} == {
        "Chain ASC", "MR-Thinking, vote", UNTIL_SCORE, "MarkovScale*",
    }  # fmt: skip
    assert {row["backbone"] for row in rows} == {"tiny"}
    for row in rows:
        if row["measure"] == "mean_accuracy":
            assert row["split_sd"] is not None
            assert row["low"] <= row["value"] <= row["high"]


def test_the_settling_chain_is_fitted_on_the_other_half() -> None:
    """a, b and kept of the half that a question is not in, as the state machine decides by them."""
    half_Q, family = made().believed.half_Q, families()[SETTLING]
    believed, kept = settling_on_other_half(made().pool, half_Q)
    place = family.settings.index("N 8, price 0.01")
    for half in (0, 1):
        strategy = made().replays.make(
            "markovscale_star", n=8, chain="settling", kept=kept[1 - half], price=0.01
        )
        exact = judged_by_state_machine(believed.judged, strategy)
        mine = half_Q == half
        np.testing.assert_array_equal(family.tokens_SQ[place, mine], exact.tokens_Q[mine])
        own = judged_by_state_machine(believed.tuned, replace(cast(Any, strategy), kept=kept[half]))
        assert family.seen_tokens_SQ is not None
        np.testing.assert_array_equal(family.seen_tokens_SQ[place, mine], own.tokens_Q[mine])


@pytest.mark.parametrize(
    ("family", "kind", "fields", "place"),
    [
        ("MR-Thinking, last", "mr_thinking", {"n": 5}, 4),
        ("Self-Consistency", "self_consistency", {"n": 5}, 4),
        ("Best-of-N", "best_of_n", {"n": 5}, 4),
        ("ASC", "asc", {"n": 6, "threshold": 0.9, "profile": "upstream"}, "N 6, threshold 0.9"),
        ("ESC", "esc", {"n": 8, "window": 4, "profile": "upstream"}, "N 8, window 4"),
    ],
)
def test_families_in_arrays_are_the_strategies(
    family: str, kind: str, fields: dict[str, Any], place: int | str
) -> None:
    """Right and tokens, question by question, are those of the state machine."""
    found = families()[family]
    at = found.settings.index(place) if isinstance(place, str) else place
    strategy = made().replays.make(kind, **fields)
    exact = judged_by_state_machine(made().pool, strategy)
    rule = AnswerRule(strategy.default_rule)
    np.testing.assert_array_equal(found.right_SQ[at], rights(exact, rule))
    np.testing.assert_array_equal(found.tokens_SQ[at], exact.tokens_Q)


def test_the_cheapest_setting_that_reaches_an_accuracy_is_chosen_on_the_other_half() -> None:
    """No cheaper setting of the family is as accurate on the half that chose."""
    star = made().get("markovscale_star", 8)
    assert star is not None
    family, half_Q = families()["MR-Thinking, prm_argmax"], made().believed.half_Q
    column = cheapest(made(), family, star)
    for half in (0, 1):
        mine, other = half_Q == half, half_Q != half
        (place,) = [s for s in range(8) if np.array_equal(
            family.tokens_SQ[s, mine], column.tokens_Q[mine])]  # fmt: skip
        target = np.nanmean(star.right_Q[other])
        accuracies = [float(np.nanmean(family.right_SQ[s, other])) for s in range(8)]
        reached = [s for s in range(8) if accuracies[s] >= target - 1e-12]
        assert place == (reached[0] if reached else int(np.argmax(accuracies)))


def test_costs_are_of_what_a_strategy_needs() -> None:
    """Prompts and the verifier are added, the verifier only where its scores are read; operations
    are 2 a parameter and token, money goes by prices, and what is missing is named."""
    amounts = {
        "completion": 100.0,
        "prompt": 50.0,
        "cached": 20.0,
        "verifier": 150.0,
        "seconds": 0.5,
    }
    spent = {kind: np.array([amount]) for kind, amount in amounts.items()}
    flops = Cost(axis="flops", parameters=(7e9, 1e9))
    usd = Cost(axis="usd", prices=(1.0, 0.1, 4.0, 0.5))

    assert Cost(axis="all_tokens").of(spent, scored=True) == 300
    assert Cost(axis="all_tokens").of(spent, scored=False) == 150
    assert flops.of(spent, scored=True)[0] == pytest.approx(2 * (7 * 130 + 150))
    assert usd.of(spent, scored=False)[0] == pytest.approx(30 + 2 + 400)
    assert Cost(axis="seconds").of(spent, scored=True) == 500
    with pytest.raises(ConfigError, match="cost flops must have the numbers of parameters"):
        Cost(axis="flops")
    with pytest.raises(ConfigError, match="cost usd must have prices"):
        Cost(axis="usd")


def test_the_other_gates_read_the_chance_of_the_question() -> None:
    """Controls of the gate: with p0 counted over samples, and with what was fitted to it."""
    first, *fitted = gate_controls(made(), 8)
    shares = [np.mean([v == "right" for v in q.sample_verdicts]) for q in made().pool.questions]
    believed = made().believed
    for half in (0, 1):
        limit = believed.b[half] / (believed.a[half] + believed.b[half])  # type: ignore[operator]
        mine = np.flatnonzero(believed.half_Q == half)
        gated = {q for q in mine if shares[q] >= limit}
        one = made().replays.chains.tokens_QD[:, 1]
        assert {q for q in mine if first.tokens_Q[q] == one[q]} == gated
    assert [MAPPED in each.method for each in fitted] == [True]
