"""One line every ten seconds: rewritten in place on a terminal, a log line elsewhere."""

from __future__ import annotations

import logging
import sys
from typing import Any

from rich.console import Console
from rich.status import Status

from pipeline.planning.run_caps import standing

logger = logging.getLogger(__name__)


class Progress:
    """Shows the totals of a run while it goes on."""

    def __init__(self, address: str) -> None:
        logger.info("run directory: %s", address)
        console = Console(stderr=True)
        self._status: Status | None = None
        if console.is_terminal:
            self._status = console.status("starting engines")
            self._status.start()
        self._rounds = 0
        self._tokens = 0
        self._seconds = 0.0

    def __call__(self, row: dict[str, Any]) -> None:
        """Show one row of metrics."""
        if row["phase_seconds"] < self._seconds:
            self._seconds = 0.0
        span = max(row["phase_seconds"] - self._seconds, 1e-9)
        line = (
            f"phase {row['phase']}: {row['chains_stopped']} of {row['chains']} chains stopped "
            f"({_stops(row['stops'])}), {row['in_flight']} in flight, {row['rounds']} rounds "
            f"({(row['rounds'] - self._rounds) / span:.1f}/s), "
            f"{(row['completion_tokens'] - self._tokens) / span:.0f} tokens/s"
        )
        if row.get("limits"):
            line += f"; {standing(row['limits'])}"
        self._rounds, self._tokens = row["rounds"], row["completion_tokens"]
        self._seconds = row["phase_seconds"]
        if self._status is not None:
            self._status.update(line)
        else:
            logger.info("%s", line)

    def close(self) -> None:
        """Leave the terminal clean."""
        if self._status is not None:
            self._status.stop()
            sys.stderr.flush()


def _stops(stops: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(stops.items())) or "none yet"
