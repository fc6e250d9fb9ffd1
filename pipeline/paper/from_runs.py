"""What a pool cannot replay, from runs that drew it live: budget forcing, Atom of Thoughts, DSC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from pipeline.core.errors import ConfigError
from pipeline.paper.evaluation import Evaluation, settings_words
from pipeline.report.published import normal
from pipeline.report.run_data import Cell, RunData


def add_runs(evaluations: Sequence[Evaluation], runs: Sequence[RunData]) -> None:
    """Put the methods of runs into the tables of the same backbone and benchmark.

    Only methods that the pool does not give at that budget are taken.

    Raises:
        ConfigError: where a run has nothing for any of the pools.
    """
    for run in runs:
        used = False
        for made in evaluations:
            for cell in run.cells:
                if (normal(cell.backbone), cell.benchmark) == (
                    normal(made.backbone),
                    made.benchmark,
                ):
                    used |= _add(made, cell)
        if not used:
            titles = "; ".join(made.title for made in evaluations)
            raise ConfigError(
                f"--run must have a method that no pool gives, on questions, benchmark and "
                f"backbone of one ({titles}), got none in {run.run.address}"
            )


def _add(made: Evaluation, cell: Cell) -> bool:
    budgeted = "n" in {field.name for field in fields(cell.strategy)}
    n = cell.n if budgeted else None
    if any(kind == cell.kind and budget in (None, n) for kind, budget in made.main):
        return False
    rights, rows = cell.rights(cell.rule), cell.by_question
    keys = [question.key for question in made.pool.questions]
    if not any(key in rows for key in keys):
        return False
    asked = sum(key in rows for key in keys)
    words = settings_words(cell.strategy)
    some = "" if asked == len(keys) else f"{asked:,} of {len(keys):,} questions"
    made.main[cell.kind, n] = made.column(
        method=cell.method,
        kind=cell.kind,
        n=n,
        rule=cell.rule.value,
        fixed=", ".join(part for part in (words, some) if part),
        source=cell.run,
        right_Q=np.array([float(rights[key]) if key in rights else np.nan for key in keys]),
        tokens_Q=np.array(
            [float(rows[key]["completion_tokens"]) if key in rows else np.nan for key in keys]
        ),
    )
    made.names[cell.kind] = cell.method
    return True
