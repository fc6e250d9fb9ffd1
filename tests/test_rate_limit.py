"""How many requests a server may hold: AIMD, with pauses."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.engines.endpoint_transport import RateLimit


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


EVENTS = st.lists(
    st.one_of(st.just("served"), st.floats(0, 5), st.none(), st.integers(1, 50)), max_size=200
)


@given(st.integers(1, 500), EVENTS)
def test_the_limit_stays_in_its_bounds(most: int, events: list[object]) -> None:
    """Whatever comes in whatever order, between 1 and `most`."""
    clock = Clock()
    limit = RateLimit(most, clock)
    for event in events:
        match event:
            case "served":
                limit.served()
            case int():
                clock.now += event
            case _:
                limit.turned_away(clock.now, event)  # type: ignore[arg-type]  # a float or None
        assert 1 <= limit.limit <= most


def test_it_doubles_until_the_first_refusal_then_creeps() -> None:
    """One more for each request that is served; later one more for a whole limit of them."""
    clock = Clock()
    limit = RateLimit(1000, clock)
    for _ in range(32):
        limit.served()
    assert limit.limit == 64
    limit.turned_away(clock.now, 0)
    assert limit.limit == 32
    for _ in range(40):
        limit.served()
    assert limit.limit == 33


@pytest.mark.parametrize(("told", "waits"), [(0.3, 0.3), (None, 1.0)])
async def test_nobody_is_let_in_during_a_pause(told: float | None, waits: float) -> None:
    """As long as the server asks for, or a second that doubles; places are not lost by it."""
    loop = asyncio.get_running_loop()
    limit = RateLimit(2, loop.time)
    await limit.take()
    began = loop.time()
    limit.turned_away(began, told)
    assert limit.pause_s <= waits + (loop.time() - began)
    limit.give_back()
    cancelled = asyncio.create_task(limit.take())
    await asyncio.sleep(0)
    cancelled.cancel()
    await limit.take()
    assert loop.time() - began >= waits
