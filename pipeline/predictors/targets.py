"""Targets of the predictor: counts by question from a pool, and the held-out split."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.core.errors import ConfigError
from pipeline.replay.pools import CompletionPool, PoolQuestion
from pipeline.theory.transitions import count, labels_of_verdicts

PAPER_ANSWERS = 60
"""Independent answers a training question (Section 5.1)."""


class Head(StrEnum):
    """What is predicted of a question."""

    P0 = "p0"
    """P(the first answer is right): right answers of the independent samples."""
    A = "a"
    """P(right -> wrong): transitions that leave a right answer."""
    B = "b"
    """P(wrong -> right): transitions that leave a wrong answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Successes among trials."""

    successes: int
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A question and its counts; a head with no trials says nothing on this question."""

    benchmark: str
    question_id: str
    text: str
    counts: dict[Head, Counts]

    @property
    def key(self) -> tuple[str, str]:
        """(benchmark, question_id)."""
        return (self.benchmark, self.question_id)


class Part(StrEnum):
    """What a question is used for."""

    TRAINING = "training"
    VALIDATION = "validation"
    """Chooses the tuned setting; never trained on."""
    HELD_OUT = "held_out"
    """Judges the heads; never trained or tuned on."""


def targets_of(pool: CompletionPool, *, answers: int = PAPER_ANSWERS) -> list[Target]:
    """Counts of every question of a graded pool.

    Args:
        pool: with chains and samples.
        answers: samples a question that count for p0; the first ones.

    Raises:
        ConfigError: where the pool has not so many samples, or chains too short for a transition.
    """
    if pool.samples < answers:
        raise ConfigError(
            f"a pool must have {answers} samples a question to train p0 on, {pool.address} has "
            f"{pool.samples}: pass --answers, or deepen it"
        )
    if pool.rounds < 2:
        raise ConfigError(
            f"a pool must have chains of at least 2 rounds to train a and b on, {pool.address} "
            f"has {pool.rounds}"
        )
    return [_target(question, answers) for question in pool.questions]


def part_of(key: tuple[str, str], *, seed: int = 0) -> Part:
    """The part of a question, by a hash of it: 7 of 10 train, 1 validates, 2 judge."""
    text = f"part\x1f{seed}\x1f{key[0]}\x1f{key[1]}"
    tenth = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % 10
    if tenth < 7:
        return Part.TRAINING
    return Part.VALIDATION if tenth == 7 else Part.HELD_OUT


def parts_of(asked: Sequence[tuple[tuple[str, str], str]], *, seed: int = 0) -> list[Part]:
    """The part of each question; those of the same text are in that of the first of them.

    Args:
        asked: (benchmark, question_id) and text of each.
        seed: as of `part_of`.
    """
    first: dict[str, tuple[str, str]] = {}
    return [part_of(first.setdefault(text, key), seed=seed) for key, text in asked]


def in_part(targets: Sequence[Target], part: Part, *, seed: int = 0) -> list[Target]:
    """The questions of one part, in their order."""
    parts = parts_of([(target.key, target.text) for target in targets], seed=seed)
    return [target for target, its in zip(targets, parts, strict=True) if its is part]


def constant(targets: Sequence[Target], head: Head) -> float | None:
    """The prediction, the same for every question, of least loss: the share of all trials; None
    where no question says anything on the head."""
    counts = [target.counts[head] for target in targets if target.counts[head].trials]
    if not counts:
        return None
    return sum(c.successes for c in counts) / sum(c.trials for c in counts)


def _target(question: PoolQuestion, answers: int) -> Target:
    verdicts = [v for v in question.sample_verdicts[:answers] if v in ("right", "wrong")]
    chain = count(labels_of_verdicts(question.round_verdicts))
    of_pool = question.question
    return Target(
        benchmark=of_pool.benchmark,
        question_id=of_pool.question_id,
        text=of_pool.text,
        counts={
            Head.P0: Counts(successes=verdicts.count("right"), trials=len(verdicts)),
            Head.A: Counts(successes=chain.right_wrong, trials=chain.from_right),
            Head.B: Counts(successes=chain.wrong_right, trials=chain.from_wrong),
        },
    )
