"""The metrics of an attempt, every ten seconds: metrics.jsonl, Prometheus and progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from actors.cluster.storage_retry import patiently
from actors.driver.admission_control import AdmissionControl
from actors.driver.metrics import RunMetrics
from actors.driver.stats_poller import EngineAccount
from pipeline.records.run_dir import RunDir

logger = logging.getLogger(__name__)

Progress = Callable[[dict[str, Any]], None]


class MetricRows:
    """Writes the rows of one attempt behind those of the attempts before it.

    Args:
        run: its directory.
        attempt: number of the attempt.
        account: what the engines say.
        admission: how many chains may be at work.
        progress: told each row; None tells nobody.
    """

    def __init__(
        self,
        run: RunDir,
        attempt: int,
        account: EngineAccount,
        admission: AdmissionControl,
        progress: Progress | None,
    ) -> None:
        self._run, self._attempt, self._progress = run, attempt, progress
        self._account, self._admission = account, admission
        self._rows = patiently(run.metrics, "read metrics.jsonl")
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
            "attempt": self._attempt,
            "phase": phase,
            "chains": chains[1],
            "chains_stopped": sum(totals["stops"].values()) - chains[0],
            "phase_seconds": seconds,
            "admission": self._admission.figures(),
            **self._engine_figures(),
        }
        self._write(row)
        self._exported.update(row)
        if self._progress is not None:
            self._progress(row)

    def close(self) -> None:
        """Complete the attempt's last row by what the engines said last."""
        if self._rows and self._rows[-1]["attempt"] == self._attempt:
            self._write({**self._rows.pop(), **self._engine_figures()})

    def _engine_figures(self) -> dict[str, Any]:
        """What the engines said last."""
        return {
            "engines": {
                pool: [asdict(replica) for replica in replicas]
                for pool, replicas in self._account.latest.items()
            },
            "engines_say": self._account.totals(),
        }

    def _write(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        try:
            self._run.write_metrics(self._rows)
        except OSError as error:  # figures can wait; the journal is the controllers' business
            logger.warning("metrics.jsonl not written: %s", error)
