"""What Prometheus is told of a run."""

from __future__ import annotations

from typing import Any

import pytest

from actors.driver.metric_rows import RunMetrics

ROW: dict[str, Any] = {
    "rounds": 10,
    "recorded": 0,
    "completion_tokens": 500,
    "verifier_tokens": 700,
    "wasted_tokens": 0,
    "in_flight": 4,
    "waiting": 8,
    "idle_s": 0.5,
    "loop_lag_ms": 2.0,
    "admission": {"cap": 300, "limit": 200, "pressure": "hard"},
    "chains": 20,
    "chains_stopped": 3,
    "stops": {"gated": 3},
    "verdicts": {"base/right": 2, "base/wrong": 1},
    "limits": {"usd": {"spent": 1.5, "cap": 10.0}},
    "engines": {
        "generator": [
            {
                "replica": "g0",
                "running": 2,
                "waiting": 0,
                "kv_usage": 0.25,
                "preemptions": 1,
                "max_num_seqs": 16,
            }
        ]
    },
}


class Series:
    """Keeps what a metric was told, under the tags it was told with."""

    def __init__(self, name: str, description: str, tag_keys: tuple[str, ...]) -> None:
        self.name, self.tag_keys = name, tag_keys
        self.values: dict[tuple[str, ...], float] = {}

    def inc(self, value: float, tags: dict[str, str]) -> None:
        key = tuple(tags[name] for name in self.tag_keys)
        self.values[key] = self.values.get(key, 0) + value

    def set(self, value: float, tags: dict[str, str]) -> None:
        self.values[tuple(tags[name] for name in self.tag_keys)] = value


class Meters:
    """Stands in for ray.util.metrics."""

    def __init__(self) -> None:
        self.made: dict[str, Series] = {}

    def Counter(self, name: str, description: str, tag_keys: tuple[str, ...]) -> Series:
        return self.made.setdefault(name, Series(name, description, tag_keys))

    def Gauge(self, name: str, description: str, tag_keys: tuple[str, ...]) -> Series:
        return self.made.setdefault(name, Series(name, description, tag_keys))


def test_totals_become_counters_and_states_gauges() -> None:
    """A counter ends at the newest total, a gauge at the newest value, each with its tags."""
    meters = Meters()
    metrics = RunMetrics("run-1", meters)
    metrics.update(ROW)
    metrics.update({**ROW, "rounds": 25, "in_flight": 2})

    told = {name: series.values for name, series in meters.made.items() if series.values}
    assert told == {
        "markovscale_rounds": {("run-1",): 25},
        "markovscale_completion_tokens": {("run-1",): 500},
        "markovscale_verifier_tokens": {("run-1",): 700},
        "markovscale_in_flight": {("run-1",): 2},
        "markovscale_waiting": {("run-1",): 8},
        "markovscale_idle_s": {("run-1",): 0.5},
        "markovscale_loop_lag_ms": {("run-1",): 2.0},
        "markovscale_admission_cap": {("run-1",): 300},
        "markovscale_admission_limit": {("run-1",): 200},
        "markovscale_admission_pressure": {("run-1",): 2},
        "markovscale_chains": {("run-1",): 20},
        "markovscale_chains_stopped": {("run-1",): 3},
        "markovscale_stopped_chains": {("run-1", "gated"): 3},
        "markovscale_verdicts": {("run-1", "base", "right"): 2, ("run-1", "base", "wrong"): 1},
        "markovscale_limit_spent": {("run-1", "usd"): 1.5},
        "markovscale_limit_cap": {("run-1", "usd"): 10.0},
        "markovscale_replica_running": {("run-1", "generator", "g0"): 2},
        "markovscale_replica_waiting": {("run-1", "generator", "g0"): 0},
        "markovscale_replica_kv_usage": {("run-1", "generator", "g0"): 0.25},
        "markovscale_replica_preemptions": {("run-1", "generator", "g0"): 1},
        "markovscale_replica_max_num_seqs": {("run-1", "generator", "g0"): 16},
    }


def test_a_replica_that_is_gone_holds_no_places() -> None:
    """Of one that was scaled away or died nothing is left in sums over replicas."""
    meters = Meters()
    metrics = RunMetrics("run-1", meters)
    metrics.update(ROW)
    other = {**ROW["engines"]["generator"][0], "replica": "g1"}
    metrics.update({**ROW, "engines": {"generator": [other]}})

    for name in ("running", "max_num_seqs", "kv_usage"):
        told = meters.made[f"markovscale_replica_{name}"].values
        gone, here = (told["run-1", "generator", replica] for replica in ("g0", "g1"))
        assert (gone, here) == (0, other[name])


@pytest.mark.ray
def test_ray_takes_the_metrics(local_ray: None) -> None:
    """Ray's own metrics accept every name, tag and value, twice over."""
    metrics = RunMetrics("run-2")
    metrics.update(ROW)
    metrics.update({**ROW, "rounds": 11})

    assert metrics._counters["rounds"].info["tag_keys"] == ("run",)
