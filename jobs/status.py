"""Show how far a run is, from another shell.

    python -m jobs.status runs/laptop-20260101-120000
    python -m jobs.status runs/laptop-20260101-120000 --watch
    python -m jobs.status runs/laptop-20260101-120000 --json
    python -m jobs.status runs

Reads the run directory alone (outcomes, counters, questions), needs no cluster, writes
nothing. Of a folder of runs it prints a line for each. Exits with 0, or with 2 where it is no run
directory. `state` of the JSON is `starting`, `running`, `silent` (no news for two minutes),
`stopped`, `capped` or `done`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from jobs.cli import VerbParser, add_shared, log_to_stderr, number, terminal
from jobs.endings import in_one_line
from pipeline.core.errors import MarkovScaleError

if TYPE_CHECKING:
    from pipeline.report.run_data import RunData
    from pipeline.report.run_progress import RunProgress

_WIDE = 100  # columns of a terminal
_LONGEST_S = 86_400.0
_STALE_S = 120.0  # counters are written once a minute at least
_PRESSURE: dict[str, str] = {
    "clear": "no queue in the engines",
    "soft": "requests wait in the engines",
    "hard": "engines preempted requests for want of KV cache",
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("status", __doc__)
    options.add_argument("run", metavar="RUN", help="run directory, or a folder of them")
    add_shared(options, "--json")
    options.add_argument(
        "--watch",
        metavar="SECONDS",
        type=number(0, _LONGEST_S),
        nargs="?",
        const=10.0,
        help="tell again every so many seconds (10) until the run is over",
    )
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from pipeline.report.run_data import read_run
    from pipeline.report.run_progress import progress_of

    log_to_stderr(arguments.level)
    console = terminal()
    if runs := _runs_within(arguments.run):
        console.print(_index(runs, time.time()))
        return 0
    while True:
        run = read_run(arguments.run)
        progress = progress_of(run)
        now = time.time()
        state = _state(run, progress, now)
        if arguments.json:
            print(json.dumps(_facts(run, progress, state)), flush=True)
        else:
            if arguments.watch is not None:
                console.clear()  # of a terminal only
            _print(console, run, progress, state, now)
        if arguments.watch is None or state in ("done", "stopped", "capped"):
            return 0
        time.sleep(max(0.1, arguments.watch))


def _runs_within(address: str) -> list[str]:
    """Run directories of a folder that is none itself, by name; none of a run."""
    from pipeline.store.storage import Folder

    folder = Folder(address.rstrip("/"))
    if folder.has("config.json"):
        return []
    children = [folder.child(name) for name in folder.folders()]
    return [child.address for child in children if child.has("config.json")]


def _index(addresses: Sequence[str], now: float) -> Table:
    """A line per run; one that cannot be read says why."""
    from jobs.tables import text_table
    from pipeline.report.run_data import read_run
    from pipeline.report.run_progress import progress_of

    rows: list[tuple[str, ...]] = []
    for address in addresses:
        try:
            run = read_run(address)
            progress = progress_of(run)
        except MarkovScaleError as error:
            rows.append((address.rpartition("/")[2], "unreadable", "", str(error), ""))
            continue
        science = run.config.science
        rows.append(
            (
                run.run_id,
                _state(run, progress, now) + (" (synthetic)" if run.synthetic else ""),
                f"{progress.done:,} of {progress.asked:,}",
                ", ".join(source.name for source in science.benchmarks),
                science.generator.model,
            )
        )
    header = ("run", "state", "chains", "benchmarks", "generator")
    return text_table("", header, rows, left=range(5), whole=(0, 1))


def _state(run: RunData, progress: RunProgress, now: float) -> str:
    if run.capped is not None and run.not_run:
        return "capped"
    if progress.done == progress.asked:
        return "done"
    if progress.ended:
        return "stopped"
    if progress.told_at is None:
        return "starting"
    return "silent" if now - progress.told_at > _STALE_S else "running"


def _facts(run: RunData, progress: RunProgress, state: str) -> dict[str, Any]:
    """What a script reads: the fields of `RunProgress`, rates and times in seconds."""
    facts = {"run": run.run_id, "synthetic": run.synthetic, "state": state, **asdict(progress)}
    going = state == "running"
    return {**facts, "seconds_left": progress.seconds_left if going else None}


def _print(console: Console, run: RunData, progress: RunProgress, state: str, now: float) -> None:
    if run.synthetic:
        console.print("SYNTHETIC: scripted engines answer, no model does")
    for text in _lines(run, progress, state, now):
        console.print(text, soft_wrap=True)
    for table in _tables(progress, console.width):
        console.print(table)


def _lines(run: RunData, progress: RunProgress, state: str, now: float) -> list[str]:
    from pipeline.config.strategies import strategies_of
    from pipeline.planning.phase_work import phase_count
    from pipeline.planning.run_caps import standing
    from pipeline.report import words
    from pipeline.report.run_warnings import capped_words

    share = words.percent(progress.done / progress.asked if progress.asked else None, 0)
    phases = phase_count(strategies_of(run.config.science))
    phase = "" if progress.phase is None else f", phase {progress.phase + 1} of {phases}"
    over = state in ("stopped", "capped", "done")
    at_work = "" if over else f", {progress.in_flight:,} in flight, {progress.waiting:,} waiting"
    lines = [
        f"{run.run_id}: attempt {progress.attempt}{phase}, {progress.done:,} of {progress.asked:,} "
        f"chains done ({share}){at_work}",
    ]
    if progress.limits:
        lines.append(standing(progress.limits))
    if run.capped is not None and state == "capped":
        return [*lines, f"capped: {capped_words(run.capped, run.not_run)}"]
    resume = f"python -m jobs.evaluate --resume {run.run.address}"
    if over:
        if progress.told_at is not None:
            lines.append(f"{progress.rounds:,} rounds drawn")
        return [*lines, "done" if state == "done" else f"stopped; resume with {resume}"]
    if progress.told_at is None:
        return [*lines, "no counters yet: the engines are starting, or the run has not begun"]
    rates = "speed not known yet"
    if progress.rounds_per_s is not None and progress.tokens_per_s is not None:
        rates = (
            f"{progress.rounds_per_s:.1f} rounds/s, {words.count(progress.tokens_per_s)} tokens/s"
        )
    lines.append(f"{progress.rounds:,} rounds drawn, {rates}")
    if progress.cap is not None:
        engines = "" if progress.pressure is None else f": {_PRESSURE[progress.pressure]}"
        lines.append(f"at most {progress.cap:,} chains at work{engines}")
    if state == "silent":
        come = f"about {words.count(progress.rounds_to_come)} rounds still to come"
        silent = words.duration(now - progress.told_at)
        return [
            *lines,
            f"no news for {silent}, {come}: the run was killed, unless it is draining or between "
            f"phases; resume with {resume}",
        ]
    return [*lines, _left(progress)]


def _left(progress: RunProgress) -> str:
    from pipeline.report import words

    come = f"about {words.count(progress.rounds_to_come)} rounds still to come"
    if progress.seconds_left is None:
        return f"time left not known: {come}"
    return (
        f"about {words.duration(progress.seconds_left)} left at this speed: {come} by the chains' "
        f"own forecast"
    )


def _tables(progress: RunProgress, width: int) -> Iterator[Table]:
    """One a benchmark; names and accuracies are whole, mean rounds stand where there is room."""
    from jobs.tables import text_table
    from pipeline.report import words

    so_far = "" if progress.done == progress.asked else ", so far (short chains end first)"
    wide = width >= _WIDE
    for benchmark in dict.fromkeys(strategy.benchmark for strategy in progress.strategies):
        rows = [
            (
                strategy.label,
                f"{strategy.done:,} of {strategy.asked:,}",
                words.percent_with(strategy.accuracy),
                strategy.rule,
                ", ".join(f"{why} {number:,}" for why, number in sorted(strategy.stops.items())),
                *([words.decimal(strategy.mean_rounds, 2)] if wide else []),
            )
            for strategy in progress.strategies
            if strategy.benchmark == benchmark
        ]
        header = ("strategy", "done", "accuracy\n[95 %]", "answer by", "stopped",
                  *(["rounds\na chain"] if wide else []))  # fmt: skip
        yield text_table(f"{benchmark}{so_far}", header, rows, left=(0, 3, 4), whole=range(4))


if __name__ == "__main__":
    sys.exit(main())
