"""*sweep*: what many settings of strategies would have answered over one pool, and their cost.

Chains are replayed as arrays (`pipeline.replay.fast`), every other strategy by the state machine.
`sweep_table` has every setting, and apart from them the chosen ones. ``chosen_on`` separates what
may not be mixed: null for a setting of the grid; ``held_out`` where the tuned fields were chosen on
the other half of the questions (both halves are judged so, and added); ``test`` where they were
chosen on the very questions that they are judged on, which is too good; or the name of another pool
on which they were chosen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.answers.answer_rules import RULES, Rule, apply, rule_named
from pipeline.core.arrays import BoolArray, FloatArray, IntArray
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import (
    Completion,
    Observation,
    Pool,
    Question,
    Request,
    StopReason,
    Strategy,
    decisions,
)
from pipeline.core.text import copies_of
from pipeline.replay.chain_arrays import (
    NO_ANSWER,
    NO_VERDICT,
    RIGHT,
    UNGRADED,
    WRONG,
    ChainArrays,
    chain_arrays,
    verdict_code,
)
from pipeline.replay.costs import KINDS, added_up, amounts, drawn_at_once
from pipeline.replay.exact import RecordingKind, check_replayable, replay_phases
from pipeline.replay.fast import Decisions, FastReplay, replays_as_arrays
from pipeline.replay.pool_rows import Digests
from pipeline.replay.pools import CompletionPool, is_export
from pipeline.results.column import HELD_OUT, TEST
from pipeline.statistics.intervals import wilson
from pipeline.strategies.chain_agreement import Agree
from pipeline.theory.stopping import STOP_RULES

HALVES = 2

Int8Array = NDArray[np.int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One setting over all questions."""

    verdict_RQ: Int8Array
    """By answer rule (in the order of `rules`): codes of `pipeline.replay.chain_arrays`."""
    applicable_R: tuple[bool, ...]
    """Whether the rule could be applied to any question."""
    tokens_Q: IntArray
    completions_Q: IntArray
    spent_Q: dict[str, FloatArray]
    """By kind (`pipeline.replay.costs`)."""
    rules: tuple[Rule, ...] = RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a sweep, and what it made of every question."""

    label: str
    strategy: Strategy
    judged: Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """All settings over one pool."""

    benchmarks: tuple[str, ...]
    """Group g is half g % 2 of benchmark g // 2."""
    group_Q: IntArray
    settings: tuple[Setting, ...]
    rules: tuple[Rule, ...] = RULES
    """That every setting was read by: the shipped ones, then those of one's own."""


def half_of(question: Question, seed: int) -> int:
    """Which half of the questions a question is in, 0 or 1, the same wherever it is asked."""
    return _half((question.benchmark, question.question_id), seed)


def _half(key: tuple[str, str], seed: int) -> int:
    text = f"half\x1f{seed}\x1f{key[0]}\x1f{key[1]}"
    return hashlib.sha256(text.encode()).digest()[0] & 1


def firsts_of(pool: CompletionPool) -> list[tuple[str, str]]:
    """The key of each question of a pool, of a copy that of the first question with its text."""
    copies = copies_of((q.key, q.question.whole) for q in pool.questions)
    return [copies.get(q.key, q.key) for q in pool.questions]


