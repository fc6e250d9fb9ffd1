"""*Spent*, *reached*: what a run has spent, and which of its caps is reached.

Tokens are those of completions, of their lost tries, and of the judge. GPU hours and wall hours are
read from the counters of each attempt (``spent`` of a row of metrics). Pure: the caller has clock
and files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.config.runtime import LimitsConfig
from pipeline.records.trajectory import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was spent, each >= 0."""

    tokens: float = 0.0
    """Completion tokens."""
    gpu_s: float = 0.0
    """GPU seconds."""
    wall_s: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            tokens=self.tokens + other.tokens,
            gpu_s=self.gpu_s + other.gpu_s,
            wall_s=self.wall_s + other.wall_s,
        )

    def amounts(self, limits: LimitsConfig) -> dict[str, float]:
        """By the names of caps and in their units; only those that are capped."""
        named = {
            "completion_tokens": self.tokens,
            "gpu_hours": self.gpu_s / 3600,
            "wall_hours": self.wall_s / 3600,
            "usd": self.gpu_s / 3600 * (limits.price_gpu_hour or 0.0)
            + self.tokens / 1e6 * (limits.price_million_tokens or 0.0),
        }
        return {name: named[name] for name in limits.caps}


def reached(spent: Spent, limits: LimitsConfig) -> str | None:
    """The first cap that is reached, by name; None while there is room under all."""
    amounts = spent.amounts(limits)
    return next((name for name, cap in limits.caps.items() if amounts[name] >= cap), None)


def spent_in_time(metrics: Sequence[Row], gpus: Mapping[str, float]) -> Spent:
    """GPU seconds and wall seconds of the attempts that left counters; no tokens.

    Args:
        metrics: rows of all attempts, in their order.
        gpus: that one replica takes, by pool; for rows of versions that did not note what was
            spent, where the replicas of an attempt's last row count for all of it.
    """
    first: dict[int, Row] = {}
    last: dict[int, Row] = {}
    for row in metrics:
        first.setdefault(row["attempt"], row)
        last[row["attempt"]] = row
    found = Spent()
    for attempt, row in last.items():
        noted = row.get("spent")
        if noted is None:
            began = first[attempt]["time"] - first[attempt].get("phase_seconds", 0.0)
            wall_s = max(0.0, row["time"] - began)
            engines: Mapping[str, Sequence[Any]] = row.get("engines") or {}
            held = sum(len(replicas) * gpus.get(pool, 0.0) for pool, replicas in engines.items())
            noted = {"gpu_s": held * wall_s, "wall_s": wall_s}
        found += Spent(gpu_s=noted["gpu_s"], wall_s=noted["wall_s"])
    return found


def amount(name: str, value: float | None) -> str:
    """What was spent of a cap, or the cap itself, in words; a dash where it is not known."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if name == "completion_tokens" else f"{value:,.4g}"


def standing(limits: Mapping[str, Mapping[str, float | None]]) -> str:
    """Spent and cap of each cap, in words.

    Args:
        limits: as a row of metrics tells them, by name.
    """
    return "; ".join(
        f"{name} {amount(name, of['spent'])} of {amount(name, of['cap'])} spent"
        for name, of in limits.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Capped:
    """The cap of ``runtime.limits`` that ended a run, and what had been spent of it."""

    name: str
    spent: float
    cap: float

    @property
    def words(self) -> str:
        """Both in numbers."""
        return f"{self.name} {amount(self.name, self.spent)} of {amount(self.name, self.cap)} spent"
