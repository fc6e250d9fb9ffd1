"""N, r and i are counted as the paper's own tables count them."""

import csv
import os
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.core.prompts import Prompts
from pipeline.core.protocol import (
    Completion,
    Decoding,
    Priors,
    Question,
    Stop,
    StopReason,
    decisions,
)
from pipeline.strategies import STRATEGIES
from pipeline.strategies.sequential import Plan, advance, begin
from pipeline.theory.markov import accuracy_after, rounds_to_reach, stop_as_printed
from pipeline.theory.posterior import BetaPosterior
from pipeline.theory.stopping import StopRule

SHARED = Path(os.environ.get("MARKOVSCALE_SHARED", Path(__file__).parents[2] / "shared"))
PAPER = SHARED / "paper"
needs_paper = pytest.mark.skipif(not PAPER.is_dir(), reason="the paper's tables are not here")

BACKBONE = "Deepseek-R1-Distill-Qwen-7B"
QUESTION = Question(benchmark="aime24", question_id="1", text="1 + 1?")


def rows(name: str) -> list[dict[str, str]]:
    """One of the paper's tables."""
    with (PAPER / name).open() as file:
        return list(csv.DictReader(file))


def curve(benchmark: str) -> dict[int, float]:
    """MR-Thinking's tokens a question by completions drawn, as the paper's authors measured."""
    return {
        int(row["rounds"]): float(row["tokens_per_question"])
        for row in rows("mr_thinking_curves.csv")
        if row["benchmark"] == benchmark
    }


def drive(strategy, question: Question, tokens: list[int], score: float) -> tuple[Stop, int]:
    """Run a strategy whose r-th completion costs `tokens[r]`: its stop and what it cost."""
    run, total = decisions(strategy, question), 0
    requests = next(run)
    while True:
        (request,) = requests
        total += tokens[request.round]
        completion = Completion(
            text="2", answer="2", score=score, completion_tokens=tokens[request.round]
        )
        try:
            requests = run.send([completion])
        except StopIteration as stopped:
            return stopped.value, total


@needs_paper
@pytest.mark.parametrize("benchmark", ["MATH-500", "GSM8K", "AIME 2024", "AIME 2025", "AMC 2023"])
@pytest.mark.parametrize("n", [8, 16, 32, 64])
def test_mr_thinking_at_n_is_the_curve_at_n_completions(benchmark: str, n: int) -> None:
    """All 20 cells: N counts completions, the first answer among them."""
    (cell,) = [
        int(float(row["tokens_per_question"]))
        for row in rows("variants.csv")
        if (row["backbone"], row["method"], row["benchmark"], int(row["n"]))
        == (BACKBONE, "MR-Thinking", benchmark, n)
    ]
    by_completions = curve(benchmark)

    assert cell == pytest.approx(by_completions[n], abs=0.6)
    assert min(by_completions, key=lambda drawn: abs(by_completions[drawn] - cell)) == n


@needs_paper
def test_stopping_at_once_costs_the_first_completion_alone() -> None:
    """gamma = 10 and tau <= 0.87 on AIME 2024: every cell is the curve at 1 completion."""
    cells = {
        int(row["tokens_per_question"])
        for row in rows("gamma.csv")
        if row["gamma"] == "10" and float(row["tau"]) <= 0.87
    }

    assert cells == {9_884}
    assert curve("AIME 2024")[1] == pytest.approx(9_884, abs=0.6)
    assert curve("AIME 2024")[8] == pytest.approx(78_432, abs=0.6)


@needs_paper
def test_our_strategies_pay_what_the_paper_s_cells_say() -> None:
    """Driven with the curve's costs, N = 8 pays 78,432 tokens and a gated question 9,884."""
    cumulative = [0.0, *(curve("AIME 2024")[n] for n in range(1, 65))]
    tokens = [round(after) - round(before) for before, after in pairwise(cumulative)]
    gated = Question(
        benchmark="aime24",
        question_id="1",
        text="1 + 1?",
        priors=Priors(p0=0.9, p0_source="predictor", a=0.1, b=0.3),
    )
    _, of_chain = drive(STRATEGIES["mr_thinking"](n=8), QUESTION, tokens, 0.5)
    stop, of_gated = drive(STRATEGIES["markovscale_star"](n=8), gated, tokens, 0.5)

    assert of_chain == 78_432
    assert (stop.reason, stop.rounds, of_gated) == (StopReason.GATED, (0,), 9_884)


@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_a_chain_of_n_draws_rounds_0_to_n_minus_1(n: int) -> None:
    """The first answer is round 0 and counts."""
    stop, drawn = drive(STRATEGIES["mr_thinking"](n=n), QUESTION, [1] * n, 0.5)

    assert (stop.reason, stop.rounds, drawn) == (StopReason.BUDGET, tuple(range(n)), n)


def chain(plan: Plan, score: float) -> tuple[Stop, list[float]]:
    """Run a plan to its stop with one score for every answer."""
    state, action = begin(QUESTION, plan)
    while not isinstance(action, Stop):
        state, action = advance(state, [Completion(text="2", answer="2", score=score)])
    return action, list(state.path)


@pytest.mark.parametrize("p0", [0.75, 0.8, 1.0])
def test_a_gated_question_costs_one_completion(p0: float) -> None:
    """p0 >= L = 0.75 ends the chain after round 0, before the stopping rule is asked."""
    plan = Plan(
        n=64,
        decoding=Decoding(),
        prompts=Prompts(),
        score=True,
        gate=True,
        stop_rule=StopRule.PRINTED,
        tau=0.5,
        a=0.1,
        b=0.3,
        p0=p0,
        p0_source="predictor",
    )
    stop, path = chain(plan, 0.9)

    assert (stop.reason, stop.rounds, len(path)) == (StopReason.GATED, (0,), 1)


@pytest.mark.parametrize("tau", [0.1, 0.55, 0.6, 0.65, 0.7, 0.74])
def test_the_printed_rule_counts_i_from_one(tau: float) -> None:
    """A chain that stops after round r was the first to pass Algorithm 1's test, at i = r + 1."""
    a, b, p0, score = 0.02, 0.06, 0.3, 0.3
    plan = Plan(
        n=200,
        decoding=Decoding(),
        prompts=Prompts(),
        score=True,
        stop_rule=StopRule.PRINTED,
        tau=tau,
        a=a,
        b=b,
        p0=p0,
        p0_source="predictor",
    )
    stop, path = chain(plan, score)
    posterior, i = BetaPosterior.prior(p0_hat=p0, gamma=10), 0
    while True:
        i, posterior = i + 1, posterior.update(score)
        if stop_as_printed(i, p_map=posterior.map, a=a, b=b, tau=tau):
            break

    assert (stop.reason, stop.rounds) == (StopReason.CONFIDENT, tuple(range(i)))
    assert len(path) == i


@pytest.mark.parametrize(("tau", "rounds"), [(0.3, 1), (0.5, 2), (0.7, 5), (0.749, 13)])
def test_reaching_round_r_costs_r_plus_1_completions(tau: float, rounds: int) -> None:
    """`rounds_to_reach` answers in rounds after the first answer."""
    found = rounds_to_reach(tau, p0=0.2, a=0.1, b=0.3)
    stop, drawn = drive(STRATEGIES["mr_thinking"](n=rounds + 1), QUESTION, [1] * (rounds + 1), 0.5)

    assert found == rounds == stop.rounds[-1]
    assert drawn == rounds + 1
    assert accuracy_after(rounds, p0=0.2, a=0.1, b=0.3) >= tau