def halves_in(pool: CompletionPool, seed: int) -> IntArray:
    """The half of each question, (Q,); copies of a question are in the half of the first."""
    return np.array([_half(key, seed) for key in firsts_of(pool)], dtype=np.int64)


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
        progress: told how many settings are done, after each.
        rules: answer rules, the shipped ones first.

    Raises:
        ConfigError: where a setting needs what a pool cannot give, before anything is replayed.
    """
    for label, strategy in settings:
        check_replayable(strategy, RecordingKind.POOL)
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
        made.append(Setting(label=label, strategy=strategy, judged=judge(strategy)))
        if progress is not None:
            progress(done)
    return SweepResult(
        benchmarks=pool.benchmarks, group_Q=group_Q, settings=tuple(made), rules=tuple(rules)
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
    question = pool.questions[0].question
    first = strategy.phases()[0].strategy
    asked = next(decisions(first, question, strategy.prepare([question])))
    return pool.rounds if asked[0].pool is Pool.SEQUENTIAL else pool.samples


class Judge:
    """Replays a strategy over a pool, as arrays where it can."""

    def __init__(self, pool: CompletionPool, rules: tuple[Rule, ...] = RULES) -> None:
        self._pool, self._rules = pool, rules
        self._fast: FastReplay | None = None
        self._answers: Answers | None = None

    def __call__(self, strategy: Strategy) -> Judged:
        shipped = self._rules == RULES or not isinstance(
            strategy, Agree
        )  # `positions` knows no more
        if replays_as_arrays(strategy) and shipped:
            if self._fast is None:
                self._fast = FastReplay(chain_arrays(self._pool, self._rules))
            decided = self._fast.decide(strategy)
            return judged_by_arrays(self._fast.chains, decided)
        if self._answers is None:
            self._answers = answers_of(self._pool)
        return judged_by_state_machine(self._pool, strategy, self._answers, self._rules)


def judged_by_arrays(chains: ChainArrays, decided: Decisions) -> Judged:
    """What stopping each chain as decided is worth under every rule.

    A failed chain is wrong, whatever it had answered before, and is billed for what it drew.
    """
    drawn_Q, failed_Q, own = decided.drawn_Q, decided.failed_Q, decided.position_RQ
    rows = np.arange(len(drawn_Q))
    verdicts, applicable = [], []
    rules: tuple[Rule, ...] = chains.rules if own is None else RULES
    for rule in rules:
        position_Q = chains.position_QD[rule][rows, drawn_Q] if own is None else own[rule]
        of_round_Q = chains.verdict_QT[rows, np.maximum(position_Q, 0)]
        verdict_Q = np.where(position_Q >= 0, of_round_Q, NO_VERDICT)
        verdict_Q = np.where((position_Q == NO_ANSWER) | failed_Q, WRONG, verdict_Q)
        verdicts.append(np.where(chains.gold_Q, verdict_Q, NO_VERDICT))
        asked_Q = ~failed_Q if not failed_Q.all() else failed_Q
        applicable.append(bool(np.any(position_Q[asked_Q] >= NO_ANSWER)))
    return Judged(
        verdict_RQ=np.array(verdicts, dtype=np.int8),
        applicable_R=tuple(applicable),
        tokens_Q=chains.tokens_QD[rows, drawn_Q],
        completions_Q=drawn_Q,
        spent_Q={kind: spent_QD[rows, drawn_Q] for kind, spent_QD in chains.spent_QD.items()},
        rules=rules,
    )


def rights(judged: Judged, rule: Rule) -> FloatArray:
    """(Q,) 1 right, 0 wrong, nan where the answer was not graded."""
    verdict_Q = judged.verdict_RQ[judged.rules.index(rule)]
    return np.where(verdict_Q == RIGHT, 1.0, np.where(verdict_Q == WRONG, 0.0, np.nan))


Answers = Mapping[tuple[str, str], Callable[[Request], Observation]]
"""What answers the requests of each question of a pool, by its key."""


def answers_of(pool: CompletionPool) -> Answers:
    """The recordings of a pool, indexed once for all strategies that are tried on it."""
    digests = Digests()
    return {question.key: question.answers(digests) for question in pool.questions}


def judged_by_state_machine(
    pool: CompletionPool,
    strategy: Strategy,
    answers: Answers | None = None,
    rules: tuple[Rule, ...] = RULES,
) -> Judged:
    """The same by `pipeline.replay.exact`, for any strategy that a pool can replay."""
    answers = answers or answers_of(pool)
    place = {question.key: q for q, question in enumerate(pool.questions)}
    verdict_RQ = np.full((len(rules), len(place)), NO_VERDICT, np.int8)
    failed_Q = np.zeros(len(place), np.bool_)
    applies_RQ = np.zeros((len(rules), len(place)), np.bool_)
    tokens_Q, completions_Q = np.zeros(len(place), np.int64), np.zeros(len(place), np.int64)
    spent_KQ = np.zeros((len(KINDS), len(place)))
    for benchmark in pool.benchmarks:
        mine = {q.question.question_id: q for q in pool.questions if q.key[0] == benchmark}
        outcomes = replay_phases(
            strategy,
            [question.question for question in mine.values()],
            partial(_answered, answers),
        )
        for question_id, outcome in outcomes.items():
            q = place[(benchmark, question_id)]
            drawn = (*outcome.earlier, *outcome.completions)
            had = [o for o in drawn if isinstance(o, Completion)]
            tokens_Q[q] = sum(completion.completion_tokens for completion in had)
            completions_Q[q] = len(had)
            entries = (*mine[question_id].rounds, *mine[question_id].samples)
            seconds = {id(entry.observation): entry.seconds for entry in entries}
            taken = [(o, seconds.get(id(o))) for o in had]
            spent_KQ[:, q] = added_up(amounts(taken), at_once=drawn_at_once(strategy))[:, -1]
            verdicts = mine[question_id].verdicts()
            failed_Q[q] = outcome.stop.reason is StopReason.FAILED
            for r, rule in enumerate(rules):
                chosen = apply(rule, outcome.completions, outcome.stop)
                applies_RQ[r, q] = chosen is not None
                if mine[question_id].gold is None:
                    continue
                if failed_Q[q] or (chosen is not None and chosen.position is None):
                    verdict_RQ[r, q] = WRONG
                elif chosen is None or chosen.position is None:
                    continue
                else:
                    address = outcome.requests[chosen.position].address
                    verdict_RQ[r, q] = verdict_code(verdicts[address])
    asked_Q = ~failed_Q if not failed_Q.all() else failed_Q
    return Judged(
        verdict_RQ=verdict_RQ,
        applicable_R=tuple(bool(applies_Q[asked_Q].any()) for applies_Q in applies_RQ),
        tokens_Q=tokens_Q,
        completions_Q=completions_Q,
        spent_Q=dict(zip(KINDS, spent_KQ, strict=True)),
        rules=rules,
    )


def _answered(answers: Answers, asked: Question, request: Request) -> Observation:
    return answers[asked.benchmark, asked.question_id](request)


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


def settings_of(strategy: Strategy) -> dict[str, Any]:
    """The fields of a strategy that are settings, JSON-able; of fitted numbers no origin."""
    names = [f.name for f in fields(strategy) if f.name not in _NOT_SETTINGS]
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
        halves = [result.group_Q == HALVES * b + half for half in range(HALVES)]
        everywhere = halves[0] | halves[1]
        for r, rule in enumerate(result.rules):
            for setting in result.settings:
                if setting.judged.applicable_R[r]:
                    rows.append(_row([(setting, everywhere)], rule, benchmark, ALL, None))
            for group in _alternatives(result.settings, choose, r):
                rows += _chosen(group, rule, benchmark, halves)
                for name, other in (others or {}).items():
                    whole = np.ones(len(other.group_Q), np.bool_)
                    place = best_of([other.settings[place] for place, _ in group], rule, whole)
                    picked = group[place][1]
                    rows.append(_row([(picked, everywhere)], rule, benchmark, ALL, name))
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _alternatives(
    settings: Sequence[Setting], choose: Sequence[str], r: int
) -> Iterable[list[tuple[int, Setting]]]:
    """Settings, with their places, that differ in tuned fields alone; at least two of them."""
    groups: dict[str, list[tuple[int, Setting]]] = {}
    for place, setting in enumerate(settings):
        if setting.judged.applicable_R[r]:
            values = settings_of(setting.strategy).items()
            fixed = {name: value for name, value in values if name not in choose}
            key = json.dumps([setting.label, fixed])
            groups.setdefault(key, []).append((place, setting))
    return [group for group in groups.values() if len(group) > 1]


def _chosen(
    group: list[tuple[int, Setting]], rule: Rule, benchmark: str, halves: list[BoolArray]
) -> list[Row]:
    settings = [setting for _, setting in group]
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

    def key(place: int) -> tuple[float, int]:
        judged = settings[place].judged
        right_Q = rights(judged, rule)[at_Q]
        known_Q = right_Q[~np.isnan(right_Q)]
        accuracy = float(known_Q.mean()) if len(known_Q) else 0.0
        return -accuracy, int(judged.tokens_Q[at_Q].sum())

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
    verdict_Q = np.concatenate(
        [one.judged.verdict_RQ[one.judged.rules.index(rule), at_Q] for one, at_Q in judged]
    )
    questions, right, wrong = (
        len(verdict_Q), int(np.sum(verdict_Q == RIGHT)), int(np.sum(verdict_Q == WRONG))
    )  # fmt: skip
    interval = wilson(right, right + wrong) if right + wrong else None
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
        "ungraded": int(np.sum(verdict_Q == UNGRADED)),
        "accuracy": interval and interval.value,
        "low": interval and interval.low,
        "high": interval and interval.high,
        **{
            f"{what}_per_question": sum(int(getattr(one.judged, f"{what}_Q")[at_Q].sum())
                                        for one, at_Q in judged) / questions
            for what in ("tokens", "completions")
        },
    }  # fmt: skip
