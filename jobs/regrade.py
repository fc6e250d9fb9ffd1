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
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from actors.controllers.grading import Grader, GradingPool, answer_for
from pipeline.answers import Verdict
from pipeline.core.errors import ConfigError, DataError
from pipeline.records.journal import read_journal
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.trajectory import Row

_KEY = ("strategy", "benchmark", "question_id", "pool", "chain", "round", "sample")

SCHEMA = pa.schema(
    [
        *(
            (name, pa.int32() if name in ("chain", "round", "sample") else pa.string())
            for name in _KEY
        ),
        ("gold", pa.string()),
        ("answer", pa.string()),
        ("verdict_before", pa.string()),
        ("verdict", pa.string()),
    ]
)


def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    parser = argparse.ArgumentParser(prog="markovscale regrade", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", metavar="RUN", help="run directory")
    parser.add_argument(
        "--grader",
        choices=[g.value for g in Grader],
        required=True,
        help="who grades now: this project, math-verify, or the paper's code",
    )
    parser.add_argument("--workers", type=int, default=2, help="grading processes")
    parser.add_argument("--examples", type=int, default=10, help="disagreements to print")
    arguments = parser.parse_args(argv)
    try:
        run = RunDir.open(arguments.run)
        before = run.config().science.grader
        completions = _completions(run)
    except (ConfigError, DataError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with GradingPool(workers=arguments.workers) as pool:
        old = _graded(pool, completions, before)
        new = _graded(pool, completions, arguments.grader)
    rows = [
        {**{name: row[name] for name in _KEY}, "gold": row["gold"], "answer": row["answer"]}
        | {"verdict_before": str(was), "verdict": str(now)}
        for row, was, now in zip(completions, old, new, strict=True)
    ]
    name = f"verdicts-{arguments.grader}.parquet"
    run.folder.write_table(name, pa.Table.from_pylist(rows, schema=SCHEMA))
    _print(rows, before, arguments.grader, arguments.examples)
    print(f"written: {run.address}/{name}")
    return 0


def _completions(run: RunDir) -> list[Row]:
    """Every completion once, with the gold answer of its question."""
    questions = rows_of(run.folder.read_table("questions.parquet"))
    gold = {(q["benchmark"], q["question_id"]): q["gold"] for q in questions}
    found: dict[tuple[Any, ...], Row] = {}
    journal = read_journal(run.journal)
    for segment in journal.corrupt:
        print(f"left out: {segment.name}: {segment.why}", file=sys.stderr)
    for row in rows_of(journal.table):
        answer = gold.get((row["benchmark"], row["question_id"]))
        if row["error"] is None and answer is not None:
            found.setdefault(tuple(row[name] for name in _KEY), {**row, "gold": answer})
    if not found:
        raise DataError(f"a run to regrade must hold completions with gold answers: {run.address}")
    return list(found.values())


def _graded(pool: GradingPool, rows: Sequence[Row], grader: str) -> list[Verdict]:
    pairs = [(row["gold"], answer_for(row["text"], grader)) for row in rows]
    return list(pool.grade_many(pairs, grader))


def _print(rows: Sequence[Row], before: str, after: str, examples: int) -> None:
    console = Console()
    table = Table(title=f"verdicts on {len(rows):,} completions", title_justify="left")
    for column in (before, after, "completions"):
        table.add_column(column, justify="right")
    pairs = Counter((row["verdict_before"], row["verdict"]) for row in rows)
    for (was, now), count in sorted(pairs.items(), key=lambda item: -item[1]):
        table.add_row(was, now, f"{count:,}")
    console.print(table)
    differ = [row for row in rows if row["verdict_before"] != row["verdict"]]
    console.print(f"{len(differ):,} disagreements ({len(differ) / len(rows):.2%})")
    for row in differ[:examples]:
        text = (
            f"{row['benchmark']} {row['question_id']} round {row['round']}: gold {row['gold']!r}, "
            f"answer {row['answer']!r}: {row['verdict_before']} -> {row['verdict']}"
        )
        console.print(escape(text), soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
