"""*with_priors*: adds priors of a predictor or a file to the questions of a run or a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.benchmarks import Item
from pipeline.config.science import PriorsConfig
from pipeline.predictors.heads import Predictor
from pipeline.predictors.targets import Head
from pipeline.records.questions import question_of, questions_table
from pipeline.records.run_dir import rows_of
from pipeline.records.trajectory import Row
from pipeline.replay.pools import CompletionPool

PREDICTOR = "predictor"
"""`p0_source` of a predicted p0."""


def with_predictions(
    rows: Sequence[Row],
    predictor: Predictor,
    features: Mapping[tuple[str, str], NDArray[Any]],
    priors: PriorsConfig,
) -> list[Row]:
    """Questions with what is predicted of them.

    p0 is the predictor's; a and b where neither the configuration nor a priors file gave them: the
    average over the training questions, with ``transitions: pooled`` that over their transitions,
    or with ``question`` what the heads say of each question.

    Args:
        rows: of questions.parquet.
        predictor: for the run's own backbone.
        features: by (benchmark, question_id).
        priors: of the run.
    """
    if not rows:
        return []
    keys = [(row["benchmark"], row["question_id"]) for row in rows]
    predicted = predictor.predict(np.array([features[key] for key in keys]))
    filled = []
    for i, row in enumerate(rows):
        own = dict(row)
        if Head.P0 in predicted:
            own.update(p0=float(predicted[Head.P0][i]), p0_source=PREDICTOR)
        if own["a"] is None:
            own["a"], own["b"], _ = predictor.card.averages.chosen(priors.transitions)
            if priors.transitions == "question":
                for head, name in ((Head.A, "a"), (Head.B, "b")):
                    if head in predicted:
                        own[name] = float(predicted[head][i])
        filled.append(own)
    return filled


def priors_note(predictor: Predictor, priors: PriorsConfig) -> dict[str, Any]:
    """What a run writes down on where its priors come from."""
    card = predictor.card
    a, b, meaning = card.averages.chosen(priors.transitions)
    if priors.a is not None or priors.file is not None:
        meaning = "as configured (science.priors.a and b, else science.priors.file)"
    elif priors.transitions == "question":
        meaning = f"each question's own, by the heads; where there is no head: {meaning}"
    return {
        "predictor": predictor.address,
        "backbone": {"model": card.backbone.model, "revision": card.backbone.revision},
        "heads": card.use,
        "a": a,
        "b": b,
        "a_and_b_are": meaning,
        "warnings": predictor.warnings(),
    }


def earlier_predictions(rows: Sequence[Row], before: Sequence[Row]) -> list[Row]:
    """Rows with the predicted priors of an earlier attempt, where it had them.

    Features are not the same to the last digit on every machine, and a resumed chain must go on
    under the belief that it began with.
    """
    known = {
        (row["benchmark"], row["question_id"]): row
        for row in before
        if row["p0_source"] == PREDICTOR
    }
    names = ("p0", "p0_source", "a", "b", "tokens_per_round")
    return [
        {**row, **{name: known[key][name] for name in names}} if key in known else dict(row)
        for row in rows
        for key in [(row["benchmark"], row["question_id"])]
    ]


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
