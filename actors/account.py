"""What the engines of an attempt say they made: asked in the background, lives of the dead kept."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Protocol

from actors.meter import EngineStats

logger = logging.getLogger(__name__)

Stats = dict[str, list[EngineStats]]

_LAST_LOOK_S = 1.0


class Reports(Protocol):
    """Engines that tell what they counted."""

    def stats(self) -> Stats: ...


class EngineAccount:
    """Keeps the figures of engines; a replica that does not answer holds nobody up."""

    def __init__(self, engines: Reports) -> None:
        self._engines = engines
        self._asking: Future[Stats] | None = None
        self._thread = ThreadPoolExecutor(1, "engine-stats")
        self._lives: dict[str, dict[str, EngineStats]] = {}
        self._seen_whole = False
        self.latest: Stats = {"generator": [], "verifier": []}
        """What answered last, by pool."""

    def look(self) -> None:
        """Take the last answer, if there is one, and ask again."""
        if self._asking is not None and self._asking.done():
            self._take(self._asking)
            self._asking = None
        if self._asking is None:
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
        """Tokens of all lives of all generators; exact where none died and the end was seen."""
        lives = [stats for seen in self._lives.values() for stats in seen.values()]
        return {
            "completion_tokens": sum(stats.completion_tokens for stats in lives),
            "aborted_tokens": sum(stats.aborted_tokens for stats in lives),
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
        for stats in self.latest["generator"]:
            self._lives.setdefault(stats.replica, {})[stats.life] = stats
        return {stats.replica for stats in self.latest["generator"]} == self._lives.keys()
