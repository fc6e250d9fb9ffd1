"""Show the progress of a run, from another shell.

    python -m jobs.status runs/laptop-20260101-120000
    python -m jobs.status runs/laptop-20260101-120000 --json
    python -m jobs.status runs

Reads the run directory alone (outcomes, counters, questions), needs no cluster, writes nothing. For
a folder of runs it prints a line for each run. Exits with 0, or with 2 where it is no run
directory. `state` of the JSON is `starting`, `running`, `silent` (no news for two minutes),
`stopped`, `capped` or `done`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from jobs.cli import VerbParser, add_shared, log_to_stderr, terminal
from jobs.endings import in_one_line
from pipeline.core.errors import MarkovScaleError

if TYPE_CHECKING:
    from pipeline.report.run_data import RunData
    from pipeline.report.run_progress import RunProgress

_STALE_S = 120.0  # counters are written once a minute at least


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("status", __doc__)
    options.add_argument("run", metavar="RUN", help="run directory, or a folder of them")
    add_shared(options, "--json")
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
    run = read_run(arguments.run)
    progress, now = progress_of(run), time.time()
    state = _state(run, progress, now)
    if arguments.json:
        print(json.dumps(_facts(run, progress, state)))
    else:
        _print(console, run, progress, state, now)
    return 0


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
                f"{progress.done:,} of {progress.chains:,}",
                ", ".join(source.name for source in science.benchmarks),
                science.generator.model,
            )
        )
    header = ("run", "state", "chains", "benchmarks", "generator")
    return text_table("", header, rows, left=range(5), whole=(0, 1))


def _state(run: RunData, progress: RunProgress, now: float) -> str:
    if run.capped is not None and run.not_run:
        return "capped"
    if progress.done == progress.chains:
        return "done"
    if progress.ended:
        return "stopped"
    if progress.updated_at is None:
        return "starting"
    return "silent" if now - progress.updated_at > _STALE_S else "running"


def _facts(run: RunData, progress: RunProgress, state: str) -> dict[str, Any]:
    """What a script reads: the fields of `RunProgress`, rates and times in seconds, and
    ``strategies`` as in summary.json."""
    from pipeline.report.summary import summarise

    facts = {"run": run.run_id, "synthetic": run.synthetic, "state": state, **asdict(progress)}
    going = state in ("running", "done")
    strategies = summarise(run.cells)
    return {**facts, **({} if going else {"seconds_left": None}), "strategies": strategies}


def _print(console: Console, run: RunData, progress: RunProgress, state: str, now: float) -> None:
    from jobs.tables import print_strategies
    from pipeline.report.summary import summarise

    for text in _lines(run, progress, state, now):
        console.print(text, soft_wrap=True)
    if run.cells:
        print_strategies(summarise(run.cells), synthetic=run.synthetic)
    if progress.done < progress.chains:
        console.print("accuracies are of the chains done so far; short chains end first")


def _lines(run: RunData, progress: RunProgress, state: str, now: float) -> list[str]:
    from pipeline.config.strategies import strategies_of
    from pipeline.planning.phase_work import phase_count
    from pipeline.planning.run_caps import standing
    from pipeline.report import words
    from pipeline.report.run_warnings import capped_words

    share = words.percent(progress.done / progress.chains if progress.chains else None, 0)
    phases = phase_count(strategies_of(run.config.science))
    phase = "" if progress.phase is None else f", phase {progress.phase + 1} of {phases}"
    over = state in ("stopped", "capped", "done")
    at_work = "" if over else f", {progress.in_flight:,} in flight, {progress.waiting:,} waiting"
    lines = [
        f"{run.run_id}: attempt {progress.attempt}{phase}, {progress.done:,} of "
        f"{progress.chains:,} chains done ({share}){at_work}",
    ]
    if progress.limits:
        lines.append(standing(progress.limits))
    if run.capped is not None and state == "capped":
        return [*lines, f"capped: {capped_words(run.capped, run.not_run)}"]
    resume = f"python -m jobs.evaluate --resume {run.run.address}"
    if over:
        if progress.updated_at is not None:
            lines.append(f"{progress.rounds:,} rounds generated")
        return [*lines, "done" if state == "done" else f"stopped; resume with {resume}"]
    if progress.updated_at is None:
        return [*lines, "no counters yet: the engines are starting, or the run has not begun"]
    speed = progress.tokens_per_s
    rate = "speed not known yet" if speed is None else f"{words.count(speed)} tokens/s"
    lines.append(f"{progress.rounds:,} rounds generated, {rate}")
    if state == "silent":
        silent = words.duration(now - progress.updated_at)
        return [
            *lines,
            f"no news for {silent}: the run was killed, unless it is draining or between phases; "
            f"resume with {resume}",
        ]
    left = progress.seconds_left
    known = "not known yet" if left is None else f"at most about {words.duration(left)}"
    return [*lines, f"time left of this phase: {known}"]


if __name__ == "__main__":
    sys.exit(main())
