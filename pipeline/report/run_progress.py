"""*RunProgress*: measures how far a run is and how fast it goes, and predicts its end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pipeline.config.strategies import rule_of, strategies_of
from pipeline.core.protocol import Strategy
from pipeline.planning.phase_work import expected_completions
from pipeline.records.side_files import summary
from pipeline.records.trajectory import Row, Seen
from pipeline.report.comparison import accuracy
from pipeline.report.run_data import Cell, RunData
from pipeline.statistics.intervals import Interval
from pipeline.strategies.markovscale import MarkovScale0

_RATE_OVER_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyProgress:
    """One strategy on one benchmark, so far."""

    label: str
    benchmark: str
    done: int
    asked: int
    mean_rounds: float | None
    rule: str
    """The answer rule that defines its answer in this run."""
    accuracy: Interval | None
    """Of the questions done, by that rule. Short chains are done first, so they are no random
    sample of all."""
    stops: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """A run, so far."""

    done: int
    asked: int
    in_flight: int
    waiting: int
    cap: int | None
    """Chains that may be at work; None where it is not told."""
    pressure: str | None
    """What the engines said last (`admission.Pressure`); None where nobody asks."""
    rounds: int
    """Completions that came from engines, all attempts together."""
    rounds_per_s: float | None
    """Over the last two minutes of metrics; None before there are two rows."""
    tokens_per_s: float | None
    told_at: float | None
    """When metrics were last written, in seconds since 1970."""
    attempt: int
    phase: int | None
    limits: Mapping[str, Mapping[str, float | None]]
    """Spent, expected in all and cap by the name of each cap; None where it is not known."""
    rounds_to_come: float
    """Expected by the chains' own a, b and p0 where they are known, else up to the budget."""
    ended: bool
    """Whether the newest attempt is over: its summary was written."""
    strategies: tuple[StrategyProgress, ...]

    @property
    def seconds_left(self) -> float | None:
        """At the present speed; None while nothing says how fast it goes."""
        if self.done == self.asked:
            return 0.0
        return self.rounds_to_come / self.rounds_per_s if self.rounds_per_s else None


def progress_of(run: RunData) -> RunProgress:
    """Fold what is durable: outcomes, metrics and questions."""
    strategies = strategies_of(run.config.science)
    cells = {(cell.label, cell.benchmark): cell for cell in run.cells}
    shown, expected = [], 0.0
    for benchmark in (source.name for source in run.config.science.benchmarks):
        questions = [row for row in run.questions.values() if row["benchmark"] == benchmark]
        for label, strategy in strategies.items():
            cell = cells.get((label, benchmark))
            rule = rule_of(run.config.science, strategy).value
            shown.append(_strategy(label, benchmark, len(questions), cell, rule))
            expected += math.fsum(_to_come(strategy, questions, cell))
    newest = run.metrics[-1] if run.metrics else None
    admission = {} if newest is None else newest.get("admission", {})
    rounds = sum(row["rounds"] for row in _last_of_attempts(run.metrics))
    drawn_by_done = sum(row["completions"] for cell in run.cells for row in cell.rows)
    rate, speed = _rates(run.metrics)
    return RunProgress(
        done=run.chains_done,
        asked=run.chains,
        in_flight=0 if newest is None else newest["in_flight"],
        waiting=0 if newest is None else newest["waiting"],
        cap=admission.get("cap"),
        pressure=admission.get("pressure"),
        rounds=rounds,
        rounds_per_s=rate,
        tokens_per_s=speed,
        told_at=None if newest is None else newest["time"],
        attempt=len(run.attempts),
        phase=None if newest is None else newest["phase"],
        limits=_limits(run),
        rounds_to_come=max(0.0, expected - max(0, rounds - drawn_by_done)),
        ended=_ended(run),
        strategies=tuple(shown),
    )


def still_expected(
    strategy: Strategy, *, p0: float | None, a: float | None, b: float | None
) -> int:
    """Completions that a chain is expected to draw (`pipeline.planning.phase_work`); MarkovScale^0
    takes p0 from its own prior, and stops after its warm-up at the earliest."""
    if not isinstance(strategy, MarkovScale0):
        return expected_completions(strategy, p0=p0, a=a, b=b)
    p0 = strategy.alpha0 / (strategy.alpha0 + strategy.beta0)
    least = min(strategy.warm_up, strategy.n)
    return max(least, expected_completions(strategy, p0=p0, a=a, b=b))


def _ended(run: RunData) -> bool:
    """Every attempt writes a summary when it ends, whatever ended it; one that was killed has none,
    nor does one that goes on, whose number no summary has yet."""
    ended = summary(run.run.folder).get("attempts")
    return isinstance(ended, int) and ended >= len(run.attempts)


def _strategy(
    label: str, benchmark: str, asked: int, cell: Cell | None, rule: str
) -> StrategyProgress:
    rows = () if cell is None else cell.rows
    return StrategyProgress(
        label=label,
        benchmark=benchmark,
        done=len(rows),
        asked=asked,
        mean_rounds=sum(row["completions"] for row in rows) / len(rows) if rows else None,
        rule=rule,
        accuracy=None if cell is None else accuracy(cell, cell.rule),
        stops=dict(Counter(row["stop_reason"] for row in rows)),
    )


def _to_come(strategy: Strategy, questions: Sequence[Seen], cell: Cell | None) -> Iterator[int]:
    """Completions that each unfinished question is expected to draw in all."""
    rows = () if cell is None else cell.rows
    done = frozenset() if cell is None else cell.by_question.keys()
    usual = {name: _mean(row[name] for row in rows) for name in ("p0", "a", "b")}
    for question in questions:
        if (question["benchmark"], question["question_id"]) not in done:
            known = {
                name: value if question[name] is None else question[name]
                for name, value in usual.items()
            }
            yield still_expected(strategy, **known)


def _limits(run: RunData) -> dict[str, Mapping[str, float | None]]:
    told: Mapping[str, Any] = next((r["limits"] for r in run.metrics[::-1] if "limits" in r), {})
    unknown = {"spent": None}
    caps = run.config.runtime.limits.caps
    return {name: {**told.get(name, unknown), "cap": cap} for name, cap in caps.items()}


def _mean(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _last_of_attempts(metrics: Sequence[Row]) -> Iterator[Row]:
    """Counters begin anew with every attempt."""
    yield from (row for row, after in pairwise(metrics) if row["attempt"] != after["attempt"])
    yield from metrics[-1:]


def _rates(metrics: Sequence[Row]) -> tuple[float | None, float | None]:
    """Rounds and completion tokens per second."""
    if not metrics:
        return None, None
    newest = metrics[-1]
    recent = [
        row
        for row in metrics
        if row["attempt"] == newest["attempt"] and newest["time"] - row["time"] <= _RATE_OVER_S
    ]
    span = newest["time"] - recent[0]["time"]
    if span <= 0:
        return None, None
    return (
        (newest["rounds"] - recent[0]["rounds"]) / span,
        (newest["completion_tokens"] - recent[0]["completion_tokens"]) / span,
    )
