"""Expected work of chains: from forecasts, from what was seen, and from what a chain has drawn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.protocol import Completion, Failure, Observation, Priors, Question
from pipeline.planning.phase_work import Forecast, forecast, phase_work
from pipeline.records.questions import SCHEMA as QUESTION_SCHEMA
from pipeline.strategies.markovscale import MarkovScaleT
from pipeline.strategies.sequential import Base, MRThinking


def question(**priors: Any) -> Question:
    return Question(benchmark="b", question_id="1", text="?", priors=Priors(**priors))


@pytest.mark.parametrize(
    ("strategy", "priors", "completions"),
    [
        (Base(), {}, 1),
        (MRThinking(n=8), {}, 8),
        # L = 0.75 is below p0: the gate lets one completion through
        (MarkovScaleT(n=8), {"p0": 0.9, "a": 0.1, "b": 0.3}, 1),
        (MarkovScaleT(n=8), {"p0": 0.1, "a": 0.1, "b": 0.3}, 8),
        # without a forecast of p0 nothing is known but the budget
        (MarkovScaleT(n=8), {"a": 0.1, "b": 0.3}, 8),
    ],
)
def test_expected_completions(strategy: Any, priors: dict[str, float], completions: int) -> None:
    """A chain is expected to take its budget, unless gate or stopping rule cut it off."""
    assert forecast(strategy, question(**priors)).completions == completions


@pytest.mark.parametrize(
    ("prior", "mean", "each"), [(70.0, 50.0, 70.0), (None, 50.0, 50.0), (None, None, 1_000.0)]
)
def test_tokens_of_a_round(prior: float | None, mean: float | None, each: float) -> None:
    """The question's own forecast, else the benchmark's mean, else a constant."""
    found = forecast(MRThinking(n=4), question(tokens_per_round=prior), None, mean)

    assert found == Forecast(completions=4, tokens_each=each)
    assert found.tokens == 4 * each


def drawn(*tokens: int | None) -> list[Observation]:
    """Completions of so many tokens; None for a failure."""
    return [
        Failure(error="engine: x") if t is None else Completion(text="", completion_tokens=t)
        for t in tokens
    ]


@pytest.mark.parametrize(
    ("seen", "remaining"),
    [
        ((), 400.0),
        ((10,), 30.0),
        ((10, 30), 40.0),
        ((10, 30, 20, 20, 20), 20.0),  # longer than expected, and still going on
        ((None,), 400.0),
        ((None, 10), 30.0),
        ((0,), 300.0),
    ],
)
def test_what_a_chain_drew_is_the_forecast_of_its_rest(
    seen: tuple[int | None, ...], remaining: float
) -> None:
    """Rounds still to come, times the chain's own mean once it has one."""
    assert Forecast(completions=4, tokens_each=100.0).remaining(drawn(*seen)) == remaining


@settings(max_examples=50)
@given(
    st.integers(1, 64),
    st.floats(1, 1e5),
    st.lists(st.one_of(st.none(), st.integers(0, 10_000)), max_size=70),
)
def test_a_chain_that_goes_on_always_has_something_left(
    completions: int, each: float, seen: list[int | None]
) -> None:
    """Remaining work is positive, and that of an untouched chain is all of it."""
    expected = Forecast(completions=completions, tokens_each=each)

    assert expected.remaining(drawn(*seen)) > 0
    assert expected.remaining([]) == expected.tokens


def test_phase_work_is_ordered_by_what_is_expected() -> None:
    """Benchmarks that are served together are fed by what each has been seen to take."""
    blank = dict.fromkeys(QUESTION_SCHEMA.names)
    questions = [
        {**blank, "benchmark": "short", "question_id": "1", "text": "?", "seed": 1},
        {**blank, "benchmark": "long", "question_id": "1", "text": "?", "seed": 2},
        {
            **blank,
            "benchmark": "short",
            "question_id": "2",
            "text": "?",
            "seed": 3,
            "tokens_per_round": 90.0,
        },
    ]
    strategies = {"mr": MRThinking(n=2)}
    means = {"short": 10.0, "long": 40.0}
    work = phase_work(strategies, 0, questions, {}, set(), means)

    asked = [(r["benchmark"], r["question_id"], r["expected_tokens"]) for r in work]
    assert asked == [("short", "2", 180.0), ("long", "1", 80.0), ("short", "1", 20.0)]
    assert {r["expected_completions"] for r in work} == {2}
