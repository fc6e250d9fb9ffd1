"""*Run*: opens a run directory as tables; accuracy by round of runs and pools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from pipeline.config.run import RunConfig
from pipeline.export.source import Source, open_source
from pipeline.export.tables import (
    ACCURACY_ROWS,
    COMPLETION_ROWS,
    accuracy_rows,
    completion_rows,
    in_tables,
    outcome_rows,
    outcome_rows_schema,
)
from pipeline.records.side_files import flat
from pipeline.replay.pools import CompletionPool
from pipeline.report.chain_view import graded_in_round, share_of
from pipeline.report.html import table
from pipeline.report.questions import QuestionView, entries_of, find, views_of
from pipeline.report.run_data import read_run
from pipeline.store.storage import Address
from pipeline.theory.estimate import estimate_clustered
from pipeline.theory.markov import accuracy_after
from pipeline.theory.transitions import Chain, count_by_question, labels_of_verdicts

_MOST_CHARS = 200_000  # of a completion's text


@dataclass(frozen=True, eq=False)
class Run:
    """A run directory that was opened; every table is read on access."""

    name: str
    config: RunConfig = field(repr=False)
    """The configuration of the newest attempt."""
    synthetic: bool
    """Whether scripted engines answered, and no model did."""
    finished: bool
    """Whether every question has its outcome under every strategy."""
    source: Source = field(repr=False)

    def accuracies(self) -> pa.Table:
        """Accuracy with its 95 % Wilson interval, and the bill: a row a strategy, benchmark and
        answer rule that could be applied. The numbers are those of summary.json."""
        return pa.Table.from_pylist(list(accuracy_rows(self.source)), schema=ACCURACY_ROWS)

    def outcomes(self) -> pa.Table:
        """A row a question and strategy: its stop, the answer and verdict of each rule, its cost.

        ``verdict_RULE`` is what the question counts as (``right``, ``wrong``, ``ungraded``, null),
        so a failed question is wrong; tokens are the whole bill, of all phases together.
        """
        schema = outcome_rows_schema(self.source.rules)
        return pa.concat_tables(in_tables(outcome_rows(self.source), schema))

    def rounds(self, *, text: bool = True) -> pa.Table:
        """A row a completion that an outcome rests on, by ``position`` in request order.

        Args:
            text: whether replies are kept: they are most of a run.
        """
        dropped = [] if text else ["text"]
        tables = in_tables(completion_rows(self.source), COMPLETION_ROWS)
        return pa.concat_tables(table.drop_columns(dropped) for table in tables)

    def questions(self) -> pa.Table:
        """A row a question: text, gold answer and priors."""
        return self.source.question_table

    def question(self, name: str | int) -> QuestionView:
        """One question with every chain round by round, as the report shows it; prints as text.

        Args:
            name: its id, ``BENCHMARK/ID``, or its place in the run from 1.

        Raises:
            ConfigError: where there is no such question.
        """
        run = read_run(self.source.run.address)
        [view] = views_of([run], [find(entries_of([run]), str(name))], _MOST_CHARS)
        return view

    def _repr_html_(self) -> str:
        """The accuracies by the headline rules, for notebooks."""
        header = ("benchmark", "strategy", "accuracy [95 %]", "tokens per question")
        rows = [
            (row["benchmark"], row["strategy"],
             f"{row['accuracy']:.1%} [{row['low']:.1%}, {row['high']:.1%}]",
             f"{row['tokens_per_question']:,.0f}")
            for row in self.accuracies().to_pylist()
            if row["headline"]
        ]  # fmt: skip
        made_up = " (SYNTHETIC)" if self.synthetic else ""
        return table(header, rows, caption=f"{self.name}{made_up}")

    def metrics(self) -> pa.Table:
        """Counters over time, a row every ten seconds, all of docs/report.md that is a number.

        What is nested has dotted names (`pipeline.records.side_files`).
        """
        rows = [flat(row) for row in self.source.metrics]
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pa.table({name: [row.get(name) for row in rows] for name in names})


def open_run(path: Address) -> Run:
    """Open a run directory, finished or not.

    Args:
        path: of the directory, local or ``s3://``, ``gs://``.

    Raises:
        ConfigError: where it is no run directory.
        DataError: where it cannot be read, or has no outcome yet.
    """
    source = open_source(str(path), 0.0)
    return Run(source.run_id, source.config, source.synthetic, source.finished, source)


SCHEMA = pa.schema(
    [
        pa.field("benchmark", pa.string()),
        pa.field("round", pa.int32()),
        *(pa.field(name, pa.int64()) for name in ("right", "graded")),
        *(pa.field(name, pa.float64()) for name in ("accuracy", "low", "high", "closed_form")),
        *(pa.field(name, pa.float64()) for name in ("a", "b")),
    ]
)


def accuracy_by_round(source: Run | CompletionPool) -> pa.Table:
    """Accuracy of each round over all chains, and the closed form (Eq. 4).

    a and b are counted on gold verdicts of the same chains, so ``closed_form`` describes them and
    foretells nothing.

    Args:
        source: a pool, or a run with MR-Thinking, of which the longest is read.

    Returns:
        A row a benchmark and round: ``accuracy`` in [0, 1] with its 95 % interval (Wilson's; with
        several chains a question that of the questions' shares, all weighing the same),
        ``closed_form``, ``a`` and ``b`` (null where no transition was seen).
    """
    chains: dict[str, list[Chain]] = {}
    for chain in _chains(source):
        chains.setdefault(chain.benchmark, []).append(chain)
    rows = [row for benchmark, found in chains.items() for row in _rows(benchmark, found)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _chains(source: Run | CompletionPool) -> Iterator[Chain]:
    if isinstance(source, CompletionPool):
        drawn = [(q.key, verdicts) for q in source.questions for verdicts in q.verdicts_by_chain]
    else:
        cells = [cell for cell in source.source.cells if cell.kind == "mr_thinking"]
        longest = max((cell.n for cell in cells), default=0)
        rows = [(cell, row) for cell in cells if cell.n == longest for row in cell.rows]
        drawn = [((cell.benchmark, row["question_id"]), row["round_verdicts"])
                 for cell, row in rows]  # fmt: skip
    for (benchmark, question_id), verdicts in drawn:
        labels = labels_of_verdicts(verdicts)
        yield Chain(benchmark=benchmark, question_id=question_id, labels=labels, level=None)


def _rows(benchmark: str, chains: list[Chain]) -> Iterator[dict[str, object]]:
    counts = count_by_question(chains)
    seen = any(c.from_right + c.from_wrong for c in counts.values())
    fit = estimate_clustered(counts) if seen else None
    first: float | None = None
    for number in range(max(len(chain.labels) for chain in chains)):
        graded = graded_in_round(chains, number)
        interval = share_of(graded)
        if interval is None:
            continue
        first = interval.value if first is None else first
        yield {
            "benchmark": benchmark,
            "round": number,
            "right": sum(map(sum, graded.values())),
            "graded": sum(map(len, graded.values())),
            "accuracy": interval.value,
            "low": interval.low,
            "high": interval.high,
            "closed_form": None
            if fit is None
            else float(accuracy_after(number, p0=first, a=fit.a.value, b=fit.b.value)),
            "a": fit and fit.a.value,
            "b": fit and fit.b.value,
        }
