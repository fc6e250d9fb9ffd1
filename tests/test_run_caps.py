"""Caps of a whole run: what counts, and which one is reached."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.run import RunConfig
from pipeline.config.runtime import LimitsConfig
from pipeline.core.errors import ConfigError
from pipeline.planning.phase_work import phase_work
from pipeline.planning.run_caps import Spent, reached, spent_in_time
from pipeline.records.questions import SCHEMA as QUESTION_SCHEMA
from pipeline.strategies.markovscale import MarkovScaleT
from pipeline.strategies.sequential import Base, MRThinking


def limits(**values: float) -> LimitsConfig:
    return LimitsConfig.model_validate(values)


def run_values(**of_runtime: Any) -> dict[str, Any]:
    return {
        "science": {
            "benchmarks": [{"name": "arithmetic", "size": 4}],
            "strategies": ["base"],
            "generator": {"model": "none"},
        },
        "runtime": of_runtime,
    }


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"completion_tokens": 0}, "limits.completion_tokens must be greater than 0, got 0"),
        ({"completion_tokens": -5}, "limits.completion_tokens must be greater than 0, got -5"),
        ({"completion_tokens": 1.5}, "limits.completion_tokens must be a whole number"),
        ({"gpu_hours": math.nan}, "limits.gpu_hours: must be a finite number, got nan"),
        ({"wall_hours": math.inf}, "limits.wall_hours: must be a finite number, got inf"),
        ({"wall_hours": True}, "limits.wall_hours: must be a number, got true"),
        ({"usd": 5}, "limits: usd must have a price, .* got 5 and neither"),
        ({"usd": 5, "price_gpu_hour": 0}, "limits.price_gpu_hour must be greater than 0, got 0"),
        ({"tokens": 5}, "limits.tokens is not a field"),
    ],
)
def test_caps_that_cannot_be_are_refused(values: dict[str, Any], words: str) -> None:
    """One line that names field, what must hold and what came."""
    with pytest.raises(ConfigError, match=words) as refused:
        RunConfig.parse(run_values(limits=values))
    assert "\n" not in str(refused.value)


def test_gpu_hours_need_gpus() -> None:
    """On pools without GPUs the cap would never be reached."""
    none = {"num_gpus": 0}
    pools = {"generator": none, "verifier": none}
    with pytest.raises(ConfigError, match=r"limits\.gpu_hours must come with a pool"):
        RunConfig.parse(run_values(limits={"gpu_hours": 1}, **pools))


def test_caps_are_no_part_of_the_science() -> None:
    """A resume may set, raise and lift them."""
    free, capped = (
        RunConfig.parse(run_values(**of)) for of in ({}, {"limits": {"completion_tokens": 9}})
    )
    assert free.science_digest() == capped.science_digest()


def test_the_first_cap_that_is_reached_is_named() -> None:
    """Each in its own unit; money adds up where both prices are given."""
    spent = Spent(tokens=2e6, gpu_s=7200, wall_s=1800)
    both = limits(usd=8, price_gpu_hour=2, price_million_tokens=2)

    assert reached(spent, limits()) is None
    assert reached(spent, limits(completion_tokens=2_000_001, gpu_hours=2.1)) is None
    assert reached(spent, limits(completion_tokens=2_000_000)) == "completion_tokens"
    assert reached(spent, limits(gpu_hours=2, wall_hours=0.5)) == "gpu_hours"
    assert spent.amounts(both) == {"usd": 8.0}
    assert reached(spent, both) == "usd"


def test_time_of_all_attempts_adds_up() -> None:
    """The last row of each tells what it spent; where a row does not, its times and replicas do."""
    old = {"attempt": 1, "engines": {"generator": [{}, {}], "verifier": [{}]}}
    rows = [
        {**old, "time": 110.0, "phase_seconds": 10.0},
        {**old, "time": 160.0, "phase_seconds": 60.0},
        {"attempt": 2, "time": 900.0, "spent": {"gpu_s": 1.0, "wall_s": 2.0}},
        {"attempt": 2, "time": 950.0, "spent": {"gpu_s": 30.0, "wall_s": 50.0}},
    ]
    found = spent_in_time(rows, {"generator": 1.0, "verifier": 0.5})

    assert found == Spent(gpu_s=60 * 2.5 + 30, wall_s=60 + 50)
    assert spent_in_time([], {}) == Spent()


def rows(golds: list[str | None], **more: Any) -> list[dict[str, Any]]:
    empty = dict.fromkeys(QUESTION_SCHEMA.names)
    return [
        {
            **empty,
            "benchmark": "b",
            "question_id": str(number),
            "text": "?",
            "gold": gold,
            "seed": 0,
            "p0": number / 10,
            "p0_source": "priors_file",
            "a": 0.1,
            "b": 0.3,
            **more,
        }
        for number, gold in enumerate(golds)
    ]


@given(golds=st.lists(st.sampled_from(["1", "2", None]), min_size=9, max_size=9))
def test_the_order_does_not_depend_on_gold_answers(golds: list[str | None]) -> None:
    """The longest expected chains come first."""
    strategies: dict[str, Any] = {"t": MarkovScaleT(n=4), "mr": MRThinking(n=8), "base": Base()}

    def order(given: list[str | None]) -> list[tuple[str, str]]:
        work = phase_work(strategies, 0, rows(given), {}, set())
        return [(row["strategy"], row["question_id"]) for row in work]

    assert order(golds) == order(["1"] * 9)
    assert [label for label, _ in order(golds)][:9] == ["mr"] * 9
