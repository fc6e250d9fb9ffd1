"""*MetricRows*: writes the metrics of an attempt every ten seconds, for files and Prometheus."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from math import ceil
from typing import Any

from actors.driver.admission_control import AdmissionControl, StatsPoller
from pipeline.planning.admission import Pressure
from pipeline.records.run_dir import AttemptEntry, RunDir

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
        progress: called with each row; None for nobody.
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
        self._logged = self._parts = 0
        self._exported = RunMetrics(run.run_id)

    def log(
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
        }

    def _take(self, row: dict[str, Any]) -> None:
        """Keep a row, and write those before it once they are enough for a part."""
        replicas = sum(map(len, row["engines"].values()))
        if self._logged % max(1, ceil(replicas / _REPLICAS_A_ROW)):
            row = {name: value for name, value in row.items() if name != "engines"}
        self._logged += 1
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


_COUNTED = {
    "rounds": "Completions that came from engines",
    "recorded": "Completions that were found in the journal",
    "completion_tokens": "Tokens generated in completions",
    "verifier_tokens": "Tokens read by the verifier",
    "wasted_tokens": "Tokens of tries that gave no completion",
}
_MEASURED = {
    "chains": "Chains of the phase that runs",
    "chains_stopped": "Those of them that stopped",
    "in_flight": "Chains that work",
    "waiting": "Chains that wait to be admitted",
    "idle_s": "Seconds since the last round anywhere",
    "loop_lag_ms": "Lag of the slowest controller's event loop",
}
_ADMISSION = {
    "cap": "Chains that may be at work",
    "limit": "Chains that may be at work now; less than the cap while an overload drains",
}
_REPLICA = {
    "running": "Sequences in a replica's batch",
    "waiting": "Sequences that wait for a place in a replica's batch",
    "kv_usage": "Share of a replica's KV cache in use",
    "preemptions": "Preemptions since a replica started",
    "max_num_seqs": "Places in a replica's batch",
}
_LIMITS = {
    "spent": "What the run has spent, in the unit of its cap",
    "cap": "What it may spend",
}
_PRESSURE = "What engines say: 0 no queue, 1 requests wait, 2 requests were preempted"
_VERDICTS = "Chains that stopped, by strategy and what their headline answer was graded"


class RunMetrics:
    """Keeps the metrics of one attempt up to date; made in its driver, once Ray runs.

    Args:
        run_id: the run's name, a tag of every series.
        meters: makes the metrics; None takes `ray.util.metrics`.
    """

    def __init__(self, run_id: str, meters: Any = None) -> None:
        if meters is None:
            from ray.util import metrics

            meters = metrics
        self._run = {"run": run_id}
        self._before = dict.fromkeys(_COUNTED, 0)
        self._seen: set[tuple[str, str]] = set()  # (pool, replica)
        self._counters = {
            name: meters.Counter(f"markovscale_{name}", text, tag_keys=("run",))
            for name, text in _COUNTED.items()
        }
        described: dict[tuple[str, ...], dict[str, str]] = {
            (): _MEASURED
            | {f"admission_{name}": text for name, text in _ADMISSION.items()}
            | {"admission_pressure": _PRESSURE},
            ("reason",): {"stopped_chains": "Chains that stopped, by reason"},
            ("strategy", "verdict"): {"verdicts": _VERDICTS},
            ("limit",): {f"limit_{name}": text for name, text in _LIMITS.items()},
            ("pool", "replica"): {f"replica_{name}": text for name, text in _REPLICA.items()},
        }
        self._gauges = {
            name: meters.Gauge(f"markovscale_{name}", text, tag_keys=("run", *tags))
            for tags, texts in described.items()
            for name, text in texts.items()
        }

    def update(self, row: Mapping[str, Any]) -> None:
        """Take one row of counters."""
        for name, counter in self._counters.items():
            grown = row[name] - self._before[name]
            if grown > 0:  # Ray refuses to count nothing
                counter.inc(grown, tags=self._run)
                self._before[name] = row[name]
        for name in _MEASURED:
            self._set(name, row[name])
        admission = row["admission"]
        for name in _ADMISSION:
            self._set(f"admission_{name}", admission[name])
        if admission["pressure"] is not None:
            self._set("admission_pressure", list(Pressure).index(admission["pressure"]))
        for reason, number in row["stops"].items():
            self._set("stopped_chains", number, reason=reason)
        for name, number in row["verdicts"].items():
            strategy, _, verdict = name.rpartition("/")
            self._set("verdicts", number, strategy=strategy, verdict=verdict)
        for limit, amounts in row.get("limits", {}).items():
            for name in _LIMITS:
                self._set(f"limit_{name}", amounts[name], limit=limit)
        replicas = {
            (p, one["replica"]): one for p, all_of in row["engines"].items() for one in all_of
        }
        self._seen |= replicas.keys()
        for pool, replica in self._seen:
            stats = replicas.get((pool, replica), {})  # one that is gone has no places and no queue
            for name in _REPLICA:
                self._set(f"replica_{name}", stats.get(name, 0), pool=pool, replica=replica)

    def _set(self, name: str, value: float, **tags: str) -> None:
        self._gauges[name].set(value, tags={**self._run, **tags})
