"""*Pool cells*: replays the strategies that drew an exported pool as the cells of a run."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from functools import partial

from pipeline.answers.answer_rules import RULES, Rule
from pipeline.config.strategies import rule_of
from pipeline.records.outcome import outcome_of
from pipeline.records.trajectory import Row
from pipeline.replay.exact import Replayed, replay
from pipeline.replay.pools import CompletionPool, PoolQuestion, pool_sources
from pipeline.report.run_data import Cell


def pool_cells(pool: CompletionPool) -> list[Cell]:
    """One cell a benchmark and strategy."""
    name = posixpath.basename(pool.address.rstrip("/"))
    cells = []
    for benchmark in pool.benchmarks:
        questions = [q for q in pool.questions if q.question.benchmark == benchmark]
        for source in (each for each in pool_sources(pool.science) if each.chain == 0):
            label, strategy = source.label, source.strategy
            ends = [replay(strategy, q.question, q.recording()) for q in questions]
            rows = map(partial(pool_outcome, name, label), questions, ends)
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
                    without_gold=frozenset(q.key for q in questions if q.gold is None),
                )
            )
    return cells


def pool_outcome(
    run: str, label: str, question: PoolQuestion, end: Replayed, rules: Sequence[Rule] = RULES
) -> Row:
    """The outcome of a strategy on a pool's question; nothing is said on wasted tokens and seconds.

    Args:
        run: name of the run or pool.
        label: of the strategy.
        question: of the pool.
        end: what the strategy decided on it.
        rules: that its answer is read by.
    """
    verdicts = question.verdicts()
    return outcome_of(
        run=run,
        attempt=0,
        strategy=label,
        phase="",
        benchmark=question.question.benchmark,
        question_id=question.question.question_id,
        level=question.level,
        stop=end.stop,
        observations=end.completions,
        verdicts=[verdicts[request.address] for request in end.requests],
        wasted_tokens=0,
        seconds=0.0,
        rules=rules,
    )
