"""*Forecast*: predicts accuracy and tokens of a whole run from the cells of a pilot.

MR-Thinking, which draws its rounds whatever comes, is forecast at other numbers of completions than
the pilot's; every other strategy at its own settings only, because where it would stop at others
the pilot does not tell. Axes: Q questions, R rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import FloatArray
from pipeline.core.errors import ConfigError
from pipeline.planning.pilot import (
    LEAST_QUESTIONS,
    LEVEL,
    forecast_chains,
    forecast_share,
    forecast_tokens,
)
from pipeline.records.outcome import has_failed
from pipeline.records.trajectory import Row
from pipeline.report.comparison import best_rule, rival_of
from pipeline.report.run_data import Cell
from pipeline.statistics.intervals import Interval, wilson
from pipeline.statistics.paired import pairs_needed
from pipeline.theory.transitions import QuestionKey

CHAIN = "mr_thinking"
"""The kind of strategy whose accuracy is forecast by round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One strategy on one benchmark with so many completions a question."""

    benchmark: str
    label: str
    completions: int
    """At most, of a question."""
    rule: str
    """The answer rule of `accuracy`."""
    questions: int
    """That are forecast: others than the pilot's."""
    pilot: int
    """Questions of the pilot that the accuracy rests on."""
    left_out: int
    """Questions of the pilot that nobody could grade; their tokens count."""
    seen: float | None
    """Accuracy of the pilot; None where it did not draw as much."""
    accuracy: Interval
    tokens: Interval
    """Completion tokens of all questions together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """What GPUs made while chains were at work."""

    tokens: float
    gpu_s: float
    """GPU seconds of every pool, verifiers among them."""

    @property
    def tokens_per_gpu_s(self) -> float:
        """Completion tokens a GPU second."""
        return self.tokens / self.gpu_s


def forecasts_of(
    cells: Sequence[Cell], questions: Mapping[str, int], completions: int | None = None
) -> list[Forecast]:
    """The forecast of every cell with enough graded questions: MR-Thinking at 1, 2, 4, ...
    completions, others at their own.

    Args:
        cells: of the pilot.
        questions: of the whole run, by benchmark, the pilot's not among them.
        completions: the most of MR-Thinking; None takes what the pilot drew.

    Raises:
        ConfigError: without cells, with too few graded questions in all of them, or where
            `completions` is given and there are no chains.
    """
    if not cells:
        raise ConfigError("a pilot must have finished questions, got none")
    if completions is not None and not any(cell.kind == CHAIN for cell in cells):
        raise ConfigError(
            f"a pilot must have chains of {CHAIN} to be forecast at {completions} rounds, got "
            f"{', '.join(dict.fromkeys(cell.label for cell in cells))}"
        )
    found = []
    enough = [cell for cell in cells if _graded(cell) >= LEAST_QUESTIONS]
    if not enough:
        raise ConfigError(
            f"a pilot must have at least {LEAST_QUESTIONS} graded questions a benchmark and "
            f"strategy, got {too_few(cells[0])}"
        )
    for cell in enough:
        of = questions[cell.benchmark]
        found += (
            _of_chain(cell, of, completions or cell.n)
            if cell.kind == CHAIN
            else [_of_strategy(cell, of)]
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Questions that a paired comparison of two strategies needs."""

    benchmark: str
    first: str
    second: str
    """Labels of the strategies."""
    difference: float
    """The true difference of accuracies that is to be called."""
    pilot: int
    """Questions of the pilot that both strategies were graded on."""
    discordant: Interval
    """Share of them that one strategy alone had right, with Wilson's 95 % interval."""
    questions: Interval
    """Questions for power 0.8 at level 0.05, at `discordant` and at both its ends."""
    repeats: int
    """Runs of the same 30 questions with as many answers as `questions`."""


REPEATED = 30
"""Questions of the small benchmark that `Power.repeats` is about: AIME's."""


