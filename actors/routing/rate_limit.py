"""How many requests a server may hold at once, found by trying: as TCP finds its window (AIMD).

The limit grows by one with each request that is served until the server first says that it is too
many (429), later by one each time that a whole limit of them was served. A refusal halves it, once
for all requests that were on their way together, and nothing is sent until the time that the server
asks for is over.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from actors.cluster.concurrency_limit import Limit

_FIRST = 32
_WAIT_S = 1.0
_WAIT_MOST_S = 60.0
_WAIT_AT_ALL_S = 600.0  # a server may ask for hours; it is looked at sooner


class RateLimit:
    """The places at one server, of one process.

    Args:
        most: places that are never exceeded, >= 1.
        clock: seconds that do not go back.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._places = Limit(min(most, _FIRST))
        self._window = float(self._places.most)
        self._starting = True
        self._cut_at = self._free_at = -1.0
        self._in_a_row = 0

    @property
    def limit(self) -> int:
        """Requests that may be at the server now."""
        return self._places.most

    @property
    def refused(self) -> bool:
        """Whether the server ever refused one."""
        return not self._starting

    @property
    def pause_s(self) -> float:
        """For how long nothing may be sent yet."""
        return max(0.0, self._free_at - self._clock())

    async def take(self, expected: float = 0.0, patience_s: float = math.inf) -> bool:
        """Wait for a place, and for the end of a pause; `give_back` must follow.

        Args:
            expected: whose is more is let in first.
            patience_s: the longest pause that is waited for.

        Returns:
            Whether there is a place; False at once where the pause is longer.
        """
        await self._places.take(expected)
        try:
            while (wait_s := self.pause_s) > 0:
                if wait_s > patience_s:
                    self._places.give_back()
                    return False
                await asyncio.sleep(wait_s)
        except asyncio.CancelledError:
            self._places.give_back()
            raise
        return True

    def give_back(self) -> None:
        """Leave the place."""
        self._places.give_back()

    def served(self) -> None:
        """Note that the server took a request."""
        self._in_a_row = 0
        self._move(self._window + (1.0 if self._starting else 1.0 / self._window))

    def turned_away(self, sent_at: float, retry_after_s: float | None) -> None:
        """Note that it refused one.

        Args:
            sent_at: when that was sent, by the same clock.
            retry_after_s: how long it asks for; None waits twice as long after each refusal.
        """
        now = self._clock()
        if sent_at >= self._cut_at:  # else it was on its way when the limit came down already
            self._starting = False
            self._cut_at = now
            self._move(self._window / 2)
            self._in_a_row += 1
        wait_s = min(_WAIT_MOST_S, _WAIT_S * 2.0 ** min(self._in_a_row - 1, 10))
        if retry_after_s is not None:
            wait_s = min(retry_after_s, _WAIT_AT_ALL_S)
        self._free_at = max(self._free_at, now + wait_s)

    def _move(self, window: float) -> None:
        self._window = max(1.0, min(float(self._most), window))
        if int(self._window) != self._places.most:
            self._places.move(int(self._window))
