"""Places in the batch of a scripted engine."""

from __future__ import annotations

import asyncio
import heapq
import itertools

from actors.engines.engine_stats import Meter


class Slots:
    """Places in a batch; who waits is let in by priority, lowest first."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._free = meter.max_num_seqs
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    async def acquire(self, priority: float) -> None:
        """Wait for a place."""
        if self._free:
            self._free -= 1
        else:
            turn = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (priority, next(self._arrivals), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self.release()
                raise
        self._note()

    def release(self) -> None:
        """Give a place back."""
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                break
        else:
            self._free += 1
        self._note()

    def _note(self) -> None:
        running = self._meter.max_num_seqs - self._free
        self._meter.batch(running, len(self._waiting), running / self._meter.max_num_seqs)
