"""Run strategies side by side on benchmarks, live, and print the results.

    python -m jobs.evaluate --config configs/laptop.yaml
    python -m jobs.evaluate --config configs/laptop.yaml --set science.strategy.tau=0.9
    python -m jobs.evaluate --config FILE --strategy auto --pilot runs/pilot
    python -m jobs.evaluate --resume runs/laptop-20260101-120000
    ray job submit --address URL --working-dir . -- python -m jobs.evaluate --config FILE

Reads the benchmarks that the configuration names; writes a run directory
(`pipeline.records.run_dir`) below ``runtime.runs`` and prints a table. Exits with 0, with 2 for a
configuration or data error, with 1 where the run failed, with 3 where a cap of ``runtime.limits``
ended it, with 75 where it was stopped; capped and stopped ones can be resumed.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jobs.cli import VerbParser, add_run_options, log_to_stderr
from jobs.endings import ended_by, in_one_line
from jobs.supervision import explained, resumable, supervised
from pipeline.core.errors import ConfigError, MarkovScaleError

if TYPE_CHECKING:
    from jobs.trackers import Tracker
    from pipeline.config.run import RunConfig
    from pipeline.records.run_dir import RunDir

logger = logging.getLogger("jobs.evaluate")

EXIT_CAPPED = 3


def parser() -> argparse.ArgumentParser:
    """The command line."""

    options = VerbParser("evaluate", __doc__)
    add_run_options(options)
    options.add_argument(
        "--tracker",
        choices=("wandb", "mlflow"),
        help="also send configuration, progress and accuracies to an experiment tracker",
    )
    options.add_argument(
        "--strategy",
        choices=("auto",),
        help="auto: the strategy that the pilot of --pilot recommends (docs/strategies.md), in "
        "place of those of the configuration",
    )
    options.add_argument("--pilot", metavar="RUN", help="run or exported pool of --strategy auto")
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from jobs.run_options import opened_run
    from jobs.trackers import tracker_of

    log_to_stderr(arguments.level)
    tracker = tracker_of(arguments.tracker)
    run, config, attempt = opened_run(arguments, advised(arguments))
    return execute(run, config, attempt, tracker)


def advised(arguments: argparse.Namespace) -> Callable[[dict[str, Any]], None] | None:
    """What puts the strategy of ``--strategy auto`` into a configuration; None without it.

    Raises:
        ConfigError: for one of the options without the other, or a pilot that cannot be read.
    """
    if (arguments.strategy is None) != (arguments.pilot is None):
        raise ConfigError("--strategy auto must come with --pilot RUN: a run or an exported pool")
    if arguments.strategy is None:
        return None
    from jobs.forecast import read_pilot
    from pipeline.report.suitability_view import suitability_of
    from pipeline.theory.suitability import advice

    found = advice(suitability_of(read_pilot(arguments.pilot).cells))
    logger.info("%s", found.sentence)

    def shape(values: dict[str, Any]) -> None:
        science = values.setdefault("science", {})
        science["strategies"] = [{"kind": found.kind, "label": "auto", **found.settings}]

    return shape


def execute(run: RunDir, config: RunConfig, attempt: int, tracker: Tracker | None = None) -> int:
    """Take an attempt of a run to its end and print what came out; returns the exit status."""
    from jobs.cluster import start_ray
    from jobs.priors import fill_priors
    from jobs.progress import Progress
    from jobs.results import write_summary
    from jobs.tables import print_summary
    from jobs.trackers import Tracking
    from pipeline.config.strategies import own_modules, strategies_of
    from pipeline.planning.phase_work import phase_count

    resumable(run.address)
    phases = phase_count(strategies_of(config.science))
    progress, status, capped = Progress(run.address, phases), 0, None
    tracking = Tracking(tracker, run, config)

    def tell(row: dict[str, Any]) -> None:
        progress(row)
        tracking(row)

    try:
        start_ray(config.runtime, own_modules(config.science))  # before Ray is imported
        from actors.driver.driver import Attempt
        from actors.driver.signals import Signals

        with Signals(f"resume with --resume {run.address}").installed():
            fill_priors(run, config)
        Attempt(run, config, attempt, tell).execute()
    except Exception as error:
        status, capped = ended_by(error, run.address), getattr(error, "cap", None)
    finally:
        progress.close()
    if status not in (0, EXIT_CAPPED):
        explained(status)
    try:
        summary = write_summary(run, capped)
    except (MarkovScaleError, OSError) as error:
        print(f"failed: {run.address} must take summary.json: {error}", file=sys.stderr)
        return status or 1
    tracking.close(summary, status)
    if status in (0, EXIT_CAPPED):
        print_summary(summary, run.address, verbose=logger.isEnabledFor(logging.DEBUG))
    return status


if __name__ == "__main__":
    sys.exit(supervised(main))
