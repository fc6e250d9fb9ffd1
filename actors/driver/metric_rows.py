"""The metrics of an attempt, every ten seconds: parts of metrics/, Prometheus and progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import ceil
from typing import Any

from actors.driver.admission_control import AdmissionControl
from actors.driver.metrics import RunMetrics
from actors.driver.stats_poller import StatsPoller
from pipeline.records.attempts import AttemptEntry
from pipeline.records.run_dir import RunDir

logger = logging.getLogger(__name__)

Progress = Callable[[dict[str, Any]], None]

_MOST_IN_A_PART = 6
"""Rows; a minute of them."""
_REPLICAS_A_ROW = 64
"""Figures of more replicas than this are kept less often than every ten seconds."""
_MOST_WAITING = 360


class MetricRows:
    """Writes the rows of one attempt, in parts that are never written again.

    The first parts hold a row each, later ones a minute of them. The newest row waits for the next:
    it is completed when the attempt ends.

    Args:
        run: its directory.
        attempt: the attempt.
        account: what the engines say.
        admission: how many chains may be at work.
        progress: told each row; None tells nobody.
        spent: what the attempt has spent so far, and the run against its caps.
    """

    def __init__(
        self,
        run: RunDir,
        attempt: AttemptEntry,
        account: StatsPoller,
        admission: AdmissionControl,
        progress: Progress | None,
        spent: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._run, self._attempt, self._progress, self._spent = run, attempt, progress, spent
        self._account, self._admission = account, admission
        self._waiting: list[dict[str, Any]] = []
        self._told = self._parts = 0
        self._exported = RunMetrics(run.run_id)

    def tell(
        self, totals: dict[str, Any], phase: int, chains: tuple[int, int], seconds: float
    ) -> None:
        """Write a row.

        Args:
            totals: of the run's watch.
            phase: number of the phase.
            chains: that had stopped before the phase, and that are to run in it.
            seconds: since it began.
        """
        row = {
            **totals,
            "time": time.time(),
            "attempt": self._attempt.number,
            "phase": phase,
            "chains": chains[1],
            "chains_stopped": sum(totals["stops"].values()) - chains[0],
            "phase_seconds": seconds,
            "admission": self._admission.figures(),
            **self._engine_figures(),
            **self._spent(),
        }
        self._take(row)
        self._exported.update(row)
        if self._progress is not None:
            self._progress(row)

    def close(self) -> None:
        """Complete the attempt's last row by what the engines said last."""
        if self._waiting:
            self._waiting[-1] |= {**self._engine_figures(), **self._spent()}
            self._write(self._waiting)

    def _engine_figures(self) -> dict[str, Any]:
        """What the engines said last."""
        return {
            "engines": {
                pool: [asdict(replica) for replica in replicas]
                for pool, replicas in self._account.latest.items()
            },
            "engines_say": self._account.totals(),
        }

    def _take(self, row: dict[str, Any]) -> None:
        """Keep a row, and write those before it once they are enough for a part."""
        replicas = sum(map(len, row["engines"].values()))
        if self._told % max(1, ceil(replicas / _REPLICAS_A_ROW)):
            row = {name: value for name, value in row.items() if name != "engines"}
        self._told += 1
        self._waiting.append(row)
        *ready, newest = self._waiting
        if len(ready) >= min(1 + self._parts // 3, _MOST_IN_A_PART) and self._write(ready):
            self._waiting = [newest]
        del self._waiting[:-_MOST_WAITING]

    def _write(self, rows: Sequence[dict[str, Any]]) -> bool:
        if not _written(self._run, self._attempt, self._parts, rows):
            return False
        self._parts += 1
        return True


def note_spent(
    run: RunDir, attempt: AttemptEntry, totals: dict[str, Any], spent: dict[str, Any]
) -> None:
    """Write the only row of an attempt that ended before there was any other.

    Args:
        run, attempt, totals: as above.
        spent: what it has spent, and the run against its caps.
    """
    phase = {"phase": 0, "chains": 0, "chains_stopped": 0, "phase_seconds": 0.0}
    row = {**totals, "time": time.time(), "attempt": attempt.number, **phase, **spent}
    _written(run, attempt, 0, [row])


def _written(run: RunDir, attempt: AttemptEntry, part: int, rows: Sequence[dict[str, Any]]) -> bool:
    try:
        run.write_metrics(rows, f"{attempt.number:04d}-{attempt.token}-{part:06d}")
    except OSError as error:  # figures can wait; the journal is the controllers' business
        logger.warning("metrics not written: %s", error)
        return False
    return True
