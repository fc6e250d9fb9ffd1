"""What the watch makes of the reports of controllers."""

from __future__ import annotations

from typing import Any

from actors.watch import Watch
from actors.work import Counters


def report(**more: Any) -> dict[str, Any]:
    return {**Counters().as_dict(), **more}


async def test_the_sticky_rate_is_that_of_all_controllers() -> None:
    """Requests of chains that had a replica, and how many of them stayed there."""
    watch = Watch()
    nothing = (await watch.totals())["sticky_rate"]
    await watch.report("a", report(returning=30, stayed=30))
    await watch.report("b", report(returning=10, stayed=0))
    await watch.report("c", report())

    assert nothing is None
    assert (await watch.totals())["sticky_rate"] == 0.75
