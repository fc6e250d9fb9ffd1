"""*First table*: counts the completions of a pool that each stopping rule needs.

Samples are judged against the vote over all of them, chains against MR-Thinking over all rounds.
Values of one and of k of n samples are expectations over all subsets
(`pipeline.statistics.sampling`), values of several chains the mean over them; intervals are over
questions, each of which weighs the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.answers.answer_rules import AnswerRule
from pipeline.answers.voting import forms
from pipeline.core.arrays import FloatArray, IntArray
from pipeline.core.protocol import Completion, Strategy
from pipeline.replay.judging import Judge, Setting, forms_by_chain
from pipeline.replay.pools import CompletionPool, PoolQuestion
from pipeline.results.column import Column
from pipeline.results.compare import compare
from pipeline.statistics.intervals import Interval, share_saved
from pipeline.statistics.sampling import maj_at_k, pass_at_k
from pipeline.strategies import STRATEGIES

_SMALL = 10
"""Samples up to which ESC's window is half of 8; its authors' 5 fits no budget of 8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One rule on all questions of a benchmark."""

    method: str
    column: Column
    completions: float
    """Mean a question."""
    against: Interval | None = None
    """Accuracy minus that of the reference."""
    completions_saved: Interval | None = None
    """Share of the reference's completions that it does without."""
    tokens_saved: Interval | None = None
    """Likewise; None where tokens are not known."""
    tokens_known: bool = True


def first_table(pool: CompletionPool) -> list[Row]:
    """The rows of a pool of one benchmark: samples, then chains; the reference of each first.

    A pool without graded questions has none.
    """
    rows: list[Row] = []
    if not any(question.gold is not None for question in pool.questions):
        return rows
    if pool.samples:
        rows += _rows(pool, list(_of_samples(pool)))
    if pool.rounds > 1:
        rows += _rows(pool, list(_of_chains(pool)))
    return rows


_Method = tuple[str, FloatArray, FloatArray, FloatArray]
"""Method; right, completions and tokens by question."""


def _rows(pool: CompletionPool, made: Sequence[_Method]) -> list[Row]:
    """The first is the reference."""
    benchmark, backbone = pool.benchmarks[0], pool.science.generator.model
    known = pool.tokens != "none"
    columns = [
        Column(
            backbone=backbone, benchmark=benchmark, method=method, kind="", n=None, rule="",
            right_Q=right_Q, tokens_Q=tokens_Q,
        )
        for method, right_Q, _, tokens_Q in made
    ]  # fmt: skip
    rows = []
    for (method, _, completions_Q, tokens_Q), column in zip(made, columns, strict=True):
        found = None if column is columns[0] else compare(column, columns[0])
        reference = made[0]
        rows.append(
            Row(
                method=method,
                column=column,
                completions=float(np.mean(completions_Q)),
                against=None if found is None else found.accuracy,
                completions_saved=None
                if found is None
                else share_saved(completions_Q, reference[2]),
                tokens_saved=share_saved(tokens_Q, reference[3]) if found and known else None,
                tokens_known=known,
            )
        )
    return rows


def _of_samples(pool: CompletionPool) -> Iterator[_Method]:
    n = pool.samples
    window = 4 if n <= _SMALL else 5
    judge = Judge(pool)
    yield _judged(pool, judge, f"SC@{n}", "self_consistency", AnswerRule.VOTE, n=n)
    each = np.array([_tokens(question, n) for question in pool.questions])
    shares = [_shares(question) for question in pool.questions]
    yield _expected("single", [(share.right / share.n, 1) for share in shares], each / n)
    for k in (2**power for power in range(2, 12)):  # of two samples the vote is one of them
        if k < n:
            yield _expected(f"SC@{k}", [(s.majority(k), k) for s in shares], each * k / n)
    yield _judged(pool, judge, "ASC 0.95", "asc", AnswerRule.VOTE, n=n, threshold=0.95)
    for name, votes_too in (
        (f"ESC w {window}", True),
        (f"ESC w {window}, no answer silent", False),
    ):
        if n >= window:
            yield _judged(
                pool, judge, name, "esc", AnswerRule.VOTE,
                n=n, window=window, no_answer_votes=votes_too,
            )  # fmt: skip
    if pool.science.verifier is not None:
        vote = AnswerRule.PRM_WEIGHTED_VOTE
        yield _judged(pool, judge, f"weighted vote@{n}", "self_consistency", vote, n=n)
        best = AnswerRule.PRM_ARGMAX
        yield _judged(pool, judge, f"Best-of-{n}", "self_consistency", best, n=n)
    yield _expected(f"pass@{n} (an oracle)", [(s.any(n), n) for s in shares], each)


