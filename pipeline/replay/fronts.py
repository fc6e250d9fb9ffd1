"""The table of fronts: accuracy at every budget of each family, against the controls.

``measure`` says what a row is; `against` names the control of a difference.

| measure | value | tokens |
|---|---|---|
| ``accuracy`` | accuracy at a budget | the budget |
| ``difference`` | the same minus that of the control | the budget |
| ``mean_accuracy`` | mean accuracy over all budgets, each doubling weighing the same | |
| ``mean_difference`` | the same minus that of the control | |
| ``tokens_ratio`` | tokens over the control's at equal accuracy | at that accuracy |
| ``setting`` | accuracy of a setting on the front, on the half that it is judged on | its own |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import FloatArray, IntArray
from pipeline.statistics.fronts import (
    LEAST_QUESTIONS,
    Family,
    Front,
    at_equal_accuracy,
    budgets_between,
    fronts,
    interval_of,
    mean_over,
)
from pipeline.statistics.intervals import Interval

SCHEMA = pa.schema(
    [
        pa.field("benchmark", pa.string(), nullable=False),
        pa.field("family", pa.string(), nullable=False),
        pa.field("measure", pa.string(), nullable=False),
        pa.field("against", pa.string()),
        pa.field("tokens", pa.float64()),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("low", pa.float64()),  # of the 95 % interval; null for settings
        pa.field("high", pa.float64()),
        pa.field("level", pa.float64()),  # of tokens_ratio: the accuracy that both reach
        pa.field("control_tokens", pa.float64()),  # of tokens_ratio: the control's at it
        pa.field("half", pa.int32()),  # of settings: the half that is judged
        pa.field("setting", pa.string()),
        pa.field("base_tokens", pa.float64(), nullable=False),  # of one completion
    ]
)

MARKS = (2, 4, 8, 16, 32)
"""Budgets, in completions of Base, at which differences are given one by one."""
_CHEAPEST = 1.05
"""The common range of budgets begins at so many completions of Base."""

Row = dict[str, Any]


def front_rows(
    benchmark: str,
    families: Sequence[Family],
    base: Family,
    half_Q: IntArray,
    controls: Sequence[str],
    *,
    seed: int = 0,
) -> list[Row]:
    """All rows of one benchmark; none where a half has too few graded questions.

    Every front begins at one completion, which every strategy can stop after, and the budgets run
    from 1.05 completions to the dearest setting of all.

    Args:
        benchmark: its name.
        families: over its questions.
        base: one completion; its single setting is added to each family.
        half_Q: the half of each question.
        controls: names of the families that all others are held against.
        seed: of the resampling.
    """
    graded_Q = ~np.isnan(base.right_SQ[0])
    if min(int(np.sum(graded_Q & (half_Q == half))) for half in (0, 1)) < LEAST_QUESTIONS:
        return []
    one = float(base.tokens_SQ.mean())
    dearest = max(float(family.tokens_SQ.mean(axis=1).max()) for family in families)
    if dearest <= 2 * one:
        return []
    budget_B = budgets_between(_CHEAPEST * one, dearest, [mark * one for mark in MARKS])
    whole = [_with(base, family) for family in families]
    made = fronts(whole, half_Q, budget_B, seed=seed)
    held = [front for name in controls for front in made if front.name == name]
    rows: list[Row] = []
    for family, front in zip(whole, made, strict=True):
        rows += _own(front, family, budget_B)
        for control in held:
            if control is not front:
                rows += _against(front, control, budget_B, [mark * one for mark in MARKS])
    empty = dict.fromkeys(SCHEMA.names)
    shared = {"benchmark": benchmark, "base_tokens": one}
    return [{**empty, **shared, **row} for row in rows]


def _with(base: Family, family: Family) -> Family:
    """A family whose cheapest setting is one completion."""

    def put(own: FloatArray | None, first: FloatArray) -> FloatArray | None:
        return None if own is None else np.vstack([first, own])

    return Family(
        name=family.name,
        settings=(*base.settings, *family.settings),
        right_SQ=np.vstack([base.right_SQ, family.right_SQ]),
        tokens_SQ=np.vstack([base.tokens_SQ, family.tokens_SQ]),
        seen_right_SQ=put(family.seen_right_SQ, base.right_SQ),
        seen_tokens_SQ=put(family.seen_tokens_SQ, base.tokens_SQ),
    )


def _own(front: Front, family: Family, budget_B: FloatArray) -> Iterator[Row]:
    for b, tokens in enumerate(budget_B.tolist()):
        share = _share(interval_of(front.accuracy_DB[:, b]))
        yield {"family": front.name, "measure": "accuracy", "tokens": tokens, **share}
    mean = _share(interval_of(mean_over(front.accuracy_DB, budget_B)))
    yield {"family": front.name, "measure": "mean_accuracy", **mean}
    for half, (picked, points) in enumerate(zip(front.picked, front.points, strict=True)):
        for place, (tokens, accuracy) in zip(picked, points, strict=True):
            yield {
                "family": front.name,
                "measure": "setting",
                "tokens": tokens,
                "value": accuracy,
                "half": half,
                "setting": family.settings[place],
            }


def _against(
    front: Front, control: Front, budget_B: FloatArray, marks: Sequence[float]
) -> Iterator[Row]:
    difference_DB = front.accuracy_DB - control.accuracy_DB
    shared = {"family": front.name, "against": control.name}
    for b, tokens in enumerate(budget_B.tolist()):
        if tokens in marks:
            ends = _ends(interval_of(difference_DB[:, b]))
            yield {**shared, "measure": "difference", "tokens": tokens, **ends}
    mean = interval_of(mean_over(difference_DB, budget_B))
    yield {**shared, "measure": "mean_difference", **_ends(mean)}
    mine_D, theirs_D, level_D = at_equal_accuracy(front.accuracy_DB, control.accuracy_DB, budget_B)
    ratio = interval_of(np.log(mine_D) - np.log(theirs_D))  # its error is a factor
    yield {
        **shared,
        "measure": "tokens_ratio",
        "tokens": float(mine_D[0]),
        "control_tokens": float(theirs_D[0]),
        "level": float(level_D[0]),
        **{end: float(np.exp(value)) for end, value in _ends(ratio).items()},
    }


def _ends(interval: Interval) -> Row:
    return {"value": interval.value, "low": interval.low, "high": interval.high}


def _share(interval: Interval) -> Row:
    return {
        "value": interval.value,
        "low": max(0.0, interval.low),
        "high": min(1.0, interval.high),
    }
