"""Process reward models (PRM): steps of a reply, context, checks and aggregation of step scores.

A process reward model reads the problem and the solution with a separator token after every step,
and answers with the probabilities (wrong, right) at each separator (Qwen2.5-Math-PRM,
arXiv:2501.07301), with the logits of two tokens (Math-Shepherd, arXiv:2312.08935), or with a single
logit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.core.errors import VerifierError
from pipeline.core.thinking import after_thinking

Aggregation = Literal["mean", "min", "product", "last"]
Split = Literal["blank_lines", "lines", "whole"]

_BETWEEN: dict[Split, str] = {"blank_lines": r"\n\s*\n", "lines": r"\n", "whole": r"(?!)"}
_ROWS_SUM_TOLERANCE = 1e-2  # two bfloat16 probabilities are off by up to 2^-8


@dataclass(frozen=True, slots=True)
class Fitted:
    """The steps that fit into a context."""

    steps: tuple[str, ...]
    truncated: bool
    """Whether leading text was dropped."""


def without(text: str, *marks: str) -> str:
    """`text` with every one of `marks` removed, until none is left, so that it can forge none."""
    while found := [mark for mark in marks if mark in text]:
        for mark in found:
            text = text.replace(mark, "")
    return text


def split_steps(
    reply: str,
    *,
    separator: str,
    text: Literal["after_thinking", "whole"] = "after_thinking",
    at: Split = "blank_lines",
) -> tuple[str, ...]:
    """The steps of a reply: what stands between its blank lines, stripped; empty ones are dropped.

    Args:
        reply: what the generator wrote, thinking included.
        separator: the verifier's step token, removed wherever the reply itself says it.
        text: which part of the reply is judged.
        at: what is between two steps; ``whole`` makes one step of all.

    Returns:
        The steps; none for a reply without text to judge, such as one cut inside its thinking.
    """
    judged = reply if text == "whole" else after_thinking(reply)
    pieces = re.split(_BETWEEN[at], without(judged, separator))
    return tuple(piece.strip() for piece in pieces if piece.strip())


def fit(steps: Sequence[str], length: Callable[[Sequence[str]], int], limit: int) -> Fitted | None:
    """The longest tail of `steps` whose prompt has at most `limit` tokens.

    Whole leading steps are dropped. Where even the last step alone is too long, its beginning is
    cut, because a reply in a single block should be judged by its end rather than not at all.

    Args:
        steps: at least one.
        length: tokens of the whole prompt with the given steps; grows with every step.
        limit: tokens that the context holds.

    Returns:
        None where not even an empty step fits: the question itself fills the context.
    """

    def fits(candidate: Sequence[str]) -> bool:
        return length(candidate) <= limit

    if fits(steps):
        return Fitted(tuple(steps), truncated=False)
    dropped = _first(len(steps), lambda count: fits(steps[count:]))
    if dropped < len(steps):
        return Fitted(tuple(steps[dropped:]), truncated=True)
    last = steps[-1]
    cut = _first(len(last), lambda count: fits((last[count:],)))
    return Fitted((last[cut:],), truncated=True) if cut < len(last) else None


def _first(size: int, holds: Callable[[int], bool]) -> int:
    """The least count in [1, size) for which `holds`, given that it goes on to hold; else size."""
    low, high = 1, size
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def step_scores(rows: Sequence[Sequence[float]], n_steps: int) -> tuple[float, ...]:
    """P(step is right) of each step, from the verifier's rows.

    Args:
        rows: shape (n_steps, 2): P(wrong) and P(right) at each separator.
        n_steps: how many separators were sent.

    Raises:
        VerifierError: for anything that cannot be such rows; its text begins with a kind
            (``empty``, ``count``, ``shape``, ``nan``, ``range``, ``sum``).
    """
    _check_count(rows, n_steps)
    scores = []
    for step, row in enumerate(rows):
        if len(row) != 2:
            raise VerifierError(f"shape: step {step} must have 2 probabilities, got {len(row)}")
        if not all(math.isfinite(value) for value in row):
            raise VerifierError(f"nan: step {step} must have finite scores, got {list(row)}")
        if not all(0 <= value <= 1 for value in row):
            raise VerifierError(f"range: scores of step {step} must be in [0, 1], got {list(row)}")
        if abs(sum(row) - 1) > _ROWS_SUM_TOLERANCE:
            raise VerifierError(f"sum: scores of step {step} must sum to 1, got {list(row)}")
        scores.append(float(row[1]))
    return tuple(scores)


def column_scores(
    rows: Sequence[Sequence[float]], n_steps: int, *, columns: int, column: int, temperature: float
) -> tuple[float, ...]:
    """The sigmoid of one column of the logits of each step.

    Args:
        rows: shape (n_steps, columns): logits where each step is read.
        n_steps: how many steps were sent.
        columns: how many columns the head must have.
        column: which of them is the score.
        temperature: of the calibration, > 0.

    Raises:
        VerifierError: see `step_scores`.
    """
    return tuple(
        _sigmoid(row[column] / temperature) for row in _checked_logits(rows, n_steps, columns)
    )


def pair_scores(
    rows: Sequence[Sequence[float]], n_steps: int, *, temperature: float
) -> tuple[float, ...]:
    """The softmax over two tokens' logits (wrong, right) of each step, of which "right" counts.

    Args and errors: see `column_scores`; rows have shape (n_steps, 2).
    """
    return tuple(
        _sigmoid((right - wrong) / temperature)
        for wrong, right in _checked_logits(rows, n_steps, 2)
    )


def _checked_logits(
    rows: Sequence[Sequence[float]], n_steps: int, columns: int
) -> Sequence[Sequence[float]]:
    _check_count(rows, n_steps)
    for step, row in enumerate(rows):
        if len(row) != columns:
            raise VerifierError(f"shape: step {step} must have {columns} logits, got {len(row)}")
        if not all(math.isfinite(value) for value in row):
            raise VerifierError(f"nan: step {step} must have finite logits, got {list(row)}")
    return rows


def _check_count(rows: Sequence[Sequence[float]], n_steps: int) -> None:
    if not rows and n_steps:
        raise VerifierError(f"empty: the verifier must score {n_steps} steps, got none")
    if len(rows) != n_steps:
        raise VerifierError(f"count: the verifier must score {n_steps} steps, got {len(rows)}")


def _sigmoid(logit: float) -> float:
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    return math.exp(logit) / (1 + math.exp(logit))


def aggregate(scores: Sequence[float], how: Aggregation) -> float:
    """One score of an answer, in [0, 1], from the scores of its steps.

    A reply without any text to judge has no steps and gets 0.0, as in the code behind the paper's
    tables: its score is 0 by this rule and its `step_scores` are empty, which no answer of a
    verifier ever is.
    """
    if not scores:
        return 0.0
    match how:
        case "mean":
            return min(1.0, math.fsum(scores) / len(scores))
        case "min":
            return min(scores)
        case "product":
            return math.prod(scores)
        case "last":
            return scores[-1]
