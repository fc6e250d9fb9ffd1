"""Grade a run's stored completions again, and show where two graders disagree.

    python -m jobs.regrade RUN --grader math_verify
    python -m jobs.regrade RUN --grader paper --examples 20
    python -m jobs.regrade RUN --labels labels.csv

Reads the journal and ``questions.parquet``; writes ``verdicts-GRADER.parquet`` into the run
directory (one row a completion: its key, the verdict of the run's own grader and the new one) and
prints how the two agree. With --labels, people are compared with the run's own grader, such as a
judge: where the file is not there, a random sample of answers is written to it, without verdicts;
with ``right`` or ``wrong`` in its column ``label``, the agreement is printed. Nothing is generated,
and no model is called: verdicts of a judge are those of the journal. Exits with 0, or 2 for a wrong
run, grader or file.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jobs.cli import VerbParser, add_shared, at_least, log_to_stderr, terminal
from jobs.endings import in_one_line
from pipeline.core.errors import DataError

if TYPE_CHECKING:
    from actors.controllers.grading import GradingPool
    from pipeline.answers import Verdict
    from pipeline.answers.graders import GraderSettings
    from pipeline.records.run_dir import RunDir
    from pipeline.records.trajectory import Row

_KEY = ("strategy", "benchmark", "question_id", "pool", "chain", "round", "sample")
_ROWS_AT_ONCE = 4_096  # completions in memory


class _Answer(NamedTuple):
    """What people label."""

    benchmark: str
    question_id: str
    gold: str
    answer: str


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("regrade", __doc__)
    add_shared(options, "run")
    how = options.add_mutually_exclusive_group(required=True)
    how.add_argument(
        "--grader",
        choices=("markovscale", "math_verify", "paper"),
        help="who grades now: this project, math-verify, or the paper's code",
    )
    how.add_argument(
        "--labels", metavar="FILE", help="CSV of answers that people label, or have labelled"
    )
    options.add_argument(
        "--sample", type=at_least(1), metavar="N", default=100, help="answers to label (100)"
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
    if arguments.labels is not None:
        with GradingPool(workers=arguments.workers) as pool:
            answers = _answers(run, pool, before, kinds)
        _labels(Path(arguments.labels), answers, arguments.sample, arguments.examples)
        return 0
    name = f"verdicts-{arguments.grader}.parquet"
    pairs: Counter[tuple[str, str]] = Counter()
    differ: list[Row] = []
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
            pairs.update((row["verdict_before"], row["verdict"]) for row in found)
            differ += [row for row in found if row["verdict_before"] != row["verdict"]]
            written.add(pa.Table.from_pylist(found, schema=schema))
        if not written.rows:
            raise DataError(
                f"a run to regrade must hold completions with gold answers: {run.address}"
            )
    _print_pairs(pairs, before, arguments.grader, "completions")
    console = terminal()
    console.print(f"{len(differ):,} disagreements ({len(differ) / pairs.total():.2%})")
    for row in differ[: arguments.examples]:
        text = (
            f"{row['benchmark']} {row['question_id']} round {row['round']}: "
            f"gold {row['gold']!r}, answer {row['answer']!r}: "
            f"{row['verdict_before']} -> {row['verdict']}"
        )
        console.print(text, soft_wrap=True)
    print(f"written: {run.address}/{name}")
    return 0


def _completions(run: RunDir) -> Iterator[list[Row]]:
    """Every completion once, with the gold answer of its question, a few thousand at a time."""
    from pipeline.records.journal import checked
    from pipeline.records.question_blocks import journal_by_question
    from pipeline.records.questions import read_questions
    from pipeline.records.run_dir import rows_of
    from pipeline.records.trajectory import address_of

    questions = rows_of(read_questions(run.folder).select(["benchmark", "question_id", "gold"]))
    gold = {(row["benchmark"], row["question_id"]): row["gold"] for row in questions}
    for segment in checked(run.journal)[1]:
        print(f"left out: {segment.name}: {segment.why}", file=sys.stderr)
    held: list[Row] = []
    with journal_by_question(run.journal, ()) as blocks:
        for key in blocks.keys:
            if (answer := gold.get(key[1:])) is None:
                continue
            drawn = [row for row in blocks.rows(key) if row["error"] is None]
            first = {address_of(row): row for row in reversed(drawn)}
            held += [{**row, "gold": answer} for row in reversed(first.values())]
            if len(held) >= _ROWS_AT_ONCE:
                yield held
                held = []
    if held:
        yield held


def _graded(
    pool: GradingPool, rows: Sequence[Row], grader: str, kinds: Mapping[str, GraderSettings]
) -> list[Verdict]:
    from actors.controllers.grading import answer_for
    from pipeline.answers import Verdict
    from pipeline.answers.graders import MATH

    futures = []
    for row in rows:
        settings = kinds.get(row["benchmark"], MATH)
        answer = answer_for(row["text"], grader, settings)
        futures.append(pool.submit(row["gold"], answer, grader, settings))
    verdicts = [future.result() for future in futures]
    recorded = [row["verdict"] for row in rows]  # of judges alone
    return [Verdict(r) if r else v for r, v in zip(recorded, verdicts, strict=True)]


def _answers(
    run: RunDir, pool: GradingPool, grader: str, kinds: Mapping[str, GraderSettings]
) -> dict[_Answer, Verdict]:
    """The verdict on each answer of a run, by the run's own grader."""
    found: dict[_Answer, Verdict] = {}
    for rows in _completions(run):
        for row, verdict in zip(rows, _graded(pool, rows, grader, kinds), strict=True):
            if row["answer"] is not None:
                key = _Answer(row["benchmark"], row["question_id"], row["gold"], row["answer"])
                found.setdefault(key, verdict)
    return found


