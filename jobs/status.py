"""How a run is going, told from another shell.

    python -m jobs.status runs/laptop-20260101-120000

Reads the run directory alone (outcomes, counters, questions), needs no cluster, writes
nothing. Exits with 0, or with 2 where it is no run directory.
"""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console
from rich.table import Table

from pipeline.core.errors import ConfigError, DataError
from pipeline.planning.admission import Pressure
from pipeline.planning.run_caps import standing
from pipeline.report import words
from pipeline.report.capped import first_words
from pipeline.report.forecast import RunProgress, progress_of
from pipeline.report.run_data import RunData, read_run

_STALE_S = 120.0  # counters are written once a minute at least
_PRESSURE: dict[str, str] = {
    Pressure.CLEAR: "no queue in the engines",
    Pressure.SOFT: "requests wait in the engines",
    Pressure.HARD: "engines preempted requests for want of KV cache",
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = argparse.ArgumentParser(prog="markovscale status", description=__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("run", metavar="RUN", help="run directory")
    return options


def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    try:
        run = read_run(arguments.run)
        progress = progress_of(run)
    except (ConfigError, DataError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    console = Console(width=None if Console().is_terminal else 140, highlight=False)
    if run.synthetic:
        console.print("SYNTHETIC: scripted engines answer, no model does")
    for text in _lines(run, progress, time.time()):
        console.print(text, soft_wrap=True)
    console.print(_table(progress))
    return 0


def _lines(run: RunData, progress: RunProgress, now: float) -> list[str]:
    share = words.percent(progress.done / progress.asked if progress.asked else None, 0)
    phase = "" if progress.phase is None else f", phase {progress.phase}"
    lines = [
        f"{run.run_id}: attempt {progress.attempt}{phase}, {progress.done:,} of {progress.asked:,} "
        f"chains done ({share}), {progress.in_flight:,} in flight, {progress.waiting:,} waiting",
    ]
    if progress.limits:
        lines.append(standing(progress.limits))
    if run.capped is not None and run.not_run:
        return [*lines, f"capped: {first_words(run.capped, run.not_run)}"]
    if progress.told_at is None:
        return [*lines, "no counters yet: the engines are starting, or the run has not begun"]
    rates = "speed not known yet"
    if progress.rounds_per_s is not None and progress.tokens_per_s is not None:
        rates = (
            f"{progress.rounds_per_s:.1f} rounds/s, {words.count(progress.tokens_per_s)} tokens/s"
        )
    lines.append(f"{progress.rounds:,} rounds drawn, {rates}")
    if progress.done == progress.asked:
        return [*lines, "done"]
    if progress.cap is not None:
        engines = "" if progress.pressure is None else f": {_PRESSURE[progress.pressure]}"
        lines.append(f"at most {progress.cap:,} chains at work{engines}")
    lines.append(_left(progress))
    silent = now - progress.told_at
    if silent > _STALE_S:
        lines.append(
            f"no news for {words.duration(silent)}: the run has stopped, and can be resumed, "
            f"unless it is draining"
        )
    return lines


def _left(progress: RunProgress) -> str:
    come = f"about {words.count(progress.rounds_to_come)} rounds still to come"
    if progress.seconds_left is None:
        return f"time left not known: {come}"
    return (
        f"about {words.duration(progress.seconds_left)} left at this speed: {come} by the chains' "
        f"own forecast"
    )


def _table(progress: RunProgress) -> Table:
    table = Table(title="so far (short chains are done first: no random sample)")
    table.title_justify = "left"
    table.add_column("strategy")
    for name in ("benchmark", "done", "rounds a chain", "accuracy [95 %]", "stopped"):
        table.add_column(name, justify="right")
    for strategy in progress.strategies:
        table.add_row(
            strategy.label,
            strategy.benchmark,
            f"{strategy.done:,} of {strategy.asked:,}",
            words.decimal(strategy.mean_rounds, 2),
            words.percent_with(strategy.accuracy),
            ", ".join(f"{why} {number:,}" for why, number in sorted(strategy.stops.items())),
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
