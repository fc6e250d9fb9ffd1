"""*Setting*: the results of one setting of a strategy on every question of a pool.

Where a question has several chains, values of strategies that read chains are means over them.
Chains are replayed as arrays (`pipeline.replay.fast`), every other strategy by the state machine.

Axes: Q questions, R answer rules, C chains of a question, T rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.answers.answer_rules import RULES, Rule, apply
from pipeline.answers.voting import forms
from pipeline.core.arrays import FloatArray, IntArray
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
from pipeline.replay.costs import KINDS, added_up, amounts, drawn_at_once
from pipeline.replay.exact import replay_phases
from pipeline.replay.fast import Decisions, FastReplay, replays_as_arrays
from pipeline.replay.pool_rows import Digests
from pipeline.replay.pools import CompletionPool
from pipeline.strategies.chain_agreement import Agree

Int8Array = NDArray[np.int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One setting over all questions, with one chain of each."""

    verdict_RQ: Int8Array
    """By answer rule (in the order of `rules`): codes of `pipeline.replay.chain_arrays`."""
    place_RQ: NDArray[np.int16]
    """Round, or number of the sample, that the answer is taken from; -1 where there is none."""
    applicable_R: tuple[bool, ...]
    """Whether the rule could be applied to any question."""
    tokens_Q: IntArray
    completions_Q: IntArray
    spent_Q: dict[str, FloatArray]
    """By kind (`pipeline.replay.costs`)."""
    rules: tuple[Rule, ...] = RULES