def powers_of(cells: Sequence[Cell], difference: float, labels: Sequence[str] = ()) -> list[Power]:
    """What each benchmark needs to call a difference, by exact McNemar power.

    Args:
        cells: of the pilot.
        difference: of accuracies, in (0, 1].
        labels: two strategies; none takes the most accurate one and MR-Thinking at its N, or the
            deepest MR-Thinking, read by its best rule.

    Raises:
        ConfigError: unless there are no labels or two of the pilot's.
    """
    known = list(dict.fromkeys(cell.label for cell in cells))
    if labels and (len(set(labels)) != 2 or not set(labels) <= set(known)):
        raise ConfigError(
            f"two strategies of the pilot must be named, of {', '.join(known)}; got "
            f"{', '.join(labels)}"
        )
    found = []
    for benchmark in dict.fromkeys(cell.benchmark for cell in cells):
        pair = _pair([cell for cell in cells if cell.benchmark == benchmark], labels)
        if pair is None:
            continue
        first, second = (_rights(cell) for cell in pair)
        both = first.keys() & second.keys()
        if len(both) < LEAST_QUESTIONS:
            continue
        discordant = wilson(sum(first[key] != second[key] for key in both), len(both))
        needed = [
            pairs_needed(difference, max(difference, share))
            for share in (discordant.value, discordant.low, discordant.high)
        ]
        value, low, high = needed
        found.append(
            Power(
                benchmark=benchmark,
                first=pair[0].label,
                second=pair[1].label,
                difference=difference,
                pilot=len(both),
                discordant=discordant,
                questions=Interval(value=value, low=low, high=high, level=discordant.level),
                repeats=-(-value // REPEATED),
            )
        )
    return found


def _pair(cells: Sequence[Cell], labels: Sequence[str]) -> tuple[Cell, Cell] | None:
    """The two strategies of one benchmark that are compared."""
    if labels:
        named = {cell.label: cell for cell in cells}
        return (named[labels[0]], named[labels[1]]) if set(labels) <= named.keys() else None
    chains = [cell for cell in cells if cell.kind == CHAIN]
    others = [cell for cell in cells if cell.kind != CHAIN and _rights(cell)]
    if not chains or not others:
        return None
    best = max(others, key=lambda cell: np.mean([*_rights(cell).values()]))
    return best, rival_of(best, cells) or max(chains, key=lambda cell: cell.n)


def _rights(cell: Cell) -> Mapping[QuestionKey, bool]:
    return cell.rights(best_rule(cell) if cell.kind == CHAIN else cell.rule)


def too_few(cell: Cell) -> str | None:
    """How many graded questions a cell has, in words, where they are too few for a forecast."""
    graded = _graded(cell)
    if graded >= LEAST_QUESTIONS:
        return None
    return f"{graded} of {len(cell.rows)} in {cell.benchmark}, {cell.label}"


def doubling(most: int) -> list[int]:
    """1, 2, 4, ... and `most`."""
    return [*(2**k for k in range(most.bit_length()) if 2**k < most), most]


def scaled(interval: Interval, factor: float) -> Interval:
    """An interval in another unit."""
    return Interval(
        value=interval.value * factor,
        low=interval.low * factor,
        high=interval.high * factor,
        level=interval.level,
    )


def total_tokens(forecasts: Sequence[Forecast]) -> Interval:
    """All strategies, each with all its completions. Ends are added up, as if all erred together:
    the interval is rather too wide."""
    each_strategy = {
        (f.benchmark, f.label): f.tokens for f in forecasts
    }.values()  # the last is the largest
    return Interval(
        value=sum(t.value for t in each_strategy),
        low=sum(t.low for t in each_strategy),
        high=sum(t.high for t in each_strategy),
        level=LEVEL,
    )


def speed_of(metrics: Sequence[Row], gpus: Mapping[str, float]) -> Speed | None:
    """Speed of a pilot from its counters, over the time in which chains were at work.

    Args:
        metrics: rows of the counters, in their order.
        gpus: that one replica takes, by pool.

    Returns:
        None where nothing was counted, or no replica had a GPU.
    """
    tokens = gpu_s = 0.0
    before: Row | None = None
    for row in metrics:
        if before is None or row["attempt"] != before["attempt"]:
            began = row["time"] - row.get("phase_seconds", 0.0)
            before = {"time": began, "attempt": row["attempt"], "completion_tokens": 0}
        span = row["time"] - before["time"]
        if span <= 0:
            continue
        made = max(0, row["completion_tokens"] - before["completion_tokens"])
        if row["in_flight"] or made:
            tokens += made
            engines = (row.get("engines") or {}).items()
            gpu_s += sum(len(stats) * gpus.get(pool, 0.0) for pool, stats in engines) * span
        before = row
    return Speed(tokens=tokens, gpu_s=gpu_s) if tokens and gpu_s else None


def _of_chain(cell: Cell, of: int, most: int) -> list[Forecast]:
    labels_QR, tokens_QR = _labels(cell), _tokens(cell)
    right_QR = labels_QR[~np.isnan(labels_QR).any(axis=1)]
    pilot = len(right_QR)
    depths = doubling(most)
    accuracies = forecast_chains(right_QR, [depth - 1 for depth in depths], of=of)
    return [
        Forecast(
            benchmark=cell.benchmark,
            label=cell.label,
            completions=depth,
            rule="last",
            questions=of,
            pilot=pilot,
            left_out=len(labels_QR) - pilot,
            seen=float(right_QR[:, depth - 1].mean()) if depth <= cell.n else None,
            accuracy=accuracy,
            tokens=forecast_tokens(tokens_QR, depth, of),
        )
        for depth, accuracy in zip(depths, accuracies, strict=True)
    ]


def _of_strategy(cell: Cell, of: int) -> Forecast:
    rights = cell.rights(cell.rule)
    right, pilot = sum(rights.values()), len(rights)
    return Forecast(
        benchmark=cell.benchmark,
        label=cell.label,
        completions=cell.n,
        rule=cell.rule.value,
        questions=of,
        pilot=pilot,
        left_out=len(cell.rows) - pilot,
        seen=right / pilot,
        accuracy=forecast_share(right, pilot, of),
        tokens=forecast_tokens(np.array(cell.tokens, np.float64)[:, None], 1, of),
    )


def _graded(cell: Cell) -> int:
    """Questions that a forecast can rest on."""
    if cell.kind == CHAIN:
        return int((~np.isnan(_labels(cell)).any(axis=1)).sum())
    return len(cell.rights(cell.rule))


def _labels(cell: Cell) -> FloatArray:
    """1 right, 0 wrong, nan not graded; a chain that failed is wrong from there on."""
    labels_QR = np.full((len(cell.rows), cell.n), np.nan)
    for labels_R, (key, row) in zip(labels_QR, cell.by_question.items(), strict=True):
        if key in cell.without_gold:
            continue
        verdicts = row["round_verdicts"]
        for r, verdict in enumerate(verdicts):
            labels_R[r] = {"right": 1.0, "wrong": 0.0}.get(verdict, np.nan)
        if has_failed(row):
            labels_R[min(row["completions"], cell.n - 1) :] = 0.0
    return labels_QR


def _tokens(cell: Cell) -> FloatArray:
    """Completion tokens by round; nan where a chain had ended."""
    tokens_QR = np.full((len(cell.rows), cell.n), np.nan)
    for tokens_R, row in zip(tokens_QR, cell.rows, strict=True):
        for r, tokens in enumerate(row["round_tokens"][: row["completions"]]):
            tokens_R[r] = tokens
    return tokens_QR
