"""Fronts of stopping rules: accuracy at equal cost over recorded chains and samples.

    python -m benchmarks.stopping [--pool data/pools/arithmetic --pool data/pools/sums]
    python -m benchmarks.stopping --chains chains.npz --samples gpqa.npz --samples otis8.npz

Chains (pools, or arrays ``GROUP_answer``, ``_right``, ``_tokens``, ``_logprob``, ``_stop`` of an
.npz; the last is the model's own stop flag): each family of settings is tuned on one half of the
questions and judged on the other at equal completion tokens, over random halves; printed is the
mean accuracy over budgets of 1.25 rounds up to the depth, minus that of chain_asc by vote, with the
95 % interval over questions. Weights of agree are fitted on the other half.

Samples (arrays ``answer`` and ``right`` of an .npz, one log or many): every family has one knob and
no tuning; the recorded samples are put in random orders. Printed is the mean accuracy over budgets
of 1.5 samples up to all, minus that of ASC at 0.95 with n cut, then fixed prices. Answers are
numbers from 0, -1 where there is none. No gold answer takes part in a decision. Prints the seconds
of each part.
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
from pipeline.statistics.agreement import AgreementWeights, count_votes, recent_leader
from pipeline.statistics.fronts import Family, fronts, interval_of
from pipeline.strategies.chain_agreement import Agree, ChainASC, Settled
from pipeline.strategies.expected_agreement import ChainExpectedAgreement
from pipeline.strategies.markovscale import MarkovScaleStar
from pipeline.strategies.sequential import MRThinking
from pipeline.theory.expected_agreement import first_stop

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


def sample_orders(
    answer_LQS: IntArray, right_LQS: IntArray, orders: int, seed: int
) -> tuple[IntArray, FloatArray]:
    """(R, S) forms and rightness of every log and question in random orders, R = L Q orders, and a
    question's rows side by side over the orders."""
    rng = np.random.default_rng(seed)
    flat_a = np.repeat(answer_LQS.reshape(-1, answer_LQS.shape[-1]), orders, axis=0)
    flat_r = np.repeat(right_LQS.reshape(-1, right_LQS.shape[-1]), orders, axis=0)
    at = rng.random(flat_a.shape).argsort(axis=1)
    form = relabelled(np.take_along_axis(flat_a, at, axis=1).astype(np.int64))
    return form, np.take_along_axis(flat_r, at, axis=1).astype(np.float64)


