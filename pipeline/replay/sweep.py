"""*sweep*: replays many settings of strategies over one pool: answers and cost.

Values of several chains a question are means over them (`pipeline.replay.judging`), and intervals
are over questions.

`sweep_table` has every setting, and apart from them the chosen ones. ``chosen_on`` separates what
may not be mixed: null for a setting of the grid; ``held_out`` where the tuned fields were chosen on
the other half of the questions (both halves are judged so, and added); ``test`` where they were
chosen on the very questions that they are judged on, which is too good.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from pipeline.answers.answer_rules import RULES, Rule, rule_named
from pipeline.core.arrays import BoolArray, FloatArray, IntArray
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import (
    Strategy,
)
from pipeline.core.text import copies_of
from pipeline.replay.chain_arrays import (
    RIGHT,
    UNGRADED,
    WRONG,
)
from pipeline.replay.exact import check_replayable
from pipeline.replay.judging import Judge, Setting, reads_chains
from pipeline.replay.pools import CompletionPool, is_export
from pipeline.results.column import HELD_OUT, TEST
from pipeline.statistics.intervals import share_interval

HALVES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """All settings over one pool."""

    benchmarks: tuple[str, ...]
    """Group g is half g % 2 of benchmark g // 2."""
    group_Q: IntArray
    settings: tuple[Setting, ...]
    rules: tuple[Rule, ...] = RULES
    """That every setting was read by: the shipped ones, then those of one's own."""


def half_of(key: tuple[str, str], seed: int) -> int:
    """Which half of the questions a question is in, 0 or 1, by its benchmark and id alone."""
    text = f"half\x1f{seed}\x1f{key[0]}\x1f{key[1]}"
    return hashlib.sha256(text.encode()).digest()[0] & 1


def firsts_of(pool: CompletionPool) -> list[tuple[str, str]]:
    """The key of each question of a pool, of a copy that of the first question with its text."""
    copies = copies_of((q.key, q.question.whole) for q in pool.questions)
    return [copies.get(q.key, q.key) for q in pool.questions]


def halves_in(pool: CompletionPool, seed: int) -> IntArray:
    """The half of each question, (Q,); copies of a question are in the half of the first."""
    return np.array([half_of(key, seed) for key in firsts_of(pool)], dtype=np.int64)


def sweep(
    pool: CompletionPool,
    settings: Sequence[tuple[str, Strategy]],
    *,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    rules: Sequence[Rule] = RULES,
) -> SweepResult:
    """Replay every setting over the pool.

    Args:
        pool: with priors in its questions where settings need them.
        settings: labels and strategies.
        seed: of the split into halves.
        progress: called with the number of settings done, after each.
        rules: answer rules, the shipped ones first.

    Raises:
        ConfigError: where a setting needs what a pool cannot give, before anything is replayed.
    """
    for label, strategy in settings:
        check_replayable(strategy)
        deepest = depth_of(pool, strategy)
        if strategy.n > deepest:
            raise ConfigError(
                f"n of {label} must be at most {deepest}, the depth of the pool, "
                f"got {strategy.n}: deepen it with jobs.collect --resume"
            )
    benchmark_Q = [pool.benchmarks.index(q.question.benchmark) for q in pool.questions]
    group_Q = HALVES * np.array(benchmark_Q, dtype=np.int64) + halves_in(pool, seed)
    judge = Judge(pool, tuple(rules))
    made = []
    for done, (label, strategy) in enumerate(settings, 1):
        made.append(judge(label, strategy))
        if progress is not None:
            progress(done)
    return SweepResult(
        benchmarks=pool.benchmarks,
        group_Q=group_Q,
        settings=tuple(made),
        rules=tuple(rules),
    )


def fitting(
    pool: CompletionPool, settings: Sequence[tuple[str, Strategy]]
) -> tuple[list[tuple[str, Strategy]], list[str]]:
    """Settings that a pool is deep enough for, and what was changed, in words.

    N is cut to the depth of a pool that nobody can deepen, an export or an import; a run's settings
    stay as they are. Strategies of chains are left out where there are samples only.
    """
    if not is_export(pool.address):
        return list(settings), []
    kept: list[tuple[str, Strategy]] = []
    cut: dict[str, int] = {}
    without: dict[str, None] = {}
    for label, strategy in settings:
        try:
            deepest = depth_of(pool, strategy) if strategy.pool_replayable else strategy.n
        except ConfigError:  # a prior is missing
            if pool.science.verifier is not None and pool.rounds > 1:
                raise
            deepest = 0
        if not deepest or strategy.n > deepest == 1:
            without[label] = None
            continue
        if strategy.n > deepest:
            cut[label] = deepest
            strategy = replace(cast(Any, strategy), n=deepest)
        if (label, strategy) not in kept:
            kept.append((label, strategy))
    notes = [f"n of {label} is cut to {n}, the depth of the pool" for label, n in cut.items()]
    if without:
        notes.append(f"left out, as the pool has no chains, scores or priors: {', '.join(without)}")
    return kept, notes


def depth_of(pool: CompletionPool, strategy: Strategy) -> int:
    """How deep the pool is that a strategy draws from: by what it asks for first."""
    return pool.rounds if reads_chains(pool, strategy) else pool.samples


ALL, CROSS_FIT = "all", "cross_fit"

_TUNABLE = ("tau", "gamma", "sigma", "gate", "stopping", "window", "p0_source")
_NOT_SETTINGS = ("decoding", "prompts", "score")

