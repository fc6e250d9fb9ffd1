"""Print one question of a run: every chain round by round, and why it stopped.

    python -m jobs.show runs/laptop-20260101-120000 17
    python -m jobs.show RUN q17 --strategy markovscale_star --text

QUESTION is an id, BENCHMARK/ID, or the place of the question in the run, from 1, as the report
numbers it. A star marks the round that the answer is taken from. Reads the run directory alone,
needs no cluster. Exits with 0, or with 2 where there is no such run, question or strategy.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace

from jobs.cli import VerbParser, add_shared, log_to_stderr
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError

_MOST_CHARS = 200_000


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("show", __doc__)
    add_shared(options, "run")
    options.add_argument("question", metavar="QUESTION", help="id, BENCHMARK/ID or place from 1")
    options.add_argument(
        "--strategy", metavar="LABEL", action="append", help="only this one; may be given again"
    )
    options.add_argument("--text", action="store_true", help="also print the completions")
    add_shared(options, "--json")
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from pipeline.report.questions import entries_of, find, views_of
    from pipeline.report.run_data import read_run

    log_to_stderr(arguments.level)
    run = read_run(arguments.run)
    if arguments.strategy:
        labels = dict.fromkeys(cell.label for cell in run.cells)
        for label in arguments.strategy:
            if label not in labels:
                raise ConfigError(f"--strategy must be one of {', '.join(labels)}, got {label!r}")
        run = replace(run, cells=tuple(c for c in run.cells if c.label in arguments.strategy))
    [view] = views_of([run], [find(entries_of([run]), arguments.question)], _MOST_CHARS)
    if arguments.json:
        print(json.dumps(asdict(view), ensure_ascii=False))
    else:
        print(view.written(texts=arguments.text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
