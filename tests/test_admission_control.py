"""What a run does with the rule of admission, on engines and clocks that the test sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.driver.admission_control import AdmissionControl, Stats, StatsPoller
from actors.engines.engine_stats import Meter
from actors.routing.transport import EnginesAddress
from pipeline.config.runtime import RuntimeConfig

SLOTS = 100


class Pools:
    """Engines whose figures the test sets, and who has asked them."""

    def __init__(self, replicas: int = 2, kv_tokens: int = 0) -> None:
        self.generator = [
            Meter(SLOTS).stats(f"g{number}", "generator", kv_tokens) for number in range(replicas)
        ]
        self.verifier = [Meter(8).stats("v0", "verifier", 0)]
        self.answers = 0

    @property
    def latest(self) -> Stats:
        """As `StatsPoller.latest`."""
        return {"generator": self.generator, "verifier": self.verifier}

    @property
    def preemptions(self) -> int:
        """As `StatsPoller.preemptions`."""
        return sum(stats.preemptions for stats in self.generator)

    def say(self, number: int = 0, **figures: Any) -> None:
        """One generator tells something else from now on."""
        self.generator[number] = replace(self.generator[number], **figures)


class Run:
    """A run of one controller, looked at every 2.5 s; 200 slots, so it begins with 300 chains."""

    def __init__(self, pools: Pools, in_flight: int = 300, **runtime: Any) -> None:
        self.pools, self.now, self.told = pools, 100.0, []
        self.totals = {
            "in_flight": 300,
            "waiting": 9,
            "samples": 0,
            "samples_waiting": 0,
            "stops": {},
            "held_s": 0.0,
            "held_token_s": 0.0,
        }
        self.control = AdmissionControl(
            RuntimeConfig.model_validate(runtime),
            1_000,
            EnginesAddress(pools={}, in_flight=in_flight, most=in_flight),
            pools,
            self.told.append,
            clock=lambda: self.now,
        )

    def go(self, looks: int = 1, **totals: Any) -> dict[str, Any]:
        """Some looks later; what stands then."""
        self.totals |= totals
        for _ in range(looks):
            self.now += 2.5
            self.pools.answers += 1
            self.control.step(self.totals)
        return self.control.figures()


def figures(found: dict[str, Any], *names: str) -> list[Any]:
    return [found[name] for name in names]


def test_preemptions_cut_what_is_at_work_to_three_quarters() -> None:
    """The floor alone is admitted until that has drained; then it is refilled, and grows again."""
    run = Run(Pools())
    before = run.go()
    run.pools.say(1, preemptions=3, waiting=5)
    cut = run.go()
    run.pools.say(1, waiting=0)
    drained = run.go(in_flight=210)
    refilled = run.go(in_flight=225)
    grown = run.go(looks=4)

    names = ("cap", "limit", "pressure", "cuts")
    assert figures(before, "cap", "floor", "ceiling", "cuts") == [300, 200, 600, 0]
    assert figures(cut, *names) == [225, 200, "hard", 1]
    assert figures(drained, *names) == [225, 225, "clear", 1]
    assert figures(refilled, *names) == [225, 225, "clear", 1]
    assert figures(grown, *names) == [235, 235, "clear", 1]
    assert run.told == [300, 200, 225, 230, 235]


def test_the_pressure_of_a_row_is_the_worst_since_the_row_before() -> None:
    """A preemption between two rows is not missed, and is told once; without a look in between it
    is the last one seen."""
    run = Run(Pools())
    run.go()
    run.pools.say(preemptions=1)
    seen = run.go(looks=4)["pressure"]
    run.pools.verifier = [replace(run.pools.verifier[0], waiting=9)]

    assert seen == "hard"
    assert run.go(looks=2)["pressure"] == "soft"
    assert run.control.figures()["pressure"] == "soft"


def test_each_chain_is_learnt_from_once() -> None:
    """Totals only grow; what is new in them counts."""
    run = Run(Pools())
    run.go(stops={"budget": 2}, held_s=20.0, held_token_s=20.0 * 500)
    last = run.go(looks=5, stops={"budget": 3, "gated": 1}, held_s=40.0, held_token_s=40.0 * 500)

    assert last["tokens_a_chain"] == pytest.approx(500)


def test_totals_that_begin_anew_are_learnt_from() -> None:
    """Those of an endpoint that Serve started again: no chain has ended less than once."""
    run = Run(Pools())
    run.go(stops={"budget": 2}, held_s=20.0, held_token_s=20.0 * 500)
    last = run.go(stops={"budget": 1}, held_s=10.0, held_token_s=10.0 * 500)

    assert last["tokens_a_chain"] == pytest.approx(500)
    assert run.go(looks=3, stops={})["tokens_a_chain"] == pytest.approx(500)


def test_a_fixed_number_stays() -> None:
    """Whatever engines say: that is what `in_flight` is for."""
    run = Run(Pools(), controllers={"in_flight": 300})
    run.pools.say(preemptions=9, waiting=9)
    last = run.go(looks=9)

    assert figures(last, "cap", "limit", "pressure", "cuts") == [300, 300, None, 0]
    assert run.told == [300]


def test_engines_that_say_nothing_change_nothing() -> None:
    """In-process engines never answer; and an old answer is not looked at twice."""
    silent = Run(Pools(replicas=0))
    old = Run(Pools())
    old.go()
    for _ in range(9):
        old.now += 2.5
        old.control.step(old.totals)

    assert figures(silent.go(looks=9), "cap", "pressure") == [300, None]
    assert old.control.figures()["cap"] == 300


def test_the_floor_follows_the_replicas() -> None:
    """A third one comes and the cap keeps it full; it goes, and an overload may lower the cap."""
    run = Run(Pools(), in_flight=300)
    run.pools.generator.append(Meter(SLOTS * 2).stats("g2", "generator", 0))
    more = run.go(waiting=0)
    run.pools.generator.pop()
    fewer = run.go()

    assert figures(more, "floor", "cap") == [400, 400]
    assert figures(fewer, "floor", "cap") == [200, 400]


def test_the_account_is_asked_every_few_seconds_and_counts_preemptions_of_the_dead() -> None:
    """However often it is looked at; a replica that is not there for a moment takes nothing back,
    so that its return is no overload."""

    class Engines:
        def __init__(self) -> None:
            self.pools, self.asked = Pools(), 0
            self.pools.say(0, preemptions=4, life="a")
            self.pools.say(1, preemptions=2, life="b")

        def stats(self) -> Stats:
            self.asked += 1
            return {"generator": list(self.pools.generator), "verifier": []}

    now = [0.0]
    engines = Engines()
    account = StatsPoller(engines, clock=lambda: now[0])

    def look() -> int:
        account.look()
        if account._asking is not None:
            account._asking.exception()
        account.look()
        return account.preemptions

    first = [look() for _ in range(5)]
    gone = engines.pools.generator.pop()
    now[0] = 2.5
    without = look()
    engines.pools.generator.append(replace(gone, life="c", preemptions=1))
    now[0] = 5.0
    again = look()
    account.close()

    assert (first, without, again) == ([6] * 5, 6, 7)
    assert engines.asked == account.answers == 3


def test_samples_are_chains_to_it() -> None:
    """A run of 40 chains that ask for 64 samples each: those that wait make the cap grow, and what
    waits in the engines is held against those at work."""
    samples = {"in_flight": 40, "waiting": 0, "samples": 300, "samples_waiting": 2_260}
    run = Run(Pools())
    run.pools.say(waiting=3)
    grown = run.go(looks=3, **samples)
    run.pools.say(waiting=0, preemptions=1)
    cut = run.go(samples=400)
    run.go(samples=200)
    again = run.go(looks=9, samples=280)

    names = ("cap", "pressure")
    assert figures(grown, *names) == [306, "clear"]
    assert figures(cut, *names) == [300, "hard"]
    assert again["cap"] > 300
