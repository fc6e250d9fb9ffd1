"""Fronts of stopping rules: accuracy at equal cost over recorded chains.

    python -m benchmarks.stopping [--pool data/pools/arithmetic --pool data/pools/sums]
    python -m benchmarks.stopping --chains chains.npz

Chains (pools, or arrays ``GROUP_answer``, ``_right``, ``_tokens``, ``_logprob``, ``_stop`` of an
.npz; the last is the model's own stop flag): each family of settings is tuned on one half of the
questions and judged on the other at equal completion tokens, over random halves; printed is the
mean accuracy over budgets of 1.25 rounds up to the depth, minus that of chain_asc by vote, with the
95 % interval over questions. Weights of agree are fitted on the other half.
No gold answer of a question that is judged takes part in a decision. Prints the seconds of each
part.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.answers.answer_rules import RULES, AnswerRule
from pipeline.core.arrays import FloatArray, IntArray
from pipeline.core.protocol import Completion, Priors, Question
from pipeline.paper.orders import relabelled
from pipeline.predictors.agreement_training import fitted_on_chains
from pipeline.replay.chain_arrays import (
    NO_ANSWER,
    NOT_APPLICABLE,
    RIGHT,
    WRONG,
    ChainArrays,
    chain_arrays,
    positions_by_depth,
)
from pipeline.replay.costs import KINDS
from pipeline.replay.fast import FastReplay
from pipeline.replay.judging import judged_by_arrays, rights
from pipeline.replay.pools import CompletionPool, read_pool
from pipeline.statistics.agreement import AgreementWeights
from pipeline.statistics.fronts import Family, fronts, interval_of
from pipeline.strategies.chain_agreement import Agree, ChainASC, Settled
from pipeline.strategies.expected_agreement import ChainExpectedAgreement
from pipeline.strategies.markovscale import MarkovScaleStar
from pipeline.strategies.sequential import MRThinking

BUDGETS = 24
PRICES = (0.0, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.08, 0.2)
THRESHOLDS = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
TAUS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
CHAIN_ASC = "chain_asc, vote"


def chains_of(data: Any, group: str) -> ChainArrays:
    """The chains of one group of an .npz; the score is exp(mean log-probability of a token)."""
    answer_QT, right_QT, tokens_QT = (data[f"{group}_{n}"] for n in ("answer", "right", "tokens"))
    score_QT = np.exp(np.minimum(data[f"{group}_logprob"], 0.0)).astype(np.float64)
    questions, rounds = answer_QT.shape
    position_QD = {
        rule: np.full(
            (questions, rounds + 1), NOT_APPLICABLE if rule.needs_logprobs else NO_ANSWER, np.int16
        )
        for rule in RULES
    }
    form_QT = relabelled(answer_QT.astype(np.int64))
    tokens_QD = np.pad(np.cumsum(tokens_QT, axis=1, dtype=np.int64), ((0, 0), (1, 0)))
    for q in range(questions):
        drawn = [
            Completion(text="", answer=None if a < 0 else str(a), score=float(s))
            for a, s in zip(form_QT[q].tolist(), score_QT[q].tolist(), strict=True)
        ]
        for rule, positions in positions_by_depth(drawn).items():
            position_QD[rule][q, 1:] = positions
    return ChainArrays(
        question_Q=tuple(
            Question(benchmark=group, question_id=str(q), text=str(q)) for q in range(questions)
        ),
        length_Q=np.full(questions, rounds),
        failed_Q=np.zeros(questions, np.bool_),
        gold_Q=np.ones(questions, np.bool_),
        form_QT=form_QT,
        score_QT=score_QT,
        tokens_QD=tokens_QD,
        spent_QD={kind: (tokens_QD * (kind == "completion")).astype(float) for kind in KINDS},
        logprobs_QT=np.zeros(answer_QT.shape, np.bool_),
        says_stop_QT=data[f"{group}_stop"].astype(np.int8),
        verdict_QT=np.where(right_QT > 0, RIGHT, WRONG).astype(np.int8),
        position_QD=position_QD,
    )


def with_beliefs(chains: ChainArrays, half_Q: IntArray) -> ChainArrays:
    """Chains whose questions believe in a and b counted on the other half."""
    right_QT = chains.verdict_QT == RIGHT
    priors = {}
    for half in (0, 1):
        other = right_QT[half_Q != half]
        before, after = other[:, :-1], other[:, 1:]
        priors[half] = Priors(
            a=(np.sum(before & ~after) + 0.5) / (before.sum() + 1.0),
            b=(np.sum(~before & after) + 0.5) / ((~before).sum() + 1.0),
        )
    return believing(chains, half_Q, priors)


def believing(chains: ChainArrays, half_Q: IntArray, priors: dict[int, Priors]) -> ChainArrays:
    """Chains whose questions have the priors of their half."""
    asked = tuple(
        Question(benchmark=q.benchmark, question_id=q.question_id, text="", priors=priors[half])
        for q, half in zip(chains.question_Q, half_Q.tolist(), strict=True)
    )
    return replace(chains, question_Q=asked)


def settings_of(
    depth: int, weights: dict[str, AgreementWeights], *, flags: bool
) -> dict[str, tuple[Any, Any]]:
    """Families of settings and the rule that they are read by; `flags` where the model's own stop
    flag is recorded."""
    ns = sorted({n for k in range(6) for n in (2**k, 3 * 2**k) if 1 < n <= depth} | {depth})
    last, vote, argmax = AnswerRule.LAST, AnswerRule.VOTE, AnswerRule.PRM_ARGMAX
    star = [
        MarkovScaleStar(n=n, tau=t, gamma=g, gate=gate)
        for n in ns
        for t in TAUS
        for g in (1.0, 10.0)
        for gate in (True, False)
    ]
    rounds = [MRThinking(n=n) for n in range(1, depth + 1)]
    repeats = [k for k in (2, 3, 4, 5, 6) if k <= depth]
    expected = [(n, p) for n in ns for p in PRICES]
    found: dict[str, tuple[Any, Any]] = {
        CHAIN_ASC: ([ChainASC(n=n, threshold=t) for n in ns for t in THRESHOLDS], vote),
        "MR-Thinking, last": (rounds, last),
        "MR-Thinking, vote": (rounds, vote),
        "MarkovScale*, argmax": (star, argmax),
        "MarkovScale*, last": (star, last),
        "last k equal, last": (
            [Settled(n=n, repeat=k, discount=0.0) for n in ns for k in repeats],
            vote,
        ),
        "last k equal, 0.8": ([Settled(n=n, repeat=k) for n in ns for k in repeats], vote),
        "expected agreement, vote": (
            [ChainExpectedAgreement(n=n, price=p) for n, p in expected],
            vote,
        ),
        "expected agreement, 0.8": (
            [ChainExpectedAgreement(n=n, price=p, discount=0.8) for n, p in expected],
            vote,
        ),
        "score >= s, last": (
            [
                Settled(n=n, repeat=None, score_at_least=s, discount=0.0)
                for n in ns
                for s in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
            ],
            last,
        ),
    }
    if flags:
        said = [Settled(n=n, repeat=None, stop_flag=True, discount=0.0) for n in ns]
        found["stop flag, last"] = (said, last)
    for name, own in weights.items():
        agree = [
            Agree(n=n, tau=t, vote_threshold=v, weights=own)
            for n in ns
            for t in TAUS
            for v in (0.95, 1.0)
        ]
        found[name] = (agree, vote)
    return found


def chain_fronts(chains: ChainArrays, depth: int, splits: int, seed: int) -> None:
    """Print the fronts of one group of chains."""
    one = float(chains.tokens_QD[:, 1].mean())
    budget_B = np.geomspace(1.25, depth, BUDGETS) * one
    total: dict[str, FloatArray] = {}
    rng = np.random.default_rng(seed)
    for split in range(splits):
        half_Q = rng.permutation(len(chains.form_QT)) % 2
        replay = FastReplay(with_beliefs(chains, half_Q))
        by_half = [
            {
                "agree, no score": fitted_on_chains(chains, half_Q == h, scores=False),
                "agree": fitted_on_chains(chains, half_Q == h),
            }
            for h in (0, 1)
        ]
        flags = bool((chains.says_stop_QT >= 0).all())
        own, other = (settings_of(depth, weights, flags=flags) for weights in by_half)
        points = {}
        for name, (settings, rule) in own.items():
            judged = [judged_by_arrays(replay.chains, replay.decide(s)) for s in settings]
            right = np.array([rights(j, rule) for j in judged])
            tokens = np.array([j.tokens_Q for j in judged], np.float64)
            seen_right, seen_tokens = right, tokens
            if name.startswith("agree"):
                theirs = [judged_by_arrays(replay.chains, replay.decide(s)) for s in other[name][0]]
                first = (half_Q == 0)[None]
                right_2 = np.array([rights(j, rule) for j in theirs])
                tokens_2 = np.array([j.tokens_Q for j in theirs], np.float64)
                right, seen_right = np.where(first, right_2, right), np.where(first, right, right_2)
                tokens, seen_tokens = (
                    np.where(first, tokens_2, tokens),
                    np.where(first, tokens, tokens_2),
                )
            points[name] = (right, tokens, seen_right, seen_tokens)
        base = ((chains.verdict_QT[:, 0] == RIGHT).astype(float), chains.tokens_QD[:, 1])
        families = [
            Family(
                name=name,
                settings=tuple(map(str, range(len(values[0]) + 1))),
                right_SQ=np.vstack([base[0], values[0]]),
                tokens_SQ=np.vstack([base[1], values[1]]),
                seen_right_SQ=np.vstack([base[0], values[2]]),
                seen_tokens_SQ=np.vstack([base[1], values[3]]),
            )
            for name, values in points.items()
        ]
        for front in fronts(families, half_Q, budget_B, draws=100, seed=split):
            mean_D = front.accuracy_DB.mean(axis=1) / splits
            total[front.name] = total.get(front.name, 0.0) + mean_D
    control = total[CHAIN_ASC]
    print(f"  {CHAIN_ASC}: {100 * control[0]:.1f}")
    for name, mean_D in total.items():
        if name != CHAIN_ASC:
            print(f"  {name:<37} {_points(interval_of(mean_D - control))}")


def _points(interval: Any, digits: int = 1) -> str:
    value, low, high = (100 * x for x in (interval.value, interval.low, interval.high))
    return f"{value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def main(argv: Sequence[str] | None = None) -> None:
    """Read, replay, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pool", action="append", default=[], help="of chains (repeatable)")
    parser.add_argument("--chains", action="append", default=[], type=Path, help=".npz of chains")
    parser.add_argument("--splits", type=int, default=5, help="random halves (5)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    groups: list[tuple[str, Callable[[], ChainArrays], int]] = []
    for path in arguments.chains:
        data = np.load(path)
        names = sorted({name.removesuffix("_answer") for name in data if name.endswith("_answer")})
        groups += [(f"{path.name} {n}", partial(chains_of, data, n), 8) for n in names]
    for name in arguments.pool:
        groups.append((name, partial(_pool_chains, read_pool(name)), 16))
    for name, make, depth in groups:
        chains = make()
        started = time.perf_counter()
        print(f"{name}: {len(chains.form_QT):,} chains of {chains.n_rounds} rounds", flush=True)
        chain_fronts(chains, depth, arguments.splits, arguments.seed)
        print(f"  {time.perf_counter() - started:.1f} s", flush=True)


def _pool_chains(pool: CompletionPool) -> ChainArrays:
    """The first 16 rounds of a pool."""
    return cut(chain_arrays(pool), 16)


def cut(chains: ChainArrays, rounds: int) -> ChainArrays:
    """The first rounds of chains."""
    return replace(
        chains,
        length_Q=np.minimum(chains.length_Q, rounds),
        failed_Q=chains.failed_Q & (chains.length_Q < rounds),
        form_QT=chains.form_QT[:, :rounds],
        score_QT=chains.score_QT[:, :rounds],
        tokens_QD=chains.tokens_QD[:, : rounds + 1],
        spent_QD={kind: spent[:, : rounds + 1] for kind, spent in chains.spent_QD.items()},
        logprobs_QT=chains.logprobs_QT[:, :rounds],
        says_stop_QT=chains.says_stop_QT[:, :rounds],
        verdict_QT=chains.verdict_QT[:, :rounds],
        position_QD={rule: at[:, : rounds + 1] for rule, at in chains.position_QD.items()},
    )


if __name__ == "__main__":
    main()
