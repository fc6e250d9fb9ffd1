"""The strategies that drew an exported pool, as the cells of a run."""

from __future__ import annotations

import posixpath

from pipeline.config.strategies import rule_of
from pipeline.records.outcome import outcome_of
from pipeline.replay.exact import replay
from pipeline.replay.pools import CompletionPool, pool_strategies
from pipeline.report.run_data import Cell


def pool_cells(pool: CompletionPool) -> list[Cell]:
    """One cell a benchmark and strategy; nothing is said on wasted tokens and seconds."""
    name = posixpath.basename(pool.address.rstrip("/"))
    cells = []
    for benchmark in pool.benchmarks:
        asked = [q for q in pool.questions if q.question.benchmark == benchmark]
        for label, strategy in pool_strategies(pool.science).values():
            rows = []
            for question in asked:
                drawn = replay(strategy, question.question, question.recording())
                verdicts = question.verdicts()
                rows.append(
                    outcome_of(
                        run=name,
                        attempt=0,
                        strategy=label,
                        phase="",
                        benchmark=benchmark,
                        question_id=question.question.question_id,
                        level=question.level,
                        stop=drawn.stop,
                        observations=drawn.completions,
                        verdicts=[verdicts[request.address] for request in drawn.requests],
                        wasted_tokens=0,
                        seconds=0.0,
                    )
                )
            cells.append(
                Cell(
                    run=name,
                    label=label,
                    kind=strategy.kind,
                    n=strategy.n,
                    benchmark=benchmark,
                    backbone=pool.science.generator.model,
                    rule=rule_of(pool.science, strategy),
                    strategy=strategy,
                    rows=tuple(rows),
                    without_gold=frozenset(q.key for q in asked if q.gold is None),
                )
            )
    return cells
