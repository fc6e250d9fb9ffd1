"""What was paid for: tokens by kind, and the work of the engines over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.records.outcome import TOKEN_KINDS
from pipeline.records.trajectory import Row
from pipeline.report.run_data import Cell
from pipeline.statistics.intervals import Interval, mean_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Tokens of one cell, in all."""

    cell: Cell
    completions: int
    totals: Mapping[str, int]
    """By token kind, ``wasted_tokens`` and ``tokens_unknown`` (failures whose engine could not say)
    among them. Thinking tokens are part of completion tokens, cached ones of prompt tokens."""
    a_question: Interval
    """Completion tokens a question."""
    cost: float | None
    """Completion and wasted tokens at the price given; None without a price."""

    def parts(self) -> dict[str, int]:
        """Kinds that do not overlap, as a chart stacks them."""
        total = self.totals
        return {
            "answers": total["completion_tokens"] - total["thinking_tokens"],
            "thinking": total["thinking_tokens"],
            "wasted": total["wasted_tokens"],
            "prompts": total["prompt_tokens"] - total["cached_prompt_tokens"],
            "cached prompts": total["cached_prompt_tokens"],
            "verifier": total["verifier_tokens"],
        }


def bill_of(cell: Cell, price_per_million: float | None) -> Bill:
    """Add up a cell."""
    names = (*TOKEN_KINDS, "wasted_tokens", "tokens_unknown")
    totals = {name: sum(row[name] for row in cell.rows) for name in names}
    made = totals["completion_tokens"] + totals["wasted_tokens"]
    return Bill(
        cell=cell,
        completions=sum(row["completions"] for row in cell.rows),
        totals=totals,
        a_question=mean_interval(cell.tokens),
        cost=None if price_per_million is None else made * price_per_million / 1e6,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One row of metrics on the time line."""

    seconds: float
    """Since the run began, without the time between attempts."""
    attempt: int
    in_flight: int
    waiting: int
    tokens_per_s: float
    """Completion tokens since the row before."""
    slots: Mapping[str, float]
    """By pool: share of sequence slots in use since the row before, in [0, 1]."""
    replicas: Mapping[str, int]


def time_line(metrics: Sequence[Row]) -> list[Moment]:
    """Metrics as moments of one line of time; the first row of an attempt only sets its start."""
    moments: list[Moment] = []
    before: Row | None = None
    elapsed = 0.0
    for row in metrics:
        if before is None or row["attempt"] != before["attempt"]:
            start = {"time": row["time"] - row.get("phase_seconds", 0.0), "completion_tokens": 0}
            before = {**start, "attempt": row["attempt"], "engines": {}}
        span = row["time"] - before["time"]
        if span <= 0:
            continue
        elapsed += span
        made = row["completion_tokens"] - before["completion_tokens"]
        engines = row.get("engines") or {}
        moments.append(
            Moment(
                seconds=elapsed,
                attempt=row["attempt"],
                in_flight=row["in_flight"],
                waiting=row["waiting"],
                tokens_per_s=max(0.0, made / span),
                slots={
                    pool: share
                    for pool, stats in engines.items()
                    if (share := _slots(stats, (before["engines"] or {}).get(pool, []))) is not None
                },
                replicas={pool: len(stats) for pool, stats in engines.items()},
            )
        )
        before = row
    return moments


def _slots(now: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> float | None:
    """Slot-seconds over seconds of the replicas that answered; a new replica counts from 0."""
    known = {stats["replica"]: stats for stats in before}
    used, up = [], []
    for stats in now:
        old = known.get(stats["replica"], {"slot_s": 0.0, "up_s": 0.0})
        if stats["up_s"] >= old["up_s"]:
            used.append(stats["slot_s"] - old["slot_s"])
            up.append(stats["up_s"] - old["up_s"])
    return math.fsum(used) / math.fsum(up) if math.fsum(up) > 0 else None
