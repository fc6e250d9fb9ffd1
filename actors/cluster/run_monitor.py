"""*RunMonitor*: a Ray actor that collects progress from controllers and sends them limits.

A small Ray actor without a CPU of its own. Controllers report their counters every second and learn
how many chains they may have at work; the driver reads the counters for progress, metrics,
admission, caps, the watchdog and the abort policy.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from pipeline.planning.admission import shares
from pipeline.records.segments import Epoch

NAMESPACE = "markovscale"
"""Ray namespace of every actor of this project."""

# what a controller that is gone has none of
_NOW = ("in_flight", "waiting", "samples", "samples_waiting")
_SUMMED = (
    "rounds",
    "recorded",
    "completion_tokens",
    "verifier_tokens",
    "judge_tokens",
    "wasted_tokens",
    "held_s",
    "held_token_s",
    *_NOW,
)


def monitor_name(run_id: str) -> str:
    """Ray's name of a run's monitor."""
    return f"markovscale-{run_id}-watch"


class RunMonitor:
    """Sums the counters of all controllers, lives of dead controllers included.

    An async actor: `until_drain` is open for as long as the run goes on.
    """

    def __init__(self) -> None:
        self._lives: Counter[str] = Counter()
        self._limit: int | None = None
        self._controllers = 1
        self._changed = asyncio.Condition()
        self._graces: list[float] = []
        self._reports: dict[str, dict[str, Any]] = {}
        self._numbers: dict[str, int] = {}
        self._fatal: str | None = None
        self._last_round_at = time.monotonic()
        self._rounds = 0

    async def register_writer(self, writer: str) -> int:
        """Number a life of a writer: 1, 2, ... in the order in which they ask."""
        self._lives[writer] += 1
        return self._lives[writer]

    async def admit(self, limit: int, controllers: int) -> None:
        """Let `limit` chains be at work in all, divided among `controllers`."""
        self._limit, self._controllers = limit, controllers

    async def share(self, writer: str) -> int | None:
        """How many chains a controller may have at work; None before it is known."""
        if self._limit is None:
            return None
        number = list(self._lives).index(writer)  # each phase has new ones, as many as the last
        return shares(self._limit, self._controllers)[number % self._controllers]

    async def until_drain(self, heard: int = 0) -> float:
        """Return when controllers are to stop asking engines; how long they may finish, in s.

        Args:
            heard: how often they heard so before; the last grace is what counts.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._graces) > heard)
        return self._graces[-1]

    async def report(
        self, controller: str, counters: dict[str, Any], fatal: str | None = None, number: int = 0
    ) -> int | None:
        """Take a controller's counters; how many chains it may have at work, as far as is known.

        Ray may run calls of an async actor in another order than they were made: counters that are
        older than those at hand are dropped, else totals would fall.

        Args:
            controller: name of its epoch.
            counters: `actors.controllers.chain_types.Counters.as_dict`, and more.
            fatal: why nothing can be made durable any more.
            number: of the report: 1, 2, ...
        """
        epoch = Epoch.parse(controller)
        self._fatal = self._fatal or fatal
        if number < self._numbers.get(controller, 0):
            return await self.share(epoch.slot)
        self._numbers[controller] = number
        if controller not in self._reports:
            for name, report in self._reports.items():
                if epoch.succeeds(Epoch.parse(name)):  # killed with chains at work, perhaps
                    report.update({**dict.fromkeys(_NOW, 0), "trouble": None})
        self._reports[controller] = counters
        rounds = sum(r["rounds"] + r["recorded"] for r in self._reports.values())
        if rounds > self._rounds:
            self._rounds, self._last_round_at = rounds, time.monotonic()
        return await self.share(epoch.slot)

    async def drain(self, grace_s: float = 0.0) -> None:
        """Tell every controller to stop asking engines, and to wait `grace_s` for completions.

        Told again, it is the new grace that counts, from then on.
        """
        async with self._changed:
            self._graces.append(grace_s)
            self._changed.notify_all()

    async def totals(self) -> dict[str, Any]:
        """Sums over controllers, how many there were, and seconds since the last round anywhere."""
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
        totals["controllers"] = len(self._lives)
        totals["fatal"] = self._fatal
        troubles = [r["trouble"] for r in reports if r.get("trouble")]
        totals["trouble"] = next(iter(troubles), None)
        totals["draining"] = bool(self._graces)
        totals["idle_s"] = time.monotonic() - self._last_round_at
        return totals
