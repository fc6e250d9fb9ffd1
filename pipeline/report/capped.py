"""*NotRun*: questions without an outcome in a capped run; they are neither wrong nor failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.planning.run_caps import Capped
from pipeline.theory.transitions import QuestionKey

_EXAMPLES = 20
_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRun:
    """Questions of a benchmark that a strategy was not run on to its stop."""

    strategy: str
    benchmark: str
    questions: int
    of: int
    """Questions that the benchmark has."""
    examples: tuple[str, ...]
    """Ids of the first of them."""

    @property
    def words(self) -> str:
        """Which, and how many."""
        return f"{self.questions:,} of {self.of:,} questions of {self.benchmark} ({self.strategy})"

    def as_dict(self) -> dict[str, Any]:
        """For summary.json."""
        return {**asdict(self), "examples": list(self.examples)}


def not_run(
    labels: Iterable[str],
    questions: Iterable[QuestionKey],
    done: Mapping[tuple[str, str], Collection[str]],
) -> tuple[NotRun, ...]:
    """What has no final outcome, by strategy and benchmark; none where all was run.

    Args:
        labels: of the strategies.
        questions: that were asked.
        done: ids of the questions with a final outcome, by (strategy, benchmark).
    """
    asked: dict[str, list[str]] = {}
    for benchmark, question in questions:
        asked.setdefault(benchmark, []).append(question)
    found = []
    for label in labels:
        for benchmark, ids in asked.items():
            ended = frozenset(done.get((label, benchmark), ()))
            left = [question for question in ids if question not in ended]
            if left:
                found.append(
                    NotRun(
                        strategy=label,
                        benchmark=benchmark,
                        questions=len(left),
                        of=len(ids),
                        examples=tuple(left[:_EXAMPLES]),
                    )
                )
    return tuple(found)


def first_words(capped: Capped, left: Collection[NotRun]) -> str:
    """What a reader of a capped run must know first."""
    if not left:
        return f"{capped.words}; every chain has an outcome, one to be retried its failure."
    named = [each.words for each in left][:_NAMED]
    more = f", and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return (
        f"{capped.words}; not run: {', '.join(named)}{more}; they count neither as wrong nor as "
        "failed. All figures are of the finished questions alone, which are a biased sample: short "
        "chains, and those that promised most for their tokens, end first."
    )
