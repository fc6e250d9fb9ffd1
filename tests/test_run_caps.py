"""Caps of a whole run: what counts, how controllers share what is left, and which chains go on."""

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
from pipeline.planning.run_caps import (
    Spent,
    TokenLeases,
    most_tokens,
    reached,
    select_under_budget,
    spent_in_time,
    tokens_left,
)
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


def test_what_is_left_is_the_least_of_all_caps() -> None:
    """Tokens at once, time by the speed of the run; without a speed nothing is said of time."""
    spent, caps = Spent(tokens=1_000, wall_s=3_000), limits(completion_tokens=9_000, wall_hours=1)
    timed = limits(usd=2, price_gpu_hour=1, price_million_tokens=100)

    assert most_tokens(spent, caps) == 8_000
    assert tokens_left(spent, caps, tokens_per_s=0, gpus=1) == 8_000
    assert tokens_left(spent, caps, tokens_per_s=10, gpus=1) == pytest.approx(6_000)
    assert most_tokens(spent, limits(wall_hours=1)) == math.inf
    # 1.9 USD are left; a second costs 1 / 3600 of the GPU and 0.001 for its ten tokens
    assert tokens_left(spent, timed, tokens_per_s=10, gpus=1) == pytest.approx(
        10 * 1.9 / (1 / 3600 + 0.001)
    )
    assert tokens_left(Spent(tokens=10_000), caps, tokens_per_s=10, gpus=1) == 0


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


@given(
    cap=st.integers(1, 2_000),
    controllers=st.integers(1, 4),
    moves=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["start", "end", "ask"]), st.integers(0, 90)),
        max_size=200,
    ),
)
def test_a_cap_is_passed_by_no_more_than_what_is_in_flight(
    cap: int, controllers: int, moves: list[tuple[int, str, int]]
) -> None:
    """Whatever controllers do and in whatever order: what all spend is at most the cap and, of each
    controller, what was in flight when it had used up its own share."""
    allotment = TokenLeases(controllers, cap)
    spent, held = [0] * controllers, [0.0] * controllers
    over = [0] * controllers
    flying: list[list[int]] = [[] for _ in range(controllers)]
    for who, what, tokens in moves:
        who %= controllers
        if what == "start" and spent[who] < held[who]:
            flying[who].append(tokens)
        elif what == "ask":
            held[who] = allotment.renew(str(who), spent[who], held[who], wanting=True)
        if spent[who] < held[who]:
            over[who] = sum(flying[who])
        if what == "end" and flying[who]:
            spent[who] += flying[who].pop(0)
        assert sum(spent) <= cap + sum(over)


@given(cap=st.integers(1, 5_000), controllers=st.integers(1, 5), each=st.integers(1, 100))
def test_a_cap_is_used_up_though_only_one_controller_has_work(
    cap: int, controllers: int, each: int
) -> None:
    """What the others do not need comes to it, and nobody waits for ever below the cap."""
    allotment = TokenLeases(controllers, cap)
    for idle in range(1, controllers):
        assert allotment.renew(str(idle), 0, 0, wanting=False) == 0
    spent, held, asked = 0, 0.0, 0
    while spent < cap:
        held = allotment.renew(
            "0", spent, min(held, spent + allotment.left / controllers), wanting=True
        )
        assert held > spent
        while spent < held:
            spent += each
        asked += 1
    assert allotment.renew("0", spent, held, wanting=True) == spent
    assert asked <= 2 + controllers * math.log(cap + 1) + cap / each


def test_what_a_controller_that_is_gone_held_is_free() -> None:
    """But for what is counted of what it spent; until then not one token of it is."""
    allotment = TokenLeases(2, 100)
    assert [allotment.renew(name, 0, 0, wanting=True) for name in "ab"] == [50, 50]
    assert allotment.renew("c", 0, 0, wanting=True) == 0  # all is leased, though c has no lease
    assert allotment.renew("b", 50, 50, wanting=True) == 50
    allotment.renew("a", 30, 50, wanting=True)
    allotment.end("a", 20)

    assert allotment.left == 30
    assert allotment.renew("b", 50, 50, wanting=True) == 65


@given(
    chains=st.dictionaries(st.text("abcdef", min_size=1, max_size=4), st.floats(1, 4_000)),
    left=st.floats(0, 5_000),
)
def test_those_that_go_on_fit_what_is_left(chains: dict[str, float], left: float) -> None:
    """All where all fit, one at least, and else as many as fit: the next shortest does not."""
    taken = select_under_budget(chains, left)
    need = math.fsum(chains[name] for name in taken)
    waiting = [chains[name] for name in chains.keys() - taken]

    assert len(taken) >= min(1, len(chains))
    assert len(taken) == 1 or need <= left + 1e-6
    assert all(chains[name] <= min(waiting, default=math.inf) for name in taken)
    assert not waiting or need + min(waiting) > left - 1e-6


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
    """Neither with room for all, longest first, nor under a cap, shortest first."""
    strategies: dict[str, Any] = {"t": MarkovScaleT(n=4), "mr": MRThinking(n=8), "base": Base()}

    def order(given: list[str | None], left: float) -> list[tuple[str, str]]:
        work = phase_work(strategies, 0, rows(given), {}, set(), None, left)
        return [(row["strategy"], row["question_id"]) for row in work]

    for left in (math.inf, 10.0):
        assert order(golds, left) == order(["1"] * 9, left)
    assert [label for label, _ in order(golds, math.inf)][:9] == ["mr"] * 9
    assert [label for label, _ in order(golds, 10.0)][-9:] == ["mr"] * 9


def test_under_a_cap_the_shortest_chains_begin_first() -> None:
    """A gated question takes one completion; equal ones begin as they stand."""
    work = phase_work({"t": MarkovScaleT(n=4)}, 0, rows(["1"] * 10), {}, set(), {"b": 10.0}, 50.0)
    turns = [row["turn"] for row in work]

    assert turns == sorted(turns, reverse=True)
    assert [row["question_id"] for row in work] == ["8", "9", *map(str, range(8))]
    assert [row["expected_completions"] for row in work[:3]] == [1, 1, 4]
