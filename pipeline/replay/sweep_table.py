"""The table of a sweep: every setting, and apart from them the chosen ones.

``chosen_on`` keeps apart what may not be mixed: null for a setting of the grid; ``held_out`` where
the tuned fields were chosen on the other half of the questions (both halves are judged so, and
added); ``test`` where they were chosen on the very questions that they are judged on, which is too
good; or the name of another pool on which they were chosen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.answers.answer_rules import Rule, rule_named
from pipeline.core.arrays import IntArray
from pipeline.core.protocol import Strategy
from pipeline.replay.chain_arrays import (
    RIGHT,
    UNGRADED,
    WRONG,
)
from pipeline.replay.sweep import HALVES, SweepResult, Tally, strategy_n
from pipeline.statistics.intervals import wilson
from pipeline.theory.stopping import STOP_RULES

HELD_OUT, TEST = "held_out", "test"
ALL, CROSS_FIT = "all", "cross_fit"

_OF_RULES = tuple(dict.fromkeys(name for rule in STOP_RULES.values() for name in rule.settings))
_TUNABLE = (*_OF_RULES, "sigma", "stop_rule", "gate", "stopping", "window", "p0_source")
_NOT_SETTINGS = ("decoding", "prompts", "score")

SCHEMA = pa.schema(
    [
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("n", pa.int32(), nullable=False),
        *(pa.field(name, pa.float64()) for name in _OF_RULES),
        pa.field("sigma", pa.float64()),
        pa.field("stop_rule", pa.string()),
        pa.field("gate", pa.bool_()),
        pa.field("stopping", pa.bool_()),
        pa.field("window", pa.int32()),
        pa.field("p0_source", pa.string()),
        pa.field("settings", pa.string(), nullable=False),  # all fields, JSON
        pa.field("answer_rule", pa.string(), nullable=False),
        pa.field("headline", pa.bool_(), nullable=False),  # whether it is the strategy's own rule
        pa.field("benchmark", pa.string(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("chosen_on", pa.string()),
        pa.field("questions", pa.int64(), nullable=False),
        pa.field("right", pa.int64(), nullable=False),
        pa.field("graded", pa.int64(), nullable=False),
        pa.field("ungraded", pa.int64(), nullable=False),
        pa.field("accuracy", pa.float64()),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("tokens_per_question", pa.float64(), nullable=False),
        pa.field("completions_per_question", pa.float64(), nullable=False),
    ]
)

Row = dict[str, Any]
Groups = Sequence[int]


def settings_of(strategy: Strategy) -> dict[str, Any]:
    """The fields of a strategy that are settings, JSON-able; of fitted numbers no origin."""
    names = [f.name for f in fields(strategy) if f.name not in _NOT_SETTINGS]  # type: ignore[arg-type]  # a dataclass, by the protocol's words
    values = {name: getattr(strategy, name) for name in names}
    plain = {k: asdict(v) if is_dataclass(v) else v for k, v in values.items()}  # type: ignore[arg-type]
    for value in plain.values():
        if isinstance(value, dict):
            value.pop("origin", None)
    return plain


def sweep_table(
    result: SweepResult, choose: Sequence[str], others: dict[str, SweepResult] | None = None
) -> pa.Table:
    """Every setting on every benchmark under every rule, and the chosen ones.

    Args:
        result: over the pool.
        choose: fields that are tuned.
        others: the same settings over other pools, by the name to put into ``chosen_on``.
    """
    rows: list[Row] = []
    for b, benchmark in enumerate(result.benchmarks):
        halves = [HALVES * b + half for half in range(HALVES)]
        for r, rule in enumerate(result.rules):
            for tally in result.tallies:
                if tally.applicable_R[r]:
                    rows.append(_row([(tally, halves)], r, rule, benchmark, ALL, None))
            for group in _alternatives(result.tallies, choose, r):
                rows += _chosen(group, r, rule, benchmark, halves)
                for name, other in (others or {}).items():
                    place = _best(group, r, range(len(other.benchmarks) * HALVES), other.tallies)
                    picked = result.tallies[place]
                    rows.append(_row([(picked, halves)], r, rule, benchmark, ALL, name))
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _alternatives(
    tallies: Sequence[Tally], choose: Sequence[str], r: int
) -> Iterable[list[tuple[int, Tally]]]:
    """Settings, with their places, that differ in tuned fields alone; at least two of them."""
    groups: dict[str, list[tuple[int, Tally]]] = {}
    for place, tally in enumerate(tallies):
        if not tally.applicable_R[r]:
            continue
        fixed = {k: v for k, v in settings_of(tally.strategy).items() if k not in choose}
        groups.setdefault(json.dumps([tally.label, fixed]), []).append((place, tally))
    return [group for group in groups.values() if len(group) > 1]


def _chosen(
    group: list[tuple[int, Tally]], r: int, rule: Rule, benchmark: str, halves: list[int]
) -> list[Row]:
    tallies = dict(group)
    rows = []
    if all(tally.questions_G[half] for tally in tallies.values() for half in halves):
        judged = [
            (tallies[_best(group, r, [other for other in halves if other != half])], [half])
            for half in halves
        ]
        rows.append(_row(judged, r, rule, benchmark, CROSS_FIT, HELD_OUT))
    best = tallies[_best(group, r, halves)]
    rows.append(_row([(best, halves)], r, rule, benchmark, ALL, TEST))
    return rows


def _best(
    group: list[tuple[int, Tally]],
    r: int,
    groups: Iterable[int],
    tallies: Sequence[Tally] | None = None,
) -> int:
    """The place of the most accurate setting; of equals the one with fewest tokens, the first."""
    at = list(groups)

    def key(entry: tuple[int, Tally]) -> tuple[float, int]:
        place, tally = entry
        counted = tally if tallies is None else tallies[place]
        verdicts = counted.verdicts_RGV[r, at].sum(axis=0)
        graded = verdicts[RIGHT] + verdicts[WRONG]
        accuracy = verdicts[RIGHT] / graded if graded else 0.0
        return (-float(accuracy), int(counted.tokens_G[at].sum()))

    return min(group, key=key)[0]


def _row(
    judged: list[tuple[Tally, list[int]]],
    r: int,
    rule: Rule,
    benchmark: str,
    split: str,
    chosen_on: str | None,
) -> Row:
    """One row from settings and the halves that each is judged on."""
    strategies = [tally.strategy for tally, _ in judged]
    settings = [settings_of(strategy) for strategy in strategies]
    verdicts: IntArray = np.sum([t.verdicts_RGV[r, at].sum(axis=0) for t, at in judged], axis=0)
    questions = int(sum(t.questions_G[at].sum() for t, at in judged))
    right, wrong = int(verdicts[RIGHT]), int(verdicts[WRONG])
    interval = wilson(right, right + wrong) if right + wrong else None
    both = {
        name: value if all(s[name] == value for s in settings) else [s[name] for s in settings]
        for name, value in settings[0].items()
    }
    same = {name: None if isinstance(both.get(name), list) else both.get(name) for name in _TUNABLE}
    return {
        "strategy": judged[0][0].label,
        "kind": strategies[0].kind,
        "n": strategy_n(strategies[0]),
        **same,
        "settings": json.dumps(both),
        "answer_rule": rule.value,
        "headline": rule == rule_named(strategies[0].default_rule),
        "benchmark": benchmark,
        "split": split,
        "chosen_on": chosen_on,
        "questions": questions,
        "right": right,
        "graded": right + wrong,
        "ungraded": int(verdicts[UNGRADED]),
        "accuracy": interval and interval.value,
        "low": interval and interval.low,
        "high": interval and interval.high,
        "tokens_per_question": sum(t.tokens_G[at].sum() for t, at in judged) / questions,
        "completions_per_question": sum(t.completions_G[at].sum() for t, at in judged) / questions,
    }