def _mean(values_CQ: Sequence[NDArray[Any]]) -> FloatArray:
    """(Q,) mean over chains, of those that have a value; nan where none has."""
    if len(values_CQ) == 1:
        return np.asarray(values_CQ[0], np.float64)
    known_CQ = ~np.isnan(values_CQ)
    count_Q = known_CQ.sum(axis=0)
    total_Q = np.where(known_CQ, values_CQ, 0.0).sum(axis=0)
    return np.where(count_Q > 0, total_Q / np.maximum(count_Q, 1), np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a sweep, and what it made of every question."""

    label: str
    strategy: Strategy
    judged_C: tuple[Judged, ...]
    """With each chain of the questions; a single one where the strategy reads samples."""

    @property
    def judged(self) -> Judged:
        """With the first chain."""
        return self.judged_C[0]

    @property
    def applicable_R(self) -> tuple[bool, ...]:
        """`Judged.applicable_R` of any chain."""
        return tuple(map(any, zip(*(one.applicable_R for one in self.judged_C), strict=True)))

    def right_Q(self, rule: Rule) -> FloatArray:
        """(Q,) share of the graded answers that are right; nan where none is graded."""
        return _mean([rights(one, rule) for one in self.judged_C])

    @property
    def tokens_Q(self) -> FloatArray:
        """(Q,) mean completion tokens."""
        return _mean([one.tokens_Q for one in self.judged_C])

    @property
    def completions_Q(self) -> FloatArray:
        """(Q,) mean completions."""
        return _mean([one.completions_Q for one in self.judged_C])

    @property
    def spent_Q(self) -> dict[str, FloatArray]:
        """(Q,) mean cost by kind (`pipeline.replay.costs`)."""
        return {kind: _mean([one.spent_Q[kind] for one in self.judged_C]) for kind in KINDS}

    def answers_CQ(self, rule: Rule, form_CQT: IntArray) -> tuple[IntArray, FloatArray]:
        """(C, Q) the number of each chain's answer in `form_CQT`, -1 for none, and `rights`."""
        place_CQ = np.array([one.place_RQ[one.rules.index(rule)] for one in self.judged_C])
        chosen_CQ = np.take_along_axis(form_CQT, np.maximum(place_CQ, 0)[..., None], 2)[..., 0]
        right_CQ = np.array([rights(one, rule) for one in self.judged_C])
        return np.where(place_CQ >= 0, chosen_CQ, -1), right_CQ


class Judge:
    """Replays a strategy over every chain of a pool, as arrays where it can."""

    def __init__(self, pool: CompletionPool, rules: tuple[Rule, ...] = RULES) -> None:
        self._chains = [pool.with_chain(chain) for chain in range(max(1, pool.chains))]
        self._rules = rules
        self._fast: dict[int, FastReplay] = {}
        self._answers: dict[int, Answers] = {}

    def __call__(self, label: str, strategy: Strategy) -> Setting:
        several = len(self._chains) > 1 and reads_chains(self._chains[0], strategy)
        judged = [self._judged(c, strategy) for c in range(len(self._chains) if several else 1)]
        return Setting(label=label, strategy=strategy, judged_C=tuple(judged))

    def _judged(self, chain: int, strategy: Strategy) -> Judged:
        pool, rules = self._chains[chain], self._rules
        shipped = rules == RULES or not isinstance(strategy, Agree)  # `positions` knows no more
        if replays_as_arrays(strategy) and shipped:
            if chain not in self._fast:
                self._fast[chain] = FastReplay(chain_arrays(pool, rules))
            fast = self._fast[chain]
            return judged_by_arrays(fast.chains, fast.decide(strategy))
        if chain not in self._answers:
            self._answers[chain] = answers_of(pool)
        return judged_by_state_machine(pool, strategy, self._answers[chain], rules)


def reads_chains(pool: CompletionPool, strategy: Strategy) -> bool:
    question = pool.questions[0].question
    first = strategy.phases()[0].strategy
    requests = next(decisions(first, question, strategy.prepare([question])))
    return requests[0].pool is Pool.SEQUENTIAL


def forms_by_chain(pool: CompletionPool) -> IntArray:
    """(C, Q, T): number of each answer among the distinct ones of its question, over all its
    chains; -1 where there is none. Of one chain, which is compared with no other, all are -1."""
    shape = (max(1, pool.chains), len(pool.questions), max(1, pool.rounds))
    form_CQT = np.full(shape, -1, np.int64)
    for q, question in enumerate(pool.questions if shape[0] > 1 else ()):
        chains = [rounds for rounds, _ in question.chains[: shape[0]]]
        seen = [entry.observation for rounds in chains for entry in rounds]
        found = iter(forms([o.answer if isinstance(o, Completion) else None for o in seen]))
        for c, rounds in enumerate(chains):
            form_CQT[c, q, : len(rounds)] = [next(found) for _ in rounds]
    return form_CQT


def judged_by_arrays(chains: ChainArrays, decided: Decisions) -> Judged:
    """What stopping each chain as decided is worth under every rule.

    A failed chain is wrong, whatever it had answered before, and is billed for what it drew.
    """
    drawn_Q, failed_Q, own = decided.drawn_Q, decided.failed_Q, decided.position_RQ
    rows = np.arange(len(drawn_Q))
    verdicts, places, applicable = [], [], []
    rules: tuple[Rule, ...] = chains.rules if own is None else RULES
    for rule in rules:
        position_Q = chains.position_QD[rule][rows, drawn_Q] if own is None else own[rule]
        of_round_Q = chains.verdict_QT[rows, np.maximum(position_Q, 0)]
        verdict_Q = np.where(position_Q >= 0, of_round_Q, NO_VERDICT)
        verdict_Q = np.where((position_Q == NO_ANSWER) | failed_Q, WRONG, verdict_Q)
        verdicts.append(np.where(chains.gold_Q, verdict_Q, NO_VERDICT))
        places.append(np.where(failed_Q, -1, np.maximum(position_Q, -1)))
        asked_Q = ~failed_Q if not failed_Q.all() else failed_Q
        applicable.append(bool(np.any(position_Q[asked_Q] >= NO_ANSWER)))
    return Judged(
        verdict_RQ=np.array(verdicts, dtype=np.int8),
        place_RQ=np.array(places, dtype=np.int16),
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
    place_RQ = np.full((len(rules), len(place)), -1, np.int16)
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
            timed = [(o, seconds.get(id(o))) for o in had]
            spent_KQ[:, q] = added_up(amounts(timed), at_once=drawn_at_once(strategy))[:, -1]
            verdicts = mine[question_id].verdicts()
            failed_Q[q] = outcome.stop.reason is StopReason.FAILED
            for r, rule in enumerate(rules):
                chosen = apply(rule, outcome.completions, outcome.stop)
                applies_RQ[r, q] = chosen is not None
                if not failed_Q[q] and chosen is not None and chosen.position is not None:
                    *_, round_, sample = outcome.requests[chosen.position].address
                    place_RQ[r, q] = max(round_, sample)
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
        place_RQ=place_RQ,
        applicable_R=tuple(bool(applies_Q[asked_Q].any()) for applies_Q in applies_RQ),
        tokens_Q=tokens_Q,
        completions_Q=completions_Q,
        spent_Q=dict(zip(KINDS, spent_KQ, strict=True)),
        rules=rules,
    )


def _answered(answers: Answers, asked: Question, request: Request) -> Observation:
    return answers[asked.benchmark, asked.question_id](request)
