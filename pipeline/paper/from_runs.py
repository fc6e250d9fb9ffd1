"""What a pool cannot replay, from runs that drew it live: budget forcing, Atom of Thoughts, DSC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from pipeline.core.errors import ConfigError
from pipeline.paper.evaluation import Evaluation, settings_words
from pipeline.report.comparison import column_of
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
    column = column_of(cell)
    place = {key: at for at, key in enumerate(column.keys or ())}
    at_Q = np.array([place.get(question.key, -1) for question in made.pool.questions])
    asked = int((at_Q >= 0).sum())
    if not asked:
        return False
    some = "" if asked == len(at_Q) else f"{asked:,} of {len(at_Q):,} questions"
    made.main[cell.kind, n] = made.column(
        method=cell.method,
        kind=cell.kind,
        n=n,
        rule=cell.rule.value,
        fixed=", ".join(part for part in (settings_words(cell.strategy), some) if part),
        source=cell.run,
        right_Q=np.where(at_Q >= 0, column.right_Q[at_Q], np.nan),
        tokens_Q=np.where(at_Q >= 0, column.tokens_Q[at_Q], np.nan),
    )
    made.names[cell.kind] = cell.method
    return True