SCHEMA = pa.schema(
    [
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("n", pa.int32(), nullable=False),
        *(pa.field(name, pa.float64()) for name in ("tau", "gamma", "sigma")),
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
        pa.field("right", pa.int64(), nullable=False),  # answers, of all chains
        pa.field("graded", pa.int64(), nullable=False),
        pa.field("ungraded", pa.int64(), nullable=False),
        pa.field("accuracy", pa.float64()),  # mean over questions, avg@k of k chains
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("tokens_per_question", pa.float64(), nullable=False),
        pa.field("completions_per_question", pa.float64(), nullable=False),
        pa.field("chains", pa.int32()),  # k, that values are means over
    ]
)

Row = dict[str, Any]


def settings_of(strategy: Strategy) -> dict[str, Any]:
    """The fields of a strategy that are settings, JSON-able; of fitted numbers no origin."""
    names = [f.name for f in fields(strategy) if f.name not in _NOT_SETTINGS]
    values = {name: getattr(strategy, name) for name in names}
    plain = {k: asdict(v) if is_dataclass(v) else v for k, v in values.items()}  # type: ignore[arg-type]
    for value in plain.values():
        if isinstance(value, dict):
            value.pop("origin", None)
    return plain


def sweep_table(result: SweepResult, choose: Sequence[str]) -> pa.Table:
    """Every setting on every benchmark under every rule, and the chosen ones.

    Args:
        result: over the pool.
        choose: fields that are tuned.
    """
    rows: list[Row] = []
    for b, benchmark in enumerate(result.benchmarks):
        halves = [result.group_Q == HALVES * b + half for half in range(HALVES)]
        everywhere = halves[0] | halves[1]
        for r, rule in enumerate(result.rules):
            for setting in result.settings:
                if setting.applicable_R[r]:
                    rows.append(_row([(setting, everywhere)], rule, benchmark, ALL, None))
            for group in _alternatives(result.settings, choose, r):
                rows += _chosen(group, rule, benchmark, halves)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _alternatives(
    settings: Sequence[Setting], choose: Sequence[str], r: int
) -> Iterable[list[Setting]]:
    """Settings that differ in tuned fields alone; at least two of them."""
    groups: dict[str, list[Setting]] = {}
    for setting in settings:
        if setting.applicable_R[r]:
            values = settings_of(setting.strategy).items()
            fixed = {name: value for name, value in values if name not in choose}
            groups.setdefault(json.dumps([setting.label, fixed]), []).append(setting)
    return [group for group in groups.values() if len(group) > 1]


def _chosen(
    settings: list[Setting],
    rule: Rule,
    benchmark: str,
    halves: list[BoolArray],
) -> list[Row]:
    rows = []
    if all(half_Q.any() for half_Q in halves):
        judged = [
            (settings[best_of(settings, rule, other)], mine)
            for mine, other in (halves, halves[::-1])
        ]
        rows.append(_row(judged, rule, benchmark, CROSS_FIT, HELD_OUT))
    everywhere = halves[0] | halves[1]
    best = settings[best_of(settings, rule, everywhere)]
    rows.append(_row([(best, everywhere)], rule, benchmark, ALL, TEST))
    return rows


def best_of(settings: Sequence[Setting], rule: Rule, at_Q: BoolArray) -> int:
    """Place of the setting most accurate on some questions; of equals the one with fewest tokens,
    the first."""

    def key(place: int) -> tuple[float, float]:
        right_Q = settings[place].right_Q(rule)[at_Q]
        known_Q = right_Q[~np.isnan(right_Q)]
        accuracy = float(known_Q.mean()) if len(known_Q) else 0.0
        return -accuracy, float(settings[place].tokens_Q[at_Q].sum())

    return min(range(len(settings)), key=key)


def _row(
    judged: list[tuple[Setting, BoolArray]],
    rule: Rule,
    benchmark: str,
    split: str,
    chosen_on: str | None,
) -> Row:
    """One row from settings and the questions that each is judged on."""
    strategies = [setting.strategy for setting, _ in judged]
    settings = [settings_of(strategy) for strategy in strategies]
    chains = len(judged[0][0].judged_C)
    verdicts = np.concatenate(
        [
            made.verdict_RQ[made.rules.index(rule), at_Q]
            for one, at_Q in judged
            for made in one.judged_C
        ]
    )
    right, wrong = int(np.sum(verdicts == RIGHT)), int(np.sum(verdicts == WRONG))
    questions = len(verdicts) // chains
    accuracy = _interval([one.right_Q(rule)[at_Q] for one, at_Q in judged])
    both = {
        name: value if all(s[name] == value for s in settings) else [s[name] for s in settings]
        for name, value in settings[0].items()
    }
    same = {name: None if isinstance(both.get(name), list) else both.get(name) for name in _TUNABLE}
    return {
        "strategy": judged[0][0].label,
        "kind": strategies[0].kind,
        "n": strategies[0].n,
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
        "ungraded": int(np.sum(verdicts == UNGRADED)),
        **dict(zip(("accuracy", "low", "high"), accuracy, strict=True)),
        **{
            f"{what}_per_question": sum(float(getattr(one, f"{what}_Q")[at_Q].sum())
                                        for one, at_Q in judged) / questions
            for what in ("tokens", "completions")
        },
        "chains": chains,
    }  # fmt: skip


def _interval(values: Sequence[FloatArray]) -> tuple[float | None, ...]:
    """Mean and ends of the interval over the questions that have a value."""
    known_Q = np.concatenate(values)
    known_Q = known_Q[~np.isnan(known_Q)]
    if not len(known_Q):
        return (None, None, None)
    interval = share_interval(known_Q)
    return (interval.value, interval.low, interval.high)
