"""The one place that knows how a run is going, and that tells controllers to drain.

A small Ray actor without a CPU of its own. Controllers report their counters to it every second;
the driver reads them for progress, metrics, the watchdog and the circuit breaker.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

NAMESPACE = "markovscale"
"""Ray namespace of every actor of this project."""

_SUMMED = (
    "rounds",
    "recorded",
    "completion_tokens",
    "verifier_tokens",
    "wasted_tokens",
    "in_flight",
    "waiting",
)


def watch_name(run_id: str) -> str:
    """Name of a run's watch actor."""
    return f"markovscale-{run_id}-watch"


class Watch:
    """Sums the counters of all controllers, lives of dead controllers included.

    An async actor: `until_drain` is open for as long as the run goes on.
    """

    def __init__(self) -> None:
        self._lives: Counter[str] = Counter()
        self._drained = asyncio.Event()
        self._grace_s = 0.0
        self._reports: dict[str, dict[str, Any]] = {}
        self._fatal: str | None = None
        self._last_round_at = time.monotonic()
        self._rounds = 0

    async def enlist(self, writer: str) -> int:
        """Number a life of a writer: 1, 2, ... in the order in which they ask."""
        self._lives[writer] += 1
        return self._lives[writer]

    async def until_drain(self) -> float:
        """Return when controllers are to stop asking engines; how long they may finish, in s."""
        await self._drained.wait()
        return self._grace_s

    async def report(
        self, controller: str, counters: dict[str, Any], fatal: str | None = None
    ) -> None:
        """Take a controller's counters."""
        self._reports[controller] = counters
        self._fatal = self._fatal or fatal
        rounds = sum(r["rounds"] + r["recorded"] for r in self._reports.values())
        if rounds > self._rounds:
            self._rounds, self._last_round_at = rounds, time.monotonic()

    async def drain(self, grace_s: float = 0.0) -> None:
        """Tell every controller to stop asking engines, and to wait `grace_s` for completions."""
        self._grace_s = grace_s
        self._drained.set()

    async def totals(self) -> dict[str, Any]:
        """Sums over controllers, how many there were, and seconds since the last round anywhere."""
        reports = list(self._reports.values())
        totals: dict[str, Any] = {name: sum(r[name] for r in reports) for name in _SUMMED}
        for name in ("stops", "verdicts"):
            counts: Counter[str] = Counter()
            for report in reports:
                counts.update(report[name])
            totals[name] = dict(counts)
        returning, stayed = (sum(r.get(n, 0) for r in reports) for n in ("returning", "stayed"))
        totals["sticky_rate"] = stayed / returning if returning else None
        totals["loop_lag_ms"] = max((r.get("loop_lag_ms", 0.0) for r in reports), default=0.0)
        errors = [r["last_error"] for r in reports if r["last_error"] is not None]
        totals["last_error"] = errors[-1] if errors else None
        totals["controllers"] = len(self._lives)
        totals["fatal"] = self._fatal
        totals["draining"] = self._drained.is_set()
        totals["idle_s"] = time.monotonic() - self._last_round_at
        return totals
