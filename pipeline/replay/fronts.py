"""The table of fronts: accuracy at every budget of each family, and against the controls that are
always there.

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
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.answers.answer_rules import AnswerRule, Rule, rule_named
from pipeline.config.strategies import strategy_of
from pipeline.core.arrays import FloatArray, IntArray
from pipeline.core.protocol import Strategy
from pipeline.replay.judging import Setting
from pipeline.replay.pools import CompletionPool
from pipeline.replay.sweep import HALVES, SweepResult, settings_of
from pipeline.results.column import fields_words, varied
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
        pa.field("split_sd", pa.float64()),  # of means: over splits into halves
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
    splits: Sequence[tuple[IntArray, Sequence[Family]]] = (),
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
        controls: names of the families that all others are compared with.
        splits: further halves with the families as they are judged there. Values are means over all
            splits in which a family stands; the intervals are those of the first.
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
    with_base = [_with(base, family) for family in families]
    made = fronts(with_base, half_Q, budget_B, seed=seed)
    others = [
        {
            f.name: f.accuracy_DB[0]
            for f in fronts(
                [_with(base, family) for family in again], halves_Q, budget_B, draws=0, seed=seed
            )
        }
        for halves_Q, again in splits
    ]
    by_split = {}
    for front in made:
        again = [found[front.name] for found in others if front.name in found]
        by_split[front.name] = np.array([front.accuracy_DB[0], *again])
    made = [_averaged(front, by_split[front.name]) for front in made]
    held = [front for name in controls for front in made if front.name == name]
    rows: list[Row] = []
    for family, front in zip(with_base, made, strict=True):
        rows += _own(front, family, budget_B, by_split[front.name])
        for control in held:
            if control is not front:
                both = [by_split[one.name] for one in (front, control)]
                difference = both[0] - both[1] if len(both[0]) == len(both[1]) else both[0][:0]
                rows += _against(front, control, budget_B, [m * one for m in MARKS], difference)
    empty = dict.fromkeys(SCHEMA.names)
    shared = {"benchmark": benchmark, "base_tokens": one}
    return [{**empty, **shared, **row} for row in rows]


def _averaged(front: Front, accuracy_PB: FloatArray) -> Front:
    """A front moved to its mean over P splits."""
    shift_B = accuracy_PB.mean(axis=0) - accuracy_PB[0]
    return replace(front, accuracy_DB=front.accuracy_DB + shift_B)


def _spread(accuracy_PB: FloatArray, budget_B: FloatArray) -> float | None:
    """Standard deviation over splits of the mean over budgets."""
    if len(accuracy_PB) < 2:
        return None
    return float(np.std(mean_over(accuracy_PB, budget_B), ddof=1))


def _with(base: Family, family: Family) -> Family:
    """A family whose cheapest setting is one completion."""
    right, tokens = base.right_SQ, base.tokens_SQ
    seen_right, seen_tokens = family.seen
    return Family(
        name=family.name,
        settings=(*base.settings, *family.settings),
        right_SQ=np.vstack([right, family.right_SQ]),
        tokens_SQ=np.vstack([tokens, family.tokens_SQ]),
        seen_right_SQ=np.vstack([right, seen_right]),
        seen_tokens_SQ=np.vstack([tokens, seen_tokens]),
    )


def _own(
    front: Front, family: Family, budget_B: FloatArray, accuracy_PB: FloatArray
) -> Iterator[Row]:
    for b, tokens in enumerate(budget_B.tolist()):
        share = _share(interval_of(front.accuracy_DB[:, b]))
        yield {"family": front.name, "measure": "accuracy", "tokens": tokens, **share}
    mean = _share(interval_of(mean_over(front.accuracy_DB, budget_B)))
    yield {
        "family": front.name,
        "measure": "mean_accuracy",
        **mean,
        "split_sd": _spread(accuracy_PB, budget_B),
    }
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
    front: Front,
    control: Front,
    budget_B: FloatArray,
    marks: Sequence[float],
    difference_PB: FloatArray,
) -> Iterator[Row]:
    difference_DB = front.accuracy_DB - control.accuracy_DB
    shared = {"family": front.name, "against": control.name}
    for b, tokens in enumerate(budget_B.tolist()):
        if tokens in marks:
            ends = _ends(interval_of(difference_DB[:, b]))
            yield {**shared, "measure": "difference", "tokens": tokens, **ends}
    mean = interval_of(mean_over(difference_DB, budget_B))
    yield {
        **shared,
        "measure": "mean_difference",
        **_ends(mean),
        "split_sd": _spread(difference_PB, budget_B),
    }
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


CONTROLS = ("chain_asc", "mr_thinking", "markovscale_star")
"""Kinds that are always there; each is read by vote."""
THRESHOLDS = (0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
TAUS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
GAMMAS = (1.0, 10.0)


def budgets(depth: int) -> list[int]:
    """2, 3, 4, 6, 8, 12, ... and the depth of the pool itself."""
    grid = {n for k in range(depth.bit_length()) for n in (2**k, 3 * 2**k)} | {depth}
    return [n for n in sorted(grid) if 1 < n <= depth]


def control_settings(pool: CompletionPool) -> list[tuple[str, Strategy]]:
    """Base and the grids of the controls, as far as the pool can replay them: MarkovScale^* needs
    scores, a and b; a pool of samples has the vote over them, of a fixed number and by ASC."""
    science = pool.science
    made: list[tuple[str, Strategy]] = [("base", strategy_of("base", science))]

    def add(kind: str, **values: Any) -> None:
        made.append((kind, strategy_of(kind, science, **values)))

    if pool.rounds < 2:
        for n in budgets(pool.samples) if pool.samples > 1 else ():
            add("self_consistency", n=n)
            for threshold in THRESHOLDS:
                add("asc", n=n, threshold=threshold)
        return made if len(made) > 1 else []
    for n in budgets(pool.rounds):
        add("mr_thinking", n=n)
        for threshold in THRESHOLDS:
            add("chain_asc", n=n, threshold=threshold)
        if _believes(pool):
            for tau in TAUS:
                for gamma in GAMMAS:
                    add("markovscale_star", n=n, tau=tau, gamma=gamma)
    return made


def _believes(pool: CompletionPool) -> bool:
    priors = [question.question.priors for question in pool.questions]
    known = all(prior.a is not None and prior.b is not None for prior in priors)
    first_scores = {prior.p0 is None for prior in priors}
    return pool.science.verifier is not None and known and len(first_scores) == 1


def sweep_fronts(result: SweepResult) -> list[Row]:
    """The rows of all benchmarks of a sweep that has `control_settings` among its settings."""
    base = next((one for one in result.settings if one.strategy.kind == "base"), None)
    if base is None:
        return []
    rows: list[Row] = []
    for b, benchmark in enumerate(result.benchmarks):
        at = result.group_Q // HALVES == b
        families = [
            family_of(name, settings, rule, at)
            for (name, rule), settings in _grouped(result).items()
        ]
        known = [f for f in families if not np.isnan(f.right_SQ).all(axis=1).any()]
        rows += front_rows(
            benchmark,
            known,
            family_of("base", [base], AnswerRule.LAST, at),
            result.group_Q[at] % HALVES,
            [named(kind, AnswerRule.VOTE) for kind in CONTROLS],
        )
    return rows


def named(label: str, rule: Rule) -> str:
    """How a family is written."""
    return f"{label} ({rule.value})"


def _grouped(result: SweepResult) -> dict[tuple[str, Rule], list[Setting]]:
    """Settings of one label by its own rule, and those of the controls by vote too."""
    groups: dict[tuple[str, Rule], list[Setting]] = {}
    for setting in result.settings:
        kind = setting.strategy.kind
        rules = {rule_named(setting.strategy.default_rule)}
        if setting.label in CONTROLS:
            rules.add(AnswerRule.VOTE)
        for rule in sorted(rules, key=str):
            if kind != "base" and setting.applicable_R[result.rules.index(rule)]:
                groups.setdefault((named(setting.label, rule), rule), []).append(setting)
    return groups


def family_of(name: str, settings: Sequence[Setting], rule: Rule, at: Any) -> Family:
    """Settings read by one rule, over some of the questions."""
    return Family(
        name=name,
        settings=tuple(in_words([setting.strategy for setting in settings])),
        right_SQ=np.array([setting.right_Q(rule)[at] for setting in settings]),
        tokens_SQ=np.array([setting.tokens_Q[at] for setting in settings]),
    )


def in_words(strategies: Sequence[Strategy]) -> list[str]:
    """Each setting in words: the fields in which it differs from the others, N always."""
    known = [settings_of(strategy) for strategy in strategies]
    differ = varied(known)
    names = [name for name in known[0] if name == "n" or name in differ]
    return [
        fields_words(one, names) or strategy.kind
        for one, strategy in zip(known, strategies, strict=True)
    ]
