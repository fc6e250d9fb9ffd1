"""Sweeps: what many settings of a strategy would have answered over one pool, and their cost.

Chains are replayed as arrays (`pipeline.replay.fast`), every other strategy by the state machine.
A setting is judged on all questions; values that are tuned are chosen on one half of the questions
and judged on the other (`pipeline.replay.sweep_table`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline.answers.answer_rules import RULES, Rule, apply
from pipeline.core.arrays import FloatArray, IntArray
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
from pipeline.replay.chain_arrays import (
    NO_ANSWER,
    NO_VERDICT,
    RIGHT,
    WRONG,
    ChainArrays,
    chain_arrays,
    verdict_code,
)
from pipeline.replay.exact import RecordingKind, check_replayable, replay_phases
from pipeline.replay.fast import Decisions, FastReplay, replays_as_arrays
from pipeline.replay.pool_rows import Digests
from pipeline.replay.pools import CompletionPool
from pipeline.strategies.chain_agreement import Agree

HALVES = 2
_VERDICTS = 4

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
    rules: tuple[Rule, ...] = RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of one setting by group, a group being a benchmark's half."""

    label: str
    strategy: Strategy
    applicable_R: tuple[bool, ...]
    verdicts_RGV: IntArray
    """Questions by rule, group and verdict code."""
    tokens_G: IntArray
    completions_G: IntArray
    questions_G: IntArray
    judged: Judged
    """Question by question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """All settings over one pool."""

    benchmarks: tuple[str, ...]
    """Group g is half g % 2 of benchmark g // 2."""
    group_Q: IntArray
    tallies: tuple[Tally, ...]
    rules: tuple[Rule, ...] = RULES
    """That every setting was read by: the shipped ones, then those of one's own."""


def half_of(question: Question, seed: int) -> int:
    """Which half of the questions a question is in, 0 or 1, the same wherever it is asked."""
    text = f"half\x1f{seed}\x1f{question.benchmark}\x1f{question.question_id}"
    return hashlib.sha256(text.encode()).digest()[0] & 1


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
        if strategy_n(strategy) > deepest:
            raise ConfigError(
                f"n of {label} must be at most {deepest}, the depth of the pool, "
                f"got {strategy_n(strategy)}: deepen it with jobs.collect --resume"
            )
    group_Q = np.array(
        [
            HALVES * pool.benchmarks.index(q.question.benchmark) + half_of(q.question, seed)
            for q in pool.questions
        ],
        dtype=np.int64,
    )
    judge = _Judge(pool, tuple(rules))
    tallies = []
    for done, (label, strategy) in enumerate(settings, 1):
        tallies.append(_tally(label, strategy, judge(strategy), group_Q, len(pool.benchmarks)))
        if progress is not None:
            progress(done)
    return SweepResult(
        benchmarks=pool.benchmarks, group_Q=group_Q, tallies=tuple(tallies), rules=tuple(rules)
    )


def depth_of(pool: CompletionPool, strategy: Strategy) -> int:
    """How deep the pool is that a strategy draws from: by what it asks for first."""
    question = pool.questions[0].question
    first = strategy.phases()[0].strategy
    asked = next(decisions(first, question, strategy.prepare([question])))
    return pool.rounds if asked[0].pool is Pool.SEQUENTIAL else pool.samples


def strategy_n(strategy: Strategy) -> int:
    """Completions a question at most."""
    return strategy.n


class _Judge:
    """Replays a strategy over a pool, as arrays where it can."""

    def __init__(self, pool: CompletionPool, rules: tuple[Rule, ...]) -> None:
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
        rules=rules,
    )


def _answered(answers: Answers, asked: Question, request: Request) -> Observation:
    return answers[asked.benchmark, asked.question_id](request)


def _tally(
    label: str, strategy: Strategy, judged: Judged, group_Q: IntArray, n_benchmarks: int
) -> Tally:
    groups = HALVES * n_benchmarks
    counts = [
        np.bincount(group_Q * _VERDICTS + verdict_Q, minlength=groups * _VERDICTS)
        for verdict_Q in judged.verdict_RQ
    ]
    return Tally(
        label=label,
        strategy=strategy,
        applicable_R=judged.applicable_R,
        verdicts_RGV=np.array(counts).reshape(len(judged.rules), groups, _VERDICTS),
        tokens_G=_sums(group_Q, judged.tokens_Q, groups),
        completions_G=_sums(group_Q, judged.completions_Q, groups),
        questions_G=np.bincount(group_Q, minlength=groups),
        judged=judged,
    )


def _sums(group_Q: IntArray, values_Q: IntArray, groups: int) -> IntArray:
    sums = np.zeros(groups, np.int64)
    np.add.at(sums, group_Q, values_Q)
    return sums
