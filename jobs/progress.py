"""*Progress*: a bar with the time left on a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, track
from rich.progress import Progress as Bar

from pipeline.planning.run_caps import standing
from pipeline.report import words
from pipeline.report.run_progress import seconds_left

logger = logging.getLogger(__name__)

T = TypeVar("T")


def steps(items: Collection[T], name: Callable[[T], str], what: str) -> Iterator[T]:
    """Gives items one by one: with a bar and the time left on a terminal, else a log line an item.

    Args:
        items: the work to do.
        name: of an item, for log lines.
        what: is done with the items, such as "replaying".
    """
    console = Console(stderr=True)
    if console.is_terminal and logger.isEnabledFor(logging.INFO):
        yield from track(items, what, console=console, transient=True)
        return
    for number, item in enumerate(items, 1):
        logger.info("%s %s (%d of %d)", what, name(item), number, len(items))
        yield item


class Progress:
    """Shows the totals of a run while it goes on.

    Args:
        address: of the run directory.
        phases: how many the run has.
    """

    def __init__(self, address: str, phases: int) -> None:
        logger.info("run directory: %s", address)
        self._phases = phases
        self._rounds = 0
        self._tokens = 0
        self._seconds, self._phase = 0.0, 0
        self._bar: Bar | None = None
        console = Console(stderr=True)
        if console.is_terminal and logger.isEnabledFor(logging.INFO):
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[line]}"),
                TimeElapsedColumn(),
                console=console,
            )
            self._task = self._bar.add_task("starting engines", total=None, line="")
            self._bar.start()

    def __call__(self, row: dict[str, Any]) -> None:
        """Show one row of metrics."""
        if row["phase"] != self._phase:
            self._seconds, self._phase = 0.0, row["phase"]
        span = max(row["phase_seconds"] - self._seconds, 1e-9)
        rounds, tokens = row["rounds"] - self._rounds, row["completion_tokens"] - self._tokens
        self._rounds, self._tokens = row["rounds"], row["completion_tokens"]
        self._seconds = row["phase_seconds"]
        phase = f"phase {row['phase'] + 1} of {self._phases}"
        done, chains = row["chains_stopped"], row["chains"]
        caps = f"; {standing(row['limits'])}" if row.get("limits") else ""
        if self._bar is None:
            logger.info(
                f"{phase}: {done} of {chains} chains stopped ({_stops(row['stops'])}), "
                f"{row['in_flight']} in flight, {row['rounds']} rounds ({rounds / span:.1f}/s), "
                f"{tokens / span:.0f} tokens/s{caps}"
            )
            return
        seconds = seconds_left(row)
        left = "" if seconds is None else f", at most about {words.duration(seconds)} left"
        line = f"{done:,} of {chains:,} chains, {tokens / span:,.0f} tokens/s{left}{caps}"
        if done >= chains and row["phase"] + 1 < self._phases:
            line = f"{chains:,} chains done, counting what the next phase needs"
        self._bar.update(self._task, description=phase, completed=done, total=chains, line=line)

    def close(self) -> None:
        """Leave the terminal clean."""
        if self._bar is not None:
            self._bar.stop()


def _stops(stops: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(stops.items())) or "none yet"