def sample_fronts(answer: IntArray, right: IntArray, n: int, orders: int, seed: int) -> None:
    """Print the fronts of one data set of samples."""
    started = time.perf_counter()
    logs, questions = answer.shape[:2]
    form, is_right = sample_orders(answer[:, :, :n], right[:, :, :n], orders, seed)
    leader = recent_leader(form, 1.0)
    first = np.zeros((len(form), n), np.int64)
    for t in range(n):
        first[:, t] = (form == leader[:, t : t + 1]).argmax(axis=1)
    right_RS = np.where(leader >= 0, np.take_along_axis(is_right, first, axis=1), 0.0)
    lasts = np.concatenate(
        [count_votes(form[at : at + 8192]).lasts_QT for at in range(0, len(form), 8192)]
    )
    rows = np.arange(len(form))

    def at_stop(drawn: IntArray) -> tuple[FloatArray, FloatArray]:
        """(L, Q) accuracy and samples, mean over the orders."""
        shape = (logs, questions, orders)
        return (
            right_RS[rows, drawn - 1].reshape(shape).mean(axis=2),
            drawn.astype(np.float64).reshape(shape).mean(axis=2),
        )

    def asc(size: int, threshold: float) -> IntArray:
        hit = lasts[:, :size] >= threshold
        return np.where(hit.any(axis=1), hit.argmax(axis=1) + 1, size)

    thresholds = [0.5, 0.7, 0.75, 0.8, 0.85, 0.875, 0.9, 0.93, 0.95, 0.97, 0.99, 1.1]
    families: dict[str, list[IntArray]] = {
        "ASC 0.95 (n)": [asc(size, 0.95) for size in range(1, n + 1)],
        "SC (n)": [np.full(len(form), size) for size in range(1, n + 1)],
        "ASC (threshold)": [asc(n, t) for t in thresholds],
        "expected agreement (price)": [
            first_stop(form, n, price, 1.0) for price in (*PRICES, 0.3, 0.999)
        ],
    }
    judged = {name: [at_stop(drawn) for drawn in stops] for name, stops in families.items()}
    budget_B = np.linspace(1.5, n, BUDGETS)
    rng = np.random.default_rng(seed)
    draws = np.vstack(
        [np.ones(questions), rng.multinomial(questions, np.ones(questions) / questions, size=200)]
    )
    mean = {name: _along(points, draws, budget_B) for name, points in judged.items()}
    control = mean["ASC 0.95 (n)"]
    print(f"  ASC 0.95 (n): {100 * control[0]:.2f}")
    for name, mean_D in mean.items():
        if mean_D is not control:
            print(f"  {name:<27} {100 * mean_D[0]:.2f} {_points(interval_of(mean_D - control), 2)}")
    asc_right, asc_drawn = at_stop(asc(n, 0.95))
    print(f"  fixed: ASC 0.95 {asc_drawn.mean():.2f} samples, {100 * asc_right.mean():.2f} %")
    for price in (0.01, 0.005, 0.002, 0.001):
        own_right, own_drawn = at_stop(first_stop(form, n, price, 1.0))
        gap_D = (draws @ (own_right - asc_right).mean(axis=0)) / draws.sum(axis=1)
        print(
            f"  price {price:g}: {own_drawn.mean():.2f} samples, {100 * own_right.mean():.2f} %, "
            f"minus ASC {_points(interval_of(gap_D), 2)}"
        )
    print(f"  {time.perf_counter() - started:.1f} s for {len(form):,} rows of {n} samples")


def _along(
    points: Sequence[tuple[FloatArray, FloatArray]], draws: FloatArray, budget_B: FloatArray
) -> FloatArray:
    """(D,) mean over logs and budgets of a family with one knob."""
    right_SLQ = np.array([right for right, _ in points])
    drawn_SLQ = np.array([drawn for _, drawn in points])
    total_D = draws.sum(axis=1)
    right_DSL = np.einsum("dq,slq->dsl", draws, right_SLQ) / total_D[:, None, None]
    drawn_DSL = np.einsum("dq,slq->dsl", draws, drawn_SLQ) / total_D[:, None, None]
    mean = np.zeros(len(draws))
    for d in range(len(draws)):
        for log in range(right_SLQ.shape[1]):
            order = drawn_DSL[d, :, log].argsort(kind="stable")
            mean[d] += np.interp(
                budget_B, drawn_DSL[d, order, log], right_DSL[d, order, log]
            ).mean()
    return np.asarray(mean / right_SLQ.shape[1])


def _points(interval: Any, digits: int = 1) -> str:
    value, low, high = (100 * x for x in (interval.value, interval.low, interval.high))
    return f"{value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def main(argv: Sequence[str] | None = None) -> None:
    """Read, replay, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pool", action="append", default=[], help="of chains (repeatable)")
    parser.add_argument("--chains", action="append", default=[], type=Path, help=".npz of chains")
    parser.add_argument("--samples", action="append", default=[], type=Path, help=".npz of samples")
    parser.add_argument("--splits", type=int, default=5, help="random halves (5)")
    parser.add_argument("--orders", type=int, default=12, help="random orders of samples (12)")
    parser.add_argument("--n", type=int, default=16, help="samples a question at most (16)")
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
    for path in arguments.samples:
        data = np.load(path)
        answer, right = (np.asarray(data[x]) for x in ("answer", "right"))
        if answer.ndim == 2:
            answer, right = answer[None], right[None]
        n = min(arguments.n, answer.shape[2])
        print(f"{path.name}: {answer.shape[0]} x {answer.shape[1]} x {n} samples", flush=True)
        sample_fronts(answer, right, n, arguments.orders, arguments.seed)


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
