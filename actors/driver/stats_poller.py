"""Polls the statistics of all engines; keeps the last ones of replicas that died."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Protocol

from actors.engines.engine_stats import EngineStats
from actors.routing.roles import GENERATOR

logger = logging.getLogger(__name__)

Stats = dict[str, list[EngineStats]]

_LAST_LOOK_S = 1.0
_ASK_EVERY_S = 2.5


class Reports(Protocol):
    """Engines that tell what they counted."""

    def stats(self) -> Stats: ...


class StatsPoller:
    """Keeps the figures of engines; a replica that does not answer holds nobody up."""

    def __init__(self, engines: Reports, clock: Callable[[], float] = time.monotonic) -> None:
        self._engines, self._clock = engines, clock
        self._asking: Future[Stats] | None = None
        self._asked_at: float | None = None
        self._thread = ThreadPoolExecutor(1, "engine-stats")
        self._lives: dict[str, dict[str, EngineStats]] = {}
        self._seen_whole = False
        self.latest: Stats = {}
        """What answered last, by role."""
        self.answers = 0
        """How often `latest` was renewed."""

    def look(self) -> None:
        """Take the answer, if there is one, and ask again every few seconds; waits for nothing."""
        if self._asking is not None and self._asking.done():
            self._take(self._asking)
            self._asking = None
        now = self._clock()
        due = self._asked_at is None or now - self._asked_at >= _ASK_EVERY_S
        if self._asking is None and due:
            self._asked_at = now
            self._asking = self._thread.submit(self._engines.stats)

    def last_look(self) -> None:
        """Ask once more, now that nothing is generated; a replica that hangs is not waited for."""
        for asked in (self._asking, self._thread.submit(self._engines.stats)):
            if asked is None:
                continue
            try:
                asked.exception(timeout=_LAST_LOOK_S)
            except FutureTimeoutError:
                return
            self._seen_whole = self._take(asked)

    def close(self) -> None:
        """Ask nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def totals(self) -> dict[str, Any]:
        """Counts of all lives of all generators; exact where none died and the end was seen."""
        lives = [stats for seen in self._lives.values() for stats in seen.values()]
        return {
            "completion_tokens": sum(stats.completion_tokens for stats in lives),
            "aborted_tokens": sum(stats.aborted_tokens for stats in lives),
            "preemptions": sum(stats.preemptions for stats in lives),
            "lives": len(lives),
            "deaths": sum(len(seen) - 1 for seen in self._lives.values()),
            "seen_to_the_end": self._seen_whole,
        }

    def _take(self, answer: Future[Stats]) -> bool:
        error = answer.exception()
        if error is not None:
            logger.warning("engines did not say what they counted: %s", error)
            return False
        self.latest = answer.result()
        self.answers += 1
        generators = self.latest[GENERATOR]
        for stats in generators:
            self._lives.setdefault(stats.replica, {})[stats.life] = stats
        return {stats.replica for stats in generators} == self._lives.keys()
