"""*Spending*: adds up tokens and their price, the load of engines over time, and failures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.core.prices import Prices
from pipeline.records.outcome import TOKEN_KINDS
from pipeline.records.trajectory import Row, Seen
from pipeline.report.run_data import Cell
from pipeline.theory.transitions import QuestionKey

_EXAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Tokens of one cell, in all."""

    cell: Cell
    completions: int
    totals: Mapping[str, int]
    """By token kind, ``wasted_tokens`` and ``tokens_unknown`` (failures whose engine could not say)
    among them. Thinking tokens are part of completion tokens, cached ones of prompt tokens."""
    cost: float | None
    """All tokens at the prices of the run (`RuntimeConfig.prices`), in USD; None without prices."""

    @property
    def cost_per_right(self) -> float | None:
        """The cost of each question that is answered right by the headline rule."""
        right = sum(self.cell.rights(self.cell.rule).values())
        return None if self.cost is None or not right else self.cost / right

    def parts(self) -> dict[str, int]:
        """Kinds that do not overlap, as a chart stacks them."""
        total = self.totals
        return {
            "answers": total["completion_tokens"] - total["thinking_tokens"],
            "thinking": total["thinking_tokens"],
            "wasted": total["wasted_tokens"],
            "prompts": total["prompt_tokens"] - total["cached_prompt_tokens"],
            "cached prompts": total["cached_prompt_tokens"],
            "verifier": total["verifier_tokens"] + total["judge_tokens"],
        }


def bill_of(cell: Cell, prices: Prices | None) -> Bill:
    """Add up a cell."""
    names = (*TOKEN_KINDS, "wasted_tokens", "tokens_unknown")
    totals = {name: sum(row[name] for row in cell.rows) for name in names}
    return Bill(
        cell=cell,
        completions=sum(row["completions"] for row in cell.rows),
        totals=totals,
        cost=None if prices is None else prices.usd(totals),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One kind of trouble of one cell."""

    cell: Cell
    what: str
    count: int
    examples: tuple[tuple[str, str], ...]
    """(question id, what came) of the first few."""


def troubles(
    cells: Sequence[Cell], questions: Mapping[str, Mapping[QuestionKey, Seen]]
) -> list[Trouble]:
    """Kinds of trouble of each cell; none where all went well.

    Args:
        questions: of each run, by its name.
    """
    found = []
    for cell in cells:
        known = questions[cell.run]
        came: dict[str, list[tuple[str, str]]] = {}
        for key, row in cell.by_question.items():
            for what, example in _of(cell, row, known.get(key)):
                came.setdefault(what, []).append((row["question_id"], example))
        found += [
            Trouble(cell=cell, what=what, count=len(examples), examples=tuple(examples[:_EXAMPLES]))
            for what, examples in came.items()
        ]
    return found


def _of(cell: Cell, row: Seen, question: Seen | None) -> list[tuple[str, str]]:
    """(kind, what came) of one question."""
    rule = cell.rule.value
    if row["error"] is not None:
        return [(f"failed: {row['error'].partition(':')[0][:60]}", row["error"][:400])]
    if row[f"verdict_{rule}"] == "ungraded":
        gold = question["gold"] if question is not None else None
        return [("ungraded answer", f"answer {row[f'answer_{rule}']!r}, gold {gold!r}"[:400])]
    if row[f"answer_{rule}"] is None:
        return [("no answer", f"none in {row['completions']} completions")]
    return []
