"""Priors for the questions of a pool that is swept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from pipeline.benchmarks import Item
from pipeline.config.science import PriorsConfig
from pipeline.predictors.heads import Predictor
from pipeline.predictors.priors import with_predictions
from pipeline.records.questions import question_of, questions_table
from pipeline.records.run_dir import rows_of
from pipeline.replay.pools import CompletionPool


def question_rows(pool: CompletionPool, priors: PriorsConfig) -> list[dict[str, Any]]:
    """The pool's questions as a run with these priors would write them, without predictions."""
    items = [
        Item(
            benchmark=q.question.benchmark,
            question_id=q.question.question_id,
            text=q.question.text,
            gold=q.gold or "",
            level=q.level,
        )
        for q in pool.questions
    ]
    return rows_of(questions_table(items, pool.science.seed, priors))


def with_priors(
    pool: CompletionPool,
    priors: PriorsConfig,
    predictor: Predictor | None = None,
    features: Mapping[tuple[str, str], NDArray[Any]] | None = None,
) -> CompletionPool:
    """A pool whose questions carry priors, as a live run with the same section would give them.

    Args:
        pool: from `read_pool`.
        priors: values, a file, and whether a predictor's a and b are averages.
        predictor: for the pool's own backbone.
        features: of every question, where there is a predictor.
    """
    rows = question_rows(pool, priors)
    if predictor is not None:
        rows = with_predictions(rows, predictor, features or {}, priors)
    questions = [
        replace(q, question=replace(q.question, priors=question_of(row).priors))
        for q, row in zip(pool.questions, rows, strict=True)
    ]
    return replace(pool, questions=tuple(questions))
