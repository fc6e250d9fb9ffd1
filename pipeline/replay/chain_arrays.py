"""The chains of a pool as arrays: scores, tokens, verdicts, and every answer rule at every depth.

Axes: Q questions, T rounds, D = T + 1 depths, a depth being the number of completions that an
answer rests on. What does not depend on a strategy's settings is worked out here, once a pool.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipeline.answers.answer_rules import NO_CHOICE, RULES, AnswerRule, OwnRule, Rule
from pipeline.answers.voting import forms
from pipeline.core.arrays import BoolArray, FloatArray, IntArray
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Completion, Question
from pipeline.replay.costs import KINDS, Spent, added_up, amounts
from pipeline.replay.pools import CompletionPool, PoolQuestion

NO_ANSWER, NOT_APPLICABLE = -1, -2
"""Positions that are none: nothing to choose from, which is wrong; nothing that the rule reads."""

RIGHT, WRONG, UNGRADED, NO_VERDICT = 0, 1, 2, 3
"""Codes of verdicts."""

_VOTES = tuple(rule for rule in AnswerRule if rule.value.endswith("vote"))

_CODES = {"right": RIGHT, "wrong": WRONG, "ungraded": UNGRADED, None: NO_VERDICT}


def verdict_code(verdict: str | None) -> int:
    """The code of a recorded verdict."""
    return _CODES[verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainArrays:
    """All chains of a pool."""

    question_Q: tuple[Question, ...]
    length_Q: IntArray
    """Completions before the first failure, at most T."""
    failed_Q: BoolArray
    """Whether a failure follows them."""
    gold_Q: BoolArray
    """Whether a right answer is known."""
    form_QT: IntArray
    """Number of each answer among the distinct ones of its question, in order of appearance; -1
    where there is no completion, or no answer."""
    score_QT: FloatArray
    """nan where there is no completion, or no score."""
    spent_QD: Spent
    """What the first d completions cost, by kind."""
    tokens_QD: IntArray
    """Completion tokens of the first d completions."""
    logprobs_QT: BoolArray
    """Whether a completion has its log-probabilities recorded."""
    says_stop_QT: NDArray[np.int8]
    """`Completion.says_stop` as 1 or 0; -1 where it is not recorded, or there is no completion."""
    verdict_QT: NDArray[np.int8]
    """`RIGHT`, `WRONG`, `UNGRADED` or `NO_VERDICT`."""
    position_QD: dict[Rule, NDArray[np.int16]]
    """Round that a rule takes the answer from after d completions; negative where there is none."""

    @property
    def graded_QT(self) -> BoolArray:
        """Whether a completion is known to be right or wrong."""
        return np.isin(self.verdict_QT, (RIGHT, WRONG))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The answer rules that chains are read by, the shipped ones first."""
        return tuple(self.position_QD)

    @property
    def n_rounds(self) -> int:
        """T."""
        return int(self.score_QT.shape[1])


def chain_arrays(pool: CompletionPool, rules: Sequence[Rule] = RULES) -> ChainArrays:
    """The chains of a pool as arrays, read by the shipped answer rules and what follows them.

    Raises:
        ConfigError: where the pool has no chains, or a rule of one's own cannot be imported.
    """
    if pool.rounds < 1 or not pool.questions:
        raise ConfigError(f"a pool must have chains to be swept over, {pool.address} has none")
    shape = (len(pool.questions), pool.rounds)
    length_Q, failed_Q = np.zeros(shape[0], np.int64), np.zeros(shape[0], np.bool_)
    score_QT, tokens_QT = np.full(shape, np.nan), np.zeros(shape, np.int64)
    verdict_QT, form_QT = np.full(shape, NO_VERDICT, np.int8), np.full(shape, -1, np.int64)
    position_QD = {
        rule: np.full((shape[0], shape[1] + 1), _of_nothing(rule), np.int16) for rule in rules
    }
    logprobs_QT, says_stop_QT = np.zeros(shape, np.bool_), np.full(shape, -1, np.int8)
    spent_KQD = np.zeros((len(KINDS), shape[0], shape[1] + 1))
    for q, question in enumerate(pool.questions):
        drawn = _completions(question)
        length_Q[q], failed_Q[q] = len(drawn), len(drawn) < len(question.rounds)
        form_QT[q, : len(drawn)] = forms([c.answer for c in drawn])
        score_QT[q, : len(drawn)] = [np.nan if c.score is None else c.score for c in drawn]
        logprobs_QT[q, : len(drawn)] = [c.token_confidence is not None for c in drawn]
        says_stop_QT[q, : len(drawn)] = [-1 if c.says_stop is None else c.says_stop for c in drawn]
        tokens_QT[q, : len(drawn)] = [c.completion_tokens for c in drawn]
        timed = [(c, entry.seconds) for c, entry in zip(drawn, question.rounds, strict=False)]
        sums_KN = added_up(amounts(timed), at_once=False)
        spent_KQD[:, q] = sums_KN[:, np.minimum(np.arange(shape[1] + 1), len(drawn))]
        verdict_QT[q, : len(drawn)] = [_CODES[v] for v in question.round_verdicts[: len(drawn)]]
        own = [rule for rule in rules if isinstance(rule, OwnRule)]
        for rule, positions in positions_by_depth(drawn, own).items():
            position_QD[rule][q, 1 : len(drawn) + 1] = positions
    return ChainArrays(
        question_Q=tuple(q.question for q in pool.questions),
        length_Q=length_Q,
        failed_Q=failed_Q,
        gold_Q=np.array([q.gold is not None for q in pool.questions], dtype=np.bool_),
        form_QT=form_QT,
        score_QT=score_QT,
        spent_QD=dict(zip(KINDS, spent_KQD, strict=True)),
        tokens_QD=np.concatenate(
            [np.zeros((shape[0], 1), np.int64), np.cumsum(tokens_QT, axis=1)], axis=1
        ),
        logprobs_QT=logprobs_QT,
        says_stop_QT=says_stop_QT,
        verdict_QT=verdict_QT,
        position_QD=position_QD,
    )


