"""A run directory as tables."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from pipeline.config.run import RunConfig
from pipeline.export.samples import samples
from pipeline.export.source import Source, open_source
from pipeline.export.tables import (
    ACCURACY_ROWS,
    COMPLETION_ROWS,
    RowGroups,
    accuracy_rows,
    completion_rows,
    outcome_row,
    outcome_rows_schema,
)
from pipeline.records.side_files import flat
from pipeline.report.html import table
from pipeline.report.questions import QuestionView, entries_of, find, views_of
from pipeline.report.run_data import read_run
from pipeline.store.storage import Address

_MOST_CHARS = 200_000  # of a completion's text


@dataclass(frozen=True, eq=False)
class Run:
    """A run directory that was opened; every table is read when it is asked for."""

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
        held: list[pa.Table] = []
        schema = outcome_rows_schema(self.source.rules)
        rows = RowGroups(held.append, schema)
        for cell, found in samples(self.source, texts=False):
            for sample in found:
                rows.add(outcome_row(cell, sample))
        rows.flush()
        return pa.concat_tables([schema.empty_table(), *held])

    def rounds(self, *, text: bool = True) -> pa.Table:
        """A row a completion that an outcome rests on, by ``position`` in request order.

        Args:
            text: whether replies are kept: they are most of a run.
        """
        dropped = [] if text else ["text"]
        held = [COMPLETION_ROWS.empty_table().drop_columns(dropped)]
        rows = RowGroups(lambda table: held.append(table.drop_columns(dropped)), COMPLETION_ROWS)
        for _, found in samples(self.source):
            for sample in found:
                for row in completion_rows(sample):
                    rows.add(row)
        rows.flush()
        return pa.concat_tables(held)

    def questions(self) -> pa.Table:
        """A row a question: text, gold answer and priors."""
        return self.source.questions

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
        rows = [flat(row) for row in self.source.run.metrics()]
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
    return Run(source.run.run_id, source.config, source.synthetic, source.finished, source)
