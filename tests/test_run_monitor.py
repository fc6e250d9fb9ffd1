"""What the watch makes of the reports of controllers."""

from __future__ import annotations

from typing import Any

from actors.cluster.run_monitor import RunMonitor
from actors.controllers.chain_types import Counters
from pipeline.records.segments import Epoch


def report(**more: Any) -> dict[str, Any]:
    return {**Counters().as_dict(), **more}


def name(slot: str, life: int = 1, phase: int = 0) -> str:
    """What a life of a controller is called."""
    return Epoch(1, "abcdef", phase, slot, life).name


async def test_controllers_are_told_their_share_of_the_limit() -> None:
    """What they may have at work adds up to it, in each phase with its own controllers."""
    watch = RunMonitor()
    for slot in ("a", "b", "c"):
        await watch.register_writer(slot)
    unknown = await watch.report(name("a"), report())
    await watch.admit(11, 3)
    first = [await watch.report(name(slot), report()) for slot in ("a", "b", "c")]
    await watch.admit(4, 3)
    lowered = [await watch.share(slot) for slot in ("a", "b", "c")]
    for slot in ("d", "e", "f"):
        await watch.register_writer(slot)
    second = [await watch.report(name(slot, phase=1), report()) for slot in ("d", "e", "f")]

    assert (unknown, first, lowered, second) == (None, [4, 4, 3], [2, 1, 1], [2, 1, 1])


async def test_a_controller_that_was_killed_has_nothing_at_work() -> None:
    """Its rounds and stops count on; its chains are with its successor, or in a later phase."""
    watch = RunMonitor()
    await watch.report(name("a"), report(in_flight=5, waiting=7, rounds=10, held_s=2.5))
    await watch.report(name("b"), report(in_flight=3, waiting=1, rounds=4, held_s=1.0))
    await watch.report(name("a", life=2), report(in_flight=1, rounds=1))
    restarted = await watch.totals()
    await watch.report(name("c", phase=1), report(in_flight=2))
    later = await watch.totals()

    wanted = ("in_flight", "waiting", "rounds", "held_s")
    assert [restarted[key] for key in wanted] == [4, 1, 15, 3.5]
    assert [later[key] for key in wanted] == [2, 0, 15, 3.5]


async def test_a_report_that_was_overtaken_takes_nothing_back() -> None:
    """Ray runs calls of async actors in any order; what is fatal counts all the same."""
    watch = RunMonitor()
    await watch.report(name("a"), report(rounds=9, held_s=2.0), number=2)
    await watch.report(name("a"), report(rounds=8, held_s=1.0, in_flight=1), "disk full", number=1)
    totals = await watch.totals()

    wanted = ("rounds", "held_s", "in_flight", "fatal")
    assert [totals[key] for key in wanted] == [9, 2.0, 0, "disk full"]
