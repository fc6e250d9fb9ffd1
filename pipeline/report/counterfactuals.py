"""What the completions of a run would have given under other decisions: oracle, random, bounds.

They know which answers are right, so they are folds over graded completions and no strategies.
pass@k is in `pipeline.statistics`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb, fsum, sqrt

import numpy as np
from numpy.typing import NDArray

from pipeline.answers.answer_rules import Chosen, Rule, apply
from pipeline.answers.voting import clusters
from pipeline.core.protocol import Observation, Stop, StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A Monte-Carlo mean and its error."""

    mean: float
    standard_error: float


def prefix_answers(rule: Rule, completions: Sequence[Observation]) -> tuple[Chosen | None, ...]:
    """The answer after each number of completions, entry j after j + 1.

    Over an MR-Thinking chain, ``prm_argmax`` is the control that takes selection apart from
    stopping, and ``vote`` is the majority over the rounds. Over samples, the N-curve of prefixes:
    its points share completions, see `best_of_n_expected` for independent ones.
    """
    return tuple(
        apply(rule, completions, Stop(reason=StopReason.BUDGET, rounds=tuple(range(drawn))))
        for drawn in range(1, len(completions) + 1)
    )


def oracle_stop(right: Sequence[bool]) -> int:
    """Completions drawn by a chain that stops at its first right answer, all where none is right.

    With the last answer returned, no stopping rule is more accurate at these completions.
    """
    return next((drawn for drawn, is_right in enumerate(right, start=1) if is_right), len(right))


def random_stopping(values_QT: NDArray[np.float64], drawn: Sequence[int]) -> tuple[float, float]:
    """What a run's stops are worth, and what they are when dealt out at random to its questions.

    Dealt stops keep their mean and their distribution and lose all that the rule knew about single
    questions; what the run has above them is the rule's.

    Args:
        values_QT: (Q, T), what stopping question q after t + 1 completions gives: 1 or 0 for right
            or wrong under some answer rule, or the tokens spent.
        drawn: (Q,), completions that the run drew for each question, in [1, T].

    Returns:
        The run's own mean, and the exact mean over all ways to deal its stops out.

    Raises:
        ValueError: if `drawn` is not one number in [1, T] a question.
    """
    n_questions, n_rounds = values_QT.shape
    if len(drawn) != n_questions or not all(1 <= stop <= n_rounds for stop in drawn):
        raise ValueError(
            f"drawn must be {n_questions} numbers in [1, {n_rounds}], one a question, "
            f"got {list(drawn)}"
        )
    stops = np.asarray(drawn, dtype=np.intp) - 1
    own = values_QT[np.arange(n_questions), stops]
    return float(own.mean()), float(values_QT[:, stops].mean())


def dealt_stops(drawn: Sequence[int], seed: int) -> tuple[int, ...]:
    """One way to deal a run's stops out to its questions: a permutation of `drawn`."""
    return tuple(int(stop) for stop in np.random.default_rng(seed).permutation(drawn))


def best_of_n_expected(
    values: Sequence[float], answered: Sequence[bool], right: Sequence[bool], n: int
) -> float:
    """Exact accuracy of best-of-n over all subsets of n of the K samples.

    The sample of rank j (0 the best) wins where it is drawn and no better one is:
    C(K - 1 - j, n - 1) / C(K, n). Samples without an answer rank last, ties go to the first.

    Args:
        values: (K,), what samples are compared by.
        answered: (K,), whether each has an answer.
        right: (K,), whether that is right.
        n: in [1, K].
    """
    k = _checked_n(n, values, answered, right)
    order = sorted(range(k), key=lambda sample: (not answered[sample], -values[sample], sample))
    wins = [comb(k - 1 - rank, n - 1) for rank in range(k)]
    return sum(wins[rank] for rank, sample in enumerate(order) if right[sample]) / comb(k, n)


def majority_expected(answers: Sequence[str | None], right: Sequence[bool], n: int) -> float:
    """Exact accuracy of a majority vote over all ordered draws of n of the K samples.

    Samples without an answer do not vote, and a draw without votes is wrong. Ties go to the answer
    seen first, which in a random order is each of the tied ones alike.

    Args:
        answers: (K,), None where there is none.
        right: (K,), alike within a cluster of equal answers.
        n: in [1, K].
    """
    k = _checked_n(n, answers, right)
    votes = clusters(answers)
    sizes = [len(cluster.members) for cluster in votes]
    silent = k - sum(sizes)
    won = 0.0
    for index, cluster in enumerate(votes):
        if right[cluster.members[0]]:
            others = sizes[:index] + sizes[index + 1 :]
            won += fsum(
                comb(sizes[index], count) * _ways(others, silent, count, n - count)
                for count in range(1, min(sizes[index], n) + 1)
            )
    return won / comb(k, n)


def _ways(sizes: Sequence[int], silent: int, most: int, left: int) -> float:
    """Ways to draw `left` samples of which no cluster gets more than `most`, each way with t
    clusters at exactly `most` counting 1 / (1 + t)."""
    ways = {(drawn, 0): comb(silent, drawn) for drawn in range(min(silent, left) + 1)}
    for size in sizes:
        following: dict[tuple[int, int], int] = {}
        for (drawn, tied), count in ways.items():
            for more in range(min(size, most, left - drawn) + 1):
                key = (drawn + more, tied + (more == most))
                following[key] = following.get(key, 0) + count * comb(size, more)
        ways = following
    return fsum(count / (1 + tied) for (drawn, tied), count in ways.items() if drawn == left)


def subset_mean(
    value: Callable[[tuple[int, ...]], float], k: int, n: int, *, draws: int, seed: int
) -> Estimate:
    """Monte-Carlo mean of a value over random ordered draws of n of k samples.

    For what has no closed form, such as the weighted vote. `value` is given the indices drawn.
    """
    if not 1 <= n <= k:
        raise ValueError(f"n must be in [1, {k}], the samples that there are, got {n!r}")
    if draws < 2:
        raise ValueError(f"draws must be >= 2, got {draws!r}")
    generator = np.random.default_rng(seed)
    seen = [value(tuple(generator.permutation(k)[:n].tolist())) for _ in range(draws)]
    mean = fsum(seen) / draws
    variance = fsum((one - mean) ** 2 for one in seen) / (draws - 1)
    return Estimate(mean=mean, standard_error=sqrt(variance / draws))


def _checked_n(n: int, first: Sequence[object], *others: Sequence[object]) -> int:
    k = len(first)
    if any(len(other) != k for other in others):
        lengths = [k, *(len(other) for other in others)]
        raise ValueError(f"arguments must be of one length, one entry a sample, got {lengths}")
    if not 1 <= n <= k:
        raise ValueError(f"n must be in [1, {k}], the samples that there are, got {n!r}")
    return k
