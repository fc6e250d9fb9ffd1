"""Grade a run's stored completions again, and show where two graders disagree.

    python -m jobs.regrade RUN --grader math_verify
    python -m jobs.regrade RUN --grader paper --examples 20

Reads the journal and ``questions.parquet``; writes ``verdicts-GRADER.parquet`` into the run
directory (one row a completion: its key, the verdict of the run's own grader and the new one) and
prints how the two agree. Nothing is generated. Exits with 0, or 2 for a wrong run or grader.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from jobs.cli import VerbParser, at_least, log_to_stderr, terminal
from jobs.endings import in_one_line
from pipeline.core.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

    from actors.controllers.grading import GradingPool
    from pipeline.answers import Verdict
    from pipeline.answers.graders import GraderSettings
    from pipeline.records.run_dir import RunDir
    from pipeline.records.trajectory import Row

_KEY = ("strategy", "benchmark", "question_id", "pool", "chain", "round", "sample")
_ROWS_AT_ONCE = 4_096  # completions in memory


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("regrade", __doc__)
    options.add_argument("run", metavar="RUN", help="run directory")
    options.add_argument(
        "--grader",
        choices=("markovscale", "math_verify", "paper"),
        required=True,
        help="who grades now: this project, math-verify, or the paper's code",
    )
    options.add_argument(
        "--workers", type=at_least(1, 256), metavar="N", default=2, help="grading processes (2)"
    )
    options.add_argument(
        "--examples", type=at_least(0), metavar="N", default=10, help="disagreements to print (10)"
    )
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    import pyarrow as pa

    from actors.controllers.grading import GradingPool
    from pipeline.records.run_dir import RunDir
    from pipeline.store.streams import tables

    log_to_stderr(arguments.level)
    numbers = ("chain", "round", "sample")
    texts = ("gold", "answer", "verdict_before", "verdict")
    schema = pa.schema(
        [
            *((name, pa.int32() if name in numbers else pa.string()) for name in _KEY),
            *((name, pa.string()) for name in texts),
        ]
    )
    run = RunDir.open(arguments.run)
    science = run.config().science
    before, kinds = science.grader, {s.name: s.graded_by for s in science.benchmarks}
    name = f"verdicts-{arguments.grader}.parquet"
    seen = _Agreement(arguments.examples)
    with (
        tables(run.folder, name, schema) as written,
        GradingPool(workers=arguments.workers) as pool,
    ):
        for rows in _completions(run):
            old = _graded(pool, rows, before, kinds)
            new = _graded(pool, rows, arguments.grader, kinds)
            found = [
                {column: row[column] for column in (*_KEY, "gold", "answer")}
                | {"verdict_before": str(was), "verdict": str(now)}
                for row, was, now in zip(rows, old, new, strict=True)
            ]
            seen.add(found)
            written.add(pa.Table.from_pylist(found, schema=schema))
        if not written.rows:
            raise DataError(
                f"a run to regrade must hold completions with gold answers: {run.address}"
            )
    seen.print(before, arguments.grader)
    print(f"written: {run.address}/{name}")
    return 0


def _completions(run: RunDir) -> Iterator[list[Row]]:
    """Every completion once, with the gold answer of its question, a few thousand at a time."""
    from pipeline.records.journal import checked, counting, read_columns
    from pipeline.records.questions import read_questions
    from pipeline.records.run_dir import rows_of
    from pipeline.records.trajectory import Row

    questions = read_questions(run.folder)
    columns = (questions[name].to_pylist() for name in ("benchmark", "question_id", "gold"))
    gold = {(benchmark, name): answer for benchmark, name, answer in zip(*columns, strict=True)}
    whole, corrupt = checked(run.journal)
    for segment in corrupt:
        print(f"left out: {segment.name}: {segment.why}", file=sys.stderr)
    names = counting(run.journal, whole)
    first = _first_of_each(read_columns(run.journal, names, (*_KEY, "error")))
    start, held = 0, list[Row]()
    for table in read_columns(run.journal, names, (*_KEY, "answer", "text")):
        chosen = table.filter(first.slice(start, len(table)))
        start += len(table)
        for row in rows_of(chosen):
            answer = gold.get((row["benchmark"], row["question_id"]))
            if answer is not None:
                held.append({**row, "gold": answer})
        if len(held) >= _ROWS_AT_ONCE:
            yield held
            held = []
    if held:
        yield held


def _first_of_each(parts: Iterable[pa.Table]) -> pa.Array:
    """Which rows are the first completion at their key."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from pipeline.records.trajectory import SCHEMA as DRAWN

    keys = pa.concat_tables([DRAWN.empty_table().select([*_KEY, "error"]), *parts])
    keys = keys.append_column("row", pa.array(np.arange(len(keys))))
    done = keys.filter(pc.is_null(keys["error"]))
    first = done.group_by(list(_KEY)).aggregate([("row", "min")])["row_min"]
    chosen = np.zeros(len(keys), dtype=bool)
    chosen[first.to_numpy()] = True
    return pa.array(chosen)


def _graded(
    pool: GradingPool, rows: Sequence[Row], grader: str, kinds: Mapping[str, GraderSettings]
) -> list[Verdict]:
    from actors.controllers.grading import answer_for
    from pipeline.answers.graders import MATH

    futures = []
    for row in rows:
        settings = kinds.get(row["benchmark"], MATH)
        answer = answer_for(row["text"], grader, settings)
        futures.append(pool.submit(row["gold"], answer, grader, settings))
    return [future.result() for future in futures]


class _Agreement:
    """How two graders agree, and the first completions on which they do not.

    Args:
        examples: of those, at most.
    """

    def __init__(self, examples: int) -> None:
        self._most = examples
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._examples: list[Row] = []

    def add(self, rows: Sequence[Row]) -> None:
        """Count verdicts of both."""
        self._pairs.update((row["verdict_before"], row["verdict"]) for row in rows)
        differ = [row for row in rows if row["verdict_before"] != row["verdict"]]
        self._examples = [*self._examples, *differ][: self._most]

    def print(self, before: str, after: str) -> None:
        """Show a table of both graders' verdicts, and the examples."""
        console = terminal()
        all_of_them = self._pairs.total()
        table = Table(title=f"verdicts on {all_of_them:,} completions", title_justify="left")
        for column in (before, after, "completions"):
            table.add_column(column, justify="right")
        for (was, now), count in sorted(self._pairs.items(), key=lambda item: -item[1]):
            table.add_row(was, now, f"{count:,}")
        console.print(table)
        differ = sum(count for (was, now), count in self._pairs.items() if was != now)
        console.print(f"{differ:,} disagreements ({differ / all_of_them:.2%})")
        for row in self._examples:
            text = (
                f"{row['benchmark']} {row['question_id']} round {row['round']}: "
                f"gold {row['gold']!r}, answer {row['answer']!r}: "
                f"{row['verdict_before']} -> {row['verdict']}"
            )
            console.print(text, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
