"""A run's counters for Prometheus, through Ray's own metrics endpoint.

Ray exports them under its prefix, ``ray_markovscale_...``, on every node's metrics port
(docs/operations.md). Every series carries the run's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pipeline.planning.admission import Pressure

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
    "draft_tokens": "Tokens that a replica drafted ahead since it started",
    "accepted_tokens": "Of the tokens drafted ahead, those that the model accepted",
    "max_num_seqs": "Places in a replica's batch",
}
_LIMITS = {
    "spent": "What the run has spent, in the unit of its cap",
    "cap": "What it may spend",
}


class Counter(Protocol):
    """A total that only grows."""

    def inc(self, value: float, tags: dict[str, str]) -> None: ...


class Gauge(Protocol):
    """A value that goes up and down."""

    def set(self, value: float, tags: dict[str, str]) -> None: ...


class Meters(Protocol):
    """What makes metrics: `ray.util.metrics`."""

    def Counter(self, name: str, description: str, tag_keys: tuple[str, ...]) -> Counter: ...

    def Gauge(self, name: str, description: str, tag_keys: tuple[str, ...]) -> Gauge: ...


class RunMetrics:
    """Keeps the metrics of one attempt up to date; made in its driver, once Ray runs.

    Args:
        run_id: the run's name, a tag of every series.
        meters: makes the metrics; None takes `ray.util.metrics`.
    """

    def __init__(self, run_id: str, meters: Meters | None = None) -> None:
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
        self._gauges = {
            name: meters.Gauge(f"markovscale_{name}", text, tag_keys=("run",))
            for name, text in _MEASURED.items()
        }
        self._admission = {
            name: meters.Gauge(f"markovscale_admission_{name}", text, tag_keys=("run",))
            for name, text in _ADMISSION.items()
        }
        self._pressure = meters.Gauge(
            "markovscale_admission_pressure",
            "What engines say: 0 no queue, 1 requests wait, 2 requests were preempted",
            ("run",),
        )
        self._stops = meters.Gauge(
            "markovscale_stopped_chains", "Chains that stopped, by reason", ("run", "reason")
        )
        self._verdicts = meters.Gauge(
            "markovscale_verdicts",
            "Chains that stopped, by strategy and what their headline answer was graded",
            ("run", "strategy", "verdict"),
        )
        self._limits = {
            name: meters.Gauge(f"markovscale_limit_{name}", text, ("run", "limit"))
            for name, text in _LIMITS.items()
        }
        self._replicas = {
            name: meters.Gauge(f"markovscale_replica_{name}", text, ("run", "pool", "replica"))
            for name, text in _REPLICA.items()
        }

    def update(self, row: Mapping[str, Any]) -> None:
        """Take one row of counters."""
        for name, counter in self._counters.items():
            grown = row[name] - self._before[name]
            if grown > 0:  # Ray refuses to count nothing
                counter.inc(grown, tags=self._run)
                self._before[name] = row[name]
        for name, gauge in self._gauges.items():
            gauge.set(row[name], tags=self._run)
        admission = row["admission"]
        for name, gauge in self._admission.items():
            gauge.set(admission[name], tags=self._run)
        if admission["pressure"] is not None:
            self._pressure.set(list(Pressure).index(admission["pressure"]), tags=self._run)
        for reason, number in row["stops"].items():
            self._stops.set(number, tags={**self._run, "reason": reason})
        for name, number in row["verdicts"].items():
            strategy, _, verdict = name.rpartition("/")
            self._verdicts.set(number, tags={**self._run, "strategy": strategy, "verdict": verdict})
        for limit, amounts in row.get("limits", {}).items():
            for name, gauge in self._limits.items():
                gauge.set(amounts[name], tags={**self._run, "limit": limit})
        told = {(p, one["replica"]): one for p, all_of in row["engines"].items() for one in all_of}
        self._seen |= told.keys()
        for pool, replica in self._seen:
            stats = told.get((pool, replica), {})  # one that is gone has no places and no queue
            for name, gauge in self._replicas.items():
                gauge.set(stats.get(name, 0), {**self._run, "pool": pool, "replica": replica})
