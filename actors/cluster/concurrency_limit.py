"""*Limit*: a semaphore with priorities whose size can change while it is held."""

from __future__ import annotations

import asyncio
import heapq


class Limit:
    """Places for as many as `most`; of those who wait, whoever has the most to do is let in first.

    Equal ones are let in as they came.

    Like `asyncio.Semaphore`, but movable: a lower limit sends nobody away, it lets nobody in until
    enough have left; a higher one lets in as many as now have room. All of it on one event loop.

    Args:
        most: that may be in at once, >= 1.
    """

    def __init__(self, most: int) -> None:
        self._most = _checked(most)
        self._taken = 0
        self._arrivals = 0
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []

    @property
    def most(self) -> int:
        """How many may be in at once."""
        return self._most

    @property
    def waiting(self) -> int:
        """How many wait to be let in."""
        return len(self._waiting)

    @property
    def taken(self) -> int:
        """How many are in; more than `most` for a while after that was lowered."""
        return self._taken

    def move(self, most: int) -> None:
        """Allow `most` from now on.

        Raises:
            ValueError: unless it is >= 1.
        """
        self._most = _checked(most)
        self._let_in()

    async def take(self, expected: float = 0.0) -> None:
        """Wait for a place and take it; `give_back` must follow.

        Args:
            expected: how much there is to do, in any unit.
        """
        if self._taken < self._most and not self._waiting:
            self._taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiting, (-expected, self._arrivals, turn))
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given a place, and will not use it
                self.give_back()
            raise

    def give_back(self) -> None:
        """Leave a place that was taken."""
        self._taken -= 1
        self._let_in()

    def _let_in(self) -> None:
        """Hand free places over; they are taken before anyone who comes later can ask for one."""
        while self._waiting and self._taken < self._most:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():  # else its task was cancelled
                self._taken += 1
                turn.set_result(None)


def _checked(most: int) -> int:
    if most < 1:
        raise ValueError(f"a limit must be >= 1, got {most}")
    return most
