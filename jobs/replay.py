"""Repeat a run's decisions from its journal, without any engine.

    python -m jobs.replay RUN

Replays every strategy of a finished run, record for record, and compares the outcomes with those
that the run wrote. Exits with 0 where all agree; otherwise with 1 and the first difference; with 2
for input that does not fit. To try other strategies use ``jobs.sweep --pool RUN``.
"""

from __future__ import annotations

import argparse
import sys

from jobs.cli import VerbParser, add_shared, log_to_stderr
from jobs.endings import in_one_line
from pipeline.core.errors import ReplayMissError


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("replay", __doc__)
    add_shared(options, "run")
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from pipeline.records.run_dir import RunDir
    from pipeline.replay.run import replay_run

    log_to_stderr(arguments.level)
    run = RunDir.open(arguments.run)
    try:
        found = replay_run(run)
    except ReplayMissError as error:
        print(f"differs: the journal lacks what a decision rests on: {error}")
        return 1
    unused = f", {found.unused:,} records that no decision asked for" if found.unused else ""
    print(f"{found.outcomes:,} outcomes replayed from {found.records:,} records{unused}")
    if not found.differences:
        print(f"all agree with {run.address}")
        return 0
    more = len(found.differences) - 1
    print(f"differs: {found.differences[0]}" + (f" (and {more:,} more)" if more else ""))
    return 1


if __name__ == "__main__":
    sys.exit(main())
