"""*Believed*: sets the priors of a pool's questions: predicted, or counted on the other half.

Without a predictor the questions are split into two halves by a hash. Questions are judged with a
and b counted, by gold, on the half that they are not in; p0 is the verifier's first score. To
choose a setting for a half, only the other half is looked at: there it is tried with that half's
own a and b, so that nothing of the questions that are judged takes part in the choice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pipeline.core.arrays import IntArray
from pipeline.core.errors import ConfigError
from pipeline.replay.pools import CompletionPool
from pipeline.replay.sweep import HALVES, halves_in
from pipeline.theory.settling import settling_draws
from pipeline.theory.transitions import Transitions, count, labels_of_verdicts, total

SEED = 0
"""Of the split into halves, that of ``jobs.sweep``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Believed:
    """One benchmark of a pool with the priors that it is judged and tuned with."""

    judged: CompletionPool
    tuned: CompletionPool
    """With each question's own half's a and b: only to choose settings for the other half."""
    half_Q: IntArray
    p0_source: str
    a: tuple[float | None, ...]
    """As used for the questions of half 0 and half 1; one value where both have the same."""
    b: tuple[float | None, ...]
    words: str
    """Where p0, a and b come from."""

    def other_halves(self, seed: int) -> IntArray:
        """The half of every question in another split."""
        return halves_of(self.judged, seed)


def halves_of(pool: CompletionPool, seed: int = SEED) -> IntArray:
    """The half of every question in one of many splits.

    Raises:
        ConfigError: where a half is empty.
    """
    half_Q = halves_in(pool, seed)
    for half in range(HALVES):
        if not np.any(half_Q == half):
            raise ConfigError(
                f"each half of a benchmark must have questions, half {half} of "
                f"{', '.join(pool.benchmarks)} in {pool.address} has none of {len(half_Q)}: "
                f"use a larger pool"
            )
    return half_Q


def from_other_half(pool: CompletionPool, seed: int = SEED) -> Believed:
    """One benchmark, a and b counted on the other half, p0 the first score."""
    half_Q = halves_of(pool, seed)
    counted = [
        total(
            count(labels_of_verdicts(verdicts))
            for question, half in zip(pool.questions, half_Q, strict=True)
            if half == wanted
            for verdicts in question.verdicts_by_chain
        )
        for wanted in range(HALVES)
    ]
    return _believed(
        pool,
        half_Q,
        [_chances(counts) for counts in counted],
        "no predictor: a and b counted by gold on the other half of the questions, "
        "(k + 1/2) / (n + 1); p0 is the verifier's score of the first answer, not the chance that "
        "the question is answered",
    )


def settling_on_other_half(
    pool: CompletionPool, half_Q: IntArray
) -> tuple[Believed, tuple[float, ...]]:
    """One benchmark whose changes are taken to die out (`pipeline.theory.settling`, U): a and b of
    a fresh answer fitted on the other half, p0 the first score; and `kept` by the half that it is
    fitted on.

    Raises:
        ValueError: where a half has no transition that is graded.
    """
    fitted = []
    for wanted in range(HALVES):
        known = zip(pool.questions, half_Q.tolist(), strict=True)
        of_half = [question for question, half in known if half == wanted]
        chains = [labels_of_verdicts(v) for q in of_half for v in q.verdicts_by_chain]
        fitted.append(settling_draws(chains, "run", draws=0)[0][0].tolist())
    words = "a, b and kept of the settling chain fitted by gold on the other half"
    believed = _believed(pool, half_Q, [(a, b) for a, b, _ in fitted], words)
    return believed, tuple(kept for _, _, kept in fitted)


def _believed(
    pool: CompletionPool, half_Q: IntArray, own: list[tuple[float, float]], words: str
) -> Believed:
    """a and b of each half, judged with those of the other one."""
    other = own[::-1]
    return Believed(
        judged=_with(pool, half_Q, other),
        tuned=_with(pool, half_Q, own),
        half_Q=half_Q,
        p0_source="first_score",
        a=tuple(a for a, _ in other),
        b=tuple(b for _, b in other),
        words=words,
    )


def predicted(pool: CompletionPool, words: str) -> Believed:
    """One benchmark whose questions carry a predictor's priors."""
    return Believed(
        judged=pool,
        tuned=pool,
        half_Q=halves_of(pool),
        p0_source="predictor",
        a=_same([q.question.priors.a for q in pool.questions]),
        b=_same([q.question.priors.b for q in pool.questions]),
        words=words,
    )


def _chances(counts: Transitions) -> tuple[float, float]:
    """a and b: means under Jeffreys' prior, so that both exist where no transition was seen."""
    return (
        (counts.right_wrong + 0.5) / (counts.from_right + 1.0),
        (counts.wrong_right + 0.5) / (counts.from_wrong + 1.0),
    )


def _with(
    pool: CompletionPool, half_Q: IntArray, chances: list[tuple[float, float]]
) -> CompletionPool:
    questions = []
    for question, half in zip(pool.questions, half_Q.tolist(), strict=True):
        a, b = chances[half]
        priors = replace(question.question.priors, p0=None, p0_source=None, a=a, b=b)
        with_priors = replace(question.question, priors=priors)
        questions.append(replace(question, question=with_priors))
    return replace(pool, questions=tuple(questions))


def _same(values: list[float | None]) -> tuple[float | None, ...]:
    return (values[0],) if len(set(values)) == 1 else ()