def _labels(file: Path, verdicts: Mapping[_Answer, Verdict], sample: int, examples: int) -> None:
    """Write answers to be labelled, or print how labels and verdicts agree.

    Raises:
        DataError: where the file has no labels, or none of an answer of the run.
    """
    from pipeline.answers import Verdict
    from pipeline.statistics.intervals import wilson

    if not file.exists():
        chosen = sorted(verdicts, key=lambda a: sha256(repr(a).encode()).digest())[:sample]
        with file.open("w", encoding="utf-8", newline="") as written:
            table = csv.writer(written)
            table.writerow((*_Answer._fields, "label"))
            table.writerows((*answer, "") for answer in chosen)
        print(f"written: {file}, {len(chosen)} answers: fill in right or wrong as label")
        return
    with file.open(encoding="utf-8", newline="") as read:
        rows = list(csv.DictReader(read))
    if missing := sorted({*_Answer._fields, "label"} - set(rows[0] if rows else ())):
        raise DataError(f"{file} must have the columns of labels, it lacks {', '.join(missing)}")
    pairs: Counter[tuple[str, str]] = Counter()
    differ = []
    for row in rows:
        verdict = verdicts.get(_Answer(*(row[name] for name in _Answer._fields)))
        label = row["label"].strip().lower()
        if not label or verdict is None:
            continue
        if label not in ("right", "wrong"):
            raise DataError(f"label must be right or wrong, got {row['label']!r} in {file}")
        pairs[label, verdict.value] += 1
        if label != verdict.value:
            differ.append(row | {"verdict": verdict.value})
    if not pairs:
        raise DataError(f"{file} must label answers of the run, got none of {len(rows)}")
    _print_pairs(pairs, "people", "grader", "answers")
    graded = {pair: count for pair, count in pairs.items() if pair[1] != Verdict.UNGRADED}
    total, same = sum(graded.values()), sum(n for (a, b), n in graded.items() if a == b)
    if total:
        bounds = wilson(same, total)
        print(
            f"agreement on graded answers: {same / total:.1%} of {total:,} "
            f"(95% {bounds.low:.1%} to {bounds.high:.1%})"
        )
    for row in differ[:examples]:
        print(
            f"{row['benchmark']} {row['question_id']}: gold {row['gold']!r}, answer "
            f"{row['answer']!r}: people {row['label']}, grader {row['verdict']}"
        )


def _print_pairs(pairs: Counter[tuple[str, str]], one: str, other: str, what: str) -> None:
    """A table of how often two graders gave each pair of verdicts."""
    from jobs.tables import text_table

    most_first = sorted(pairs.items(), key=lambda item: -item[1])
    rows = [(was, now, f"{count:,}") for (was, now), count in most_first]
    title = f"verdicts on {pairs.total():,} {what}"
    terminal().print(text_table(title, (one, other, what), rows, left=()))


if __name__ == "__main__":
    sys.exit(main())