def _of_chains(pool: CompletionPool) -> Iterator[_Method]:
    n = pool.rounds
    settings: list[tuple[str, str, AnswerRule, dict[str, Any]]] = [
        (f"MR-Thinking, last of {n}", "mr_thinking", AnswerRule.LAST, {"n": n}),
        ("first round", "base", AnswerRule.LAST, {}),
        (f"MR-Thinking, vote of {n}", "mr_thinking", AnswerRule.VOTE, {"n": n}),
        ("Chain ASC 0.95", "chain_asc", AnswerRule.VOTE, {"n": n, "threshold": 0.95}),
        ("settled", "settled", AnswerRule.LAST, {"n": n}),
    ]
    judge = Judge(pool)
    for name, kind, rule, values in settings:
        yield _judged(pool, judge, name, kind, rule, **values)
    if pool.chains > 1:
        last = judge("", _strategy(pool, "mr_thinking", {"n": n}))
        yield from _votes_of_chains(*last.answers_CQ(AnswerRule.LAST, forms_by_chain(pool)), last)


def _votes_of_chains(form_CQ: IntArray, right_CQ: FloatArray, last: Setting) -> Iterator[_Method]:
    """maj@k and pass@k of the last answers of k chains, over all subsets."""
    chains = len(form_CQ)
    shares = [
        _Shares.of(list(zip(form_C.tolist(), (right_C == 1).tolist(), strict=True)))
        for form_C, right_C in zip(form_CQ.T, right_CQ.T, strict=True)
    ]
    for k in sorted({2**power for power in range(1, chains.bit_length())} | {chains}):
        drawn_Q, tokens_Q = k * last.completions_Q, k * last.tokens_Q
        for name, of in ((f"maj@{k}", _Shares.majority), (f"pass@{k} (an oracle)", _Shares.any)):
            found_Q = np.array([of(one, k) for one in shares])
            yield f"last, {name} of chains", found_Q, drawn_Q, tokens_Q


def _judged(
    pool: CompletionPool, judge: Judge, name: str, kind: str, rule: AnswerRule, **values: Any
) -> _Method:
    made = judge(name, _strategy(pool, kind, values))
    return name, made.right_Q(rule), made.completions_Q, made.tokens_Q


def _strategy(pool: CompletionPool, kind: str, values: dict[str, Any]) -> Strategy:
    science = pool.science
    shared: dict[str, Any] = {
        "decoding": science.decoding,
        "prompts": science.prompts,
        "score": science.verifier is not None,
    }
    made: Strategy = STRATEGIES[kind](**shared, **values)
    return made


def _expected(name: str, values: Sequence[tuple[float, int]], tokens_Q: FloatArray) -> _Method:
    right_Q = np.array([value for value, _ in values])
    return name, right_Q, np.array([float(count) for _, count in values]), tokens_Q


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shares:
    """How many answers of a question are right, and the votes for each distinct one."""

    n: int
    right: int
    votes: list[tuple[int, bool]]
    silent: int

    @classmethod
    def of(cls, answers: Sequence[tuple[int, bool]]) -> _Shares:
        """Of the number of each answer and whether it is right; -1 does not vote."""
        votes = Counter(form for form, _ in answers if form >= 0)
        right = dict(reversed(answers))  # the first of each counts
        return cls(
            n=len(answers),
            right=sum(ok for _, ok in answers),
            votes=[(count, right[form]) for form, count in votes.items()],
            silent=len(answers) - votes.total(),
        )

    def majority(self, k: int) -> float:
        """maj@k."""
        return maj_at_k(self.votes, k, abstained=self.silent)

    def any(self, k: int) -> float:
        """pass@k."""
        return pass_at_k(self.n, self.right, k)


def _shares(question: PoolQuestion) -> _Shares:
    """Of the samples; failures and samples without an answer do not vote."""
    had = [entry.observation for entry in question.samples]
    form_S = forms([seen.answer if isinstance(seen, Completion) else None for seen in had])
    right_S = [verdict == "right" for verdict in question.sample_verdicts]
    return _Shares.of(list(zip(form_S, right_S, strict=True)))


def _tokens(question: PoolQuestion, n: int) -> float:
    had = [entry.observation for entry in question.samples[:n]]
    return float(sum(seen.completion_tokens for seen in had if isinstance(seen, Completion)))