def _of_nothing(rule: Rule) -> int:
    return NOT_APPLICABLE if rule.needs_logprobs else NO_ANSWER


def positions_by_depth(
    drawn: Sequence[Completion], own: Sequence[OwnRule] = ()
) -> dict[Rule, list[int]]:
    """For each rule the position that it chooses after 1, 2, ... completions of one chain.

    The same choices as `pipeline.answers.answer_rules.apply` on every prefix, in one pass.
    """
    argmax, votes = _Argmax(), {rule: _Vote(rule) for rule in _VOTES}
    form_N = forms([completion.answer for completion in drawn])
    found: dict[Rule, list[int]] = {rule: [] for rule in RULES}
    for position, completion in enumerate(drawn):
        found[AnswerRule.LAST].append(position)
        found[AnswerRule.PRM_ARGMAX].append(argmax.add(position, completion))
        for rule, vote in votes.items():
            found[rule].append(vote.add(position, completion, form_N[position]))
    for mine in own:  # asked at every depth: nobody knows how its choice grows with the chain
        found[mine] = _own_by_depth(mine, drawn)
    return found


def _own_by_depth(rule: OwnRule, drawn: Sequence[Completion]) -> list[int]:
    read = [(p, replace(c, text="")) for p, c in enumerate(drawn) if rule.reads(c)]
    positions, completions = [p for p, _ in read], [c for _, c in read]
    by_count = [NOT_APPLICABLE]
    for count in range(1, len(read) + 1):
        chosen = rule.choose(completions[:count])
        if chosen is None or chosen == NO_CHOICE:
            by_count.append(NOT_APPLICABLE if chosen is None else NO_ANSWER)
        else:
            by_count.append(positions[chosen])
    return [by_count[bisect_right(positions, p)] for p in range(len(drawn))]


class _Argmax:
    """The best scored completion so far, those with an answer before those without."""

    def __init__(self) -> None:
        self._best = NOT_APPLICABLE
        self._key = (False, -1.0)

    def add(self, position: int, completion: Completion) -> int:
        if completion.score is not None:
            key = (completion.answer is not None, completion.score)
            if self._best < 0 or key > self._key:  # the first of equals stays
                self._best, self._key = position, key
        return self._best


class _Vote:
    """The heaviest cluster so far, the first seen on ties."""

    def __init__(self, rule: AnswerRule) -> None:
        self._rule = rule
        self._weights: dict[int, list[float]] = {}  # by form, the first seen first
        self._first: dict[int, int] = {}
        self._applicable = False

    def add(self, position: int, completion: Completion, form: int) -> int:
        weight = self._rule.weight(completion)
        if weight is None:
            return self._leader()
        self._applicable = True
        if form >= 0:
            self._first.setdefault(form, position)
            self._weights.setdefault(form, []).append(weight)
        return self._leader()

    def _leader(self) -> int:
        if not self._applicable:
            return NOT_APPLICABLE
        if not self._weights:
            return NO_ANSWER
        return self._first[max(self._weights, key=lambda form: sum(self._weights[form]))]


def _completions(question: PoolQuestion) -> list[Completion]:
    """The rounds up to the first failure, at which every chain ends."""
    drawn: list[Completion] = []
    for entry in question.rounds:
        if not isinstance(entry.observation, Completion):
            break
        drawn.append(entry.observation)
    return drawn
