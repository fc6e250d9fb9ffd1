"""A movable limit: the longest first, and no place is lost whatever happens."""

from __future__ import annotations

import asyncio
import math

from hypothesis import example, given
from hypothesis import strategies as st

from actors.cluster.concurrency_limit import Limit


class Crowd:
    """Tasks that go through a limit, numbered as they come."""

    def __init__(self, most: int) -> None:
        self.limit = Limit(most)
        self.let_in: list[int] = []
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self._leave: dict[int, asyncio.Event] = {}
        self._came = 0

    def come(self) -> int:
        """One more asks for a place."""
        number, self._came = self._came, self._came + 1
        self._leave[number] = asyncio.Event()
        self.tasks[number] = asyncio.get_running_loop().create_task(self._go(number))
        return number

    async def _go(self, number: int) -> None:
        await self.limit.take()
        try:
            self.let_in.append(number)
            await self._leave[number].wait()
        finally:
            self.limit.give_back()

    @property
    def inside(self) -> list[int]:
        """Who is in, in the order of coming in."""
        return [n for n in self.let_in if not self.tasks[n].done()]

    @property
    def outside(self) -> list[int]:
        """Who waits, in the order of coming."""
        return [n for n, task in self.tasks.items() if n not in self.let_in and not task.done()]

    def leave(self, number: int) -> None:
        """One of those inside goes."""
        self._leave[number].set()

    async def end(self) -> None:
        """Send everybody home."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


async def settled() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_higher_limit_lets_in_who_waits_and_a_lower_one_sends_nobody_away() -> None:
    """Waiters come in in their order; after a cut nobody does before enough have left."""
    crowd = Crowd(1)
    for _ in range(6):
        crowd.come()
    await settled()
    first = list(crowd.inside)
    crowd.limit.move(4)
    await settled()
    raised = list(crowd.inside)
    crowd.limit.move(2)
    await settled()
    lowered, taken = list(crowd.inside), crowd.limit.taken
    for number in (0, 1):
        crowd.leave(number)
    await settled()
    drained = list(crowd.inside)
    crowd.leave(2)
    await settled()

    assert (first, raised, lowered, taken) == ([0], [0, 1, 2, 3], [0, 1, 2, 3], 4)
    assert drained == [2, 3]
    assert crowd.inside == [3, 4]
    await crowd.end()
    assert crowd.limit.taken == 0


async def test_who_has_most_to_do_is_next_and_equals_keep_their_order() -> None:
    """In whatever order they come; who waits longest does not matter."""
    limit, let_in = Limit(1), []

    async def go(name: str, expected: float) -> None:
        await limit.take(expected)
        let_in.append(name)
        await asyncio.sleep(0)
        limit.give_back()

    crowd = [("first", 1.0), ("a", 5.0), ("b", 9.0), ("c", 5.0), ("d", 0.0), ("e", 9.0)]
    await asyncio.gather(*(go(*one) for one in crowd))

    assert let_in == ["first", "b", "e", "a", "c", "d"]


steps = st.one_of(
    st.just(("come", 0)),
    st.tuples(st.sampled_from(["leave", "cancel_inside", "cancel_outside"]), st.integers(0, 99)),
    st.tuples(st.just("move"), st.integers(1, 6)),
    st.just(("run", 0)),
)


@example(1, [("come", 0), ("come", 0), ("run", 0), ("come", 0), ("move", 3), ("run", 0)])
@given(st.integers(1, 6), st.lists(steps, max_size=60))
def test_whatever_happens(most: int, history: list[tuple[str, int]]) -> None:
    """Coming, leaving, cancelling and moving in any order, with and without a pause in between.

    Nobody comes in above the limit, nobody waits who came before one that is in, and whenever
    someone waits all places are taken.
    """

    async def play() -> None:
        crowd, highest = Crowd(most), most
        for what, value in history:
            inside = crowd.inside
            match what:
                case "come":
                    crowd.come()
                case "leave" if inside:
                    crowd.leave(inside[value % len(inside)])
                case "cancel_inside" if inside:
                    crowd.tasks[inside[value % len(inside)]].cancel()
                case "cancel_outside" if outside := crowd.outside:
                    crowd.tasks[outside[value % len(outside)]].cancel()
                case "move":
                    crowd.limit.move(value)
                    highest = max(highest, value)
                case "run":
                    before = list(crowd.let_in)
                    await settled()
                    newly = len(crowd.let_in) - len(before)

                    assert crowd.limit.taken == len(crowd.inside)
                    # a place may have been given under a higher limit, just before it was lowered
                    assert not newly or crowd.limit.taken <= highest
                    highest = crowd.limit.most
                    assert not crowd.outside or crowd.limit.taken >= crowd.limit.most
                    # who of those just let in wakes first is left to the event loop
                    assert max(crowd.let_in, default=-1) < min(crowd.outside, default=math.inf)
        await crowd.end()

        assert crowd.limit.taken == 0

    asyncio.run(play())
