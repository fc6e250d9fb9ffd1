"""Accuracy by round of chains that were not stopped, and what the two-state chain says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pipeline.answers.verdict import Verdict
from pipeline.api.runs import Run
from pipeline.export.samples import samples
from pipeline.replay.pools import CompletionPool
from pipeline.statistics.intervals import mean_interval, wilson
from pipeline.theory.estimate import estimate_clustered
from pipeline.theory.markov import accuracy_after
from pipeline.theory.transitions import Chain, Labels, count_by_question, labels_of_verdicts

SCHEMA = pa.schema(
    [
        pa.field("benchmark", pa.string()),
        pa.field("round", pa.int32()),
        *(pa.field(name, pa.int64()) for name in ("right", "graded")),
        *(pa.field(name, pa.float64()) for name in ("accuracy", "low", "high", "closed_form")),
        *(pa.field(name, pa.float64()) for name in ("a", "b")),
    ]
)

Verdicts = Sequence[str | None]
_GRADED = (Verdict.RIGHT.value, Verdict.WRONG.value)


def accuracy_by_round(source: Run | CompletionPool) -> pa.Table:
    """Accuracy of each round over all chains, and the closed form beside it (Eq. 4).

    a and b are counted on gold verdicts of the same chains, so ``closed_form`` describes them and
    foretells nothing.

    Args:
        source: a pool, or a run with MR-Thinking, of which the longest is read.

    Returns:
        A row a benchmark and round: ``accuracy`` in [0, 1] with its 95 % interval (Wilson's; with
        several chains a question that of the questions' shares, all weighing the same),
        ``closed_form``, ``a`` and ``b`` (null where no transition was seen).
    """
    chains: dict[str, list[tuple[str, Verdicts]]] = {}
    for benchmark, question_id, verdicts in _chains(source):
        chains.setdefault(benchmark, []).append((question_id, verdicts))
    rows = [row for benchmark, found in chains.items() for row in _rows(benchmark, found)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _chains(source: Run | CompletionPool) -> Iterator[tuple[str, str, Verdicts]]:
    if isinstance(source, CompletionPool):
        for drawn in source.questions:
            for verdicts in drawn.verdicts_by_chain:
                yield *drawn.key, verdicts
        return
    chains = [cell for cell in source.source.cells if cell.strategy.kind == "mr_thinking"]
    longest = max((cell.entry["n"] for cell in chains), default=0)
    for cell, found in samples(source.source, texts=False):
        if cell in chains and cell.entry["n"] == longest:
            for sample in found:
                asked = sample.question
                yield asked["benchmark"], asked["question_id"], sample.outcome["round_verdicts"]


def _rows(benchmark: str, found: list[tuple[str, Verdicts]]) -> Iterator[dict[str, object]]:
    chains = [
        Chain(
            benchmark=benchmark,
            question_id=question_id,
            labels=labels_of_verdicts(verdicts),
            level=None,
        )
        for question_id, verdicts in found
    ]
    counts = count_by_question(chains)
    seen = any(c.from_right + c.from_wrong for c in counts.values())
    fit = estimate_clustered(counts, labels=Labels.GOLD) if seen else None
    first: float | None = None
    for number in range(max((len(verdicts) for _, verdicts in found), default=0)):
        of_question: dict[str, list[bool]] = {}
        for question_id, verdicts in found:
            if len(verdicts) > number and verdicts[number] in _GRADED:
                is_right = verdicts[number] == Verdict.RIGHT.value
                of_question.setdefault(question_id, []).append(is_right)
        graded = sum(map(len, of_question.values()))
        right = sum(map(sum, of_question.values()))
        if not graded:
            continue
        if graded == len(of_question):
            interval = wilson(right, graded)
        else:
            shares = [sum(values) / len(values) for values in of_question.values()]
            interval = mean_interval(np.array(shares))
        first = interval.value if first is None else first
        yield {
            "benchmark": benchmark,
            "round": number,
            "right": right,
            "graded": graded,
            "accuracy": interval.value,
            "low": interval.low,
            "high": interval.high,
            "closed_form": None
            if fit is None
            else float(accuracy_after(number, p0=first, a=fit.a.value, b=fit.b.value)),
            "a": fit and fit.a.value,
            "b": fit and fit.b.value,
        }
