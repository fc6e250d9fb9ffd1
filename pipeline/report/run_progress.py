"""*RunProgress*: measures how far a run is and how fast it goes, and how long it still takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pipeline.records.side_files import summary
from pipeline.records.trajectory import Row
from pipeline.report.run_data import RunData

_RATE_OVER_S = 120.0
_LEAST_SHARE = 0.05  # of a phase's chains that are done before a time left is given


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """A run, so far."""

    done: int
    chains: int
    in_flight: int
    waiting: int
    rounds: int
    """Completions that came from engines, all attempts together."""
    tokens_per_s: float | None
    """Completion tokens, over the last two minutes of metrics; None before there are two rows."""
    updated_at: float | None
    """When metrics were last written, in seconds since 1970."""
    attempt: int
    phase: int | None
    limits: Mapping[str, Mapping[str, float | None]]
    """Spent, and cap, by the name of each cap; None where it is not known."""
    seconds_left: float | None
    """Of the phase (`seconds_left`), 0 at the end; None while it is not known."""
    ended: bool
    """Whether the newest attempt is over: its summary was written."""


def progress_of(run: RunData) -> RunProgress:
    """Folds what is durable: outcomes, metrics and questions."""
    newest = run.metrics[-1] if run.metrics else None
    rounds = sum(row["rounds"] for row in _last_of_attempts(run.metrics))
    left = None if newest is None else seconds_left(newest)
    return RunProgress(
        done=run.chains_done,
        chains=run.chains,
        in_flight=0 if newest is None else newest["in_flight"],
        waiting=0 if newest is None else newest["waiting"],
        rounds=rounds,
        tokens_per_s=_speed(run.metrics),
        updated_at=None if newest is None else newest["time"],
        attempt=len(run.attempts),
        phase=None if newest is None else newest["phase"],
        limits=_limits(run),
        seconds_left=0.0 if run.chains_done == run.chains else left,
        ended=_ended(run),
    )


def seconds_left(row: Row) -> float | None:
    """Time left of a phase at the mean speed of its chains so far, which start longest first; None
    before 5 % of them are done, and at its end.

    Args:
        row: of metrics.
    """
    done, chains = row["chains_stopped"], row["chains"]
    if not chains or done < max(1, _LEAST_SHARE * chains) or done >= chains:
        return None
    return float(row["phase_seconds"] * (chains - done) / done)


def _ended(run: RunData) -> bool:
    """Every attempt writes a summary when it ends, whatever ended it; one that was killed has none,
    nor does one that goes on, whose number no summary has yet."""
    ended = summary(run.run.folder).get("attempts")
    return isinstance(ended, int) and ended >= len(run.attempts)


def _limits(run: RunData) -> dict[str, Mapping[str, float | None]]:
    limits: Mapping[str, Any] = next((r["limits"] for r in run.metrics[::-1] if "limits" in r), {})
    unknown = {"spent": None}
    caps = run.config.runtime.limits.caps
    return {name: {**limits.get(name, unknown), "cap": cap} for name, cap in caps.items()}


def _last_of_attempts(metrics: Sequence[Row]) -> Iterator[Row]:
    """Counters begin anew with every attempt."""
    yield from (row for row, after in pairwise(metrics) if row["attempt"] != after["attempt"])
    yield from metrics[-1:]


def _speed(metrics: Sequence[Row]) -> float | None:
    """Completion tokens per second."""
    if not metrics:
        return None
    newest = metrics[-1]
    first = next(
        row
        for row in metrics
        if row["attempt"] == newest["attempt"] and newest["time"] - row["time"] <= _RATE_OVER_S
    )
    span = newest["time"] - first["time"]
    return (newest["completion_tokens"] - first["completion_tokens"]) / span if span > 0 else None
