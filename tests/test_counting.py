"""N, r and i are counted as the paper counts them."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from pipeline.core.protocol import (
    Completion,
    PhaseStats,
    Priors,
    Question,
    Stop,
    StopReason,
    decisions,
)
from pipeline.strategies import STRATEGIES
from pipeline.strategies.sequential import ChainSettings, ChainStrategy
from pipeline.theory.markov import accuracy_after, eq12_holds, rounds_to_reach
from pipeline.theory.posterior import BetaPosterior

QUESTION = Question(benchmark="aime24", question_id="1", text="1 + 1?")


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


def test_our_strategies_pay_what_the_paper_s_cells_say() -> None:
    """The paper's AIME 2024 of a 7B model: one completion costs 9,884 tokens, eight cost 78,432.
    MR-Thinking's cell at N = 8 is the cost of eight, and its cell for a question that stops at once
    that of one: N counts completions, the first answer among them. How the seven later ones share
    their cost is made up; the cells do not depend on it."""
    later = [11_000, 8_500, 9_900, 10_100, 9_200, 9_800]
    tokens = [9_884, *later, 78_432 - 9_884 - sum(later)]
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


@dataclass(frozen=True)
class Chain(ChainStrategy):
    """A chain with settings of its own."""

    kind: ClassVar[str] = "chain"
    own: ChainSettings

    def settings(self, question: Question, statistics: PhaseStats | None = None) -> ChainSettings:
        """The same for every question."""
        return self.own


def chain(settings: ChainSettings, score: float) -> tuple[Stop, list[float]]:
    """Run a chain to its stop with one score for every answer."""
    stop, _ = drive(Chain(own=settings), QUESTION, [1] * settings.n, score)
    assert stop.belief is not None
    return stop, list(stop.belief.path)


@pytest.mark.parametrize("p0", [0.75, 0.8, 1.0])
def test_a_gated_question_costs_one_completion(p0: float) -> None:
    """p0 >= L = 0.75 ends the chain after round 0, before the stopping rule is asked."""
    plan = ChainSettings(
        n=64,
        gate=True,
        stopping=True,
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
    plan = ChainSettings(
        n=200,
        stopping=True,
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
        if eq12_holds(i, p_map=posterior.map, a=a, b=b, tau=tau):
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
