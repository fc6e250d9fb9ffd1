"""The one place that knows how a run is going, and that tells controllers to drain.

A small Ray actor without a CPU of its own. Controllers report their counters to it every second;
the driver reads them for progress, metrics, the watchdog and the circuit breaker.
"""

from __future__ import annotations

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
    """Sums the counters of all controllers, lives of dead controllers included."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[str, Any]] = {}
        self._draining = False
        self._fatal: str | None = None
        self._last_round_at = time.monotonic()
        self._rounds = 0

    def report(self, controller: str, counters: dict[str, Any], fatal: str | None = None) -> bool:
        """Take a controller's counters; returns whether it must drain."""
        self._reports[controller] = counters
        self._fatal = self._fatal or fatal
        rounds = sum(r["rounds"] + r["recorded"] for r in self._reports.values())
        if rounds > self._rounds:
            self._rounds, self._last_round_at = rounds, time.monotonic()
        return self._draining

    def drain(self) -> None:
        """Tell every controller, at its next report, to stop asking engines."""
        self._draining = True

    def totals(self) -> dict[str, Any]:
        """Sums over controllers, and seconds since the last round anywhere."""
        reports = list(self._reports.values())
        totals: dict[str, Any] = {name: sum(r[name] for r in reports) for name in _SUMMED}
        for name in ("stops", "verdicts"):
            counts: Counter[str] = Counter()
            for report in reports:
                counts.update(report[name])
            totals[name] = dict(counts)
        totals["loop_lag_ms"] = max((r.get("loop_lag_ms", 0.0) for r in reports), default=0.0)
        errors = [r["last_error"] for r in reports if r["last_error"] is not None]
        totals["last_error"] = errors[-1] if errors else None
        totals["fatal"] = self._fatal
        totals["draining"] = self._draining
        totals["idle_s"] = time.monotonic() - self._last_round_at
        return totals
