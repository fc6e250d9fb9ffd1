"""Take a run's decisions again from its journal, without any engine.

    python -m jobs.replay RUN                       # record for record: does the run agree
    python -m jobs.replay RUN --strategy FILE       # another strategy over what the run drew

The first replays every strategy of a finished run and compares with the outcomes that it wrote:
exit status 0 where all agree, 1 where not, with the first difference. The second takes a file of
strategies as ``jobs.sweep`` does and prints the table of ``jobs.evaluate`` for them; values of
several chains a question are means over them, with intervals over questions. Exits with 2 for input
that does not fit.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from typing import TYPE_CHECKING

from jobs.cli import VerbParser, add_set_option, add_shared, log_to_stderr
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError, ReplayMissError

if TYPE_CHECKING:
    from pipeline.config.sweep import SweepConfig
    from pipeline.core.protocol import Strategy
    from pipeline.records.run_dir import RunDir


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("replay", __doc__)
    add_shared(options, "run")
    options.add_argument("--strategy", metavar="FILE", help="YAML file of strategies (jobs.sweep)")
    add_set_option(options, "override one field of that file")
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from pipeline.config.sweep import SweepConfig
    from pipeline.records.run_dir import RunDir

    log_to_stderr(arguments.level)
    run = RunDir.open(arguments.run)
    if arguments.strategy is None:
        return _again(run)
    return _another(run, SweepConfig.load(arguments.strategy, arguments.overrides))


def _again(run: RunDir) -> int:
    from pipeline.replay.run import replay_run

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


def _another(run: RunDir, config: SweepConfig) -> int:
    from itertools import chain

    from jobs.tables import print_strategies
    from pipeline.config.strategies import rules_of
    from pipeline.config.sweep import grid, science_of
    from pipeline.records.questions import read_questions
    from pipeline.records.table_rows import RowViews, TableRows
    from pipeline.replay.run import replay_other
    from pipeline.report.run_data import cells_of
    from pipeline.report.summary import summarise

    science = run.config().science
    if config.priors.file is not None or config.priors.predictor is not None:
        raise ConfigError("priors of --strategy must be a and b, else those of the run are used")
    swept = science_of(config, science)
    strategies, rules = _named(grid(config, science)), rules_of(swept)
    try:
        found = replay_other(run, strategies, config.priors, rules)
    except ReplayMissError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    questions = {
        (q["benchmark"], q["question_id"]): q for q in RowViews(read_questions(run.folder))
    }
    outcomes = [rival.outcomes for rival in found.values()]
    rows = chain.from_iterable(map(TableRows, outcomes))
    cells = cells_of(run.run_id, swept, strategies, rows, outcomes[0].schema, questions)
    print_strategies(summarise(cells), synthetic=run.config().runtime.scripted is not None)
    for label, rival in found.items():
        print(f"{label}: over the completions of {rival.source}")
    return 0


def _named(settings: list[tuple[str, Strategy]]) -> dict[str, Strategy]:
    """Labels of their own: those of a grid tell the fields that vary."""
    named: dict[str, Strategy] = {}
    for label, strategy in settings:
        alike = [other for name, other in settings if name == label]
        varied = [
            field.name
            for field in fields(strategy)
            if len({getattr(other, field.name) for other in alike}) > 1
        ]
        told = ", ".join(f"{name} {getattr(strategy, name)}" for name in varied)
        named[f"{label} ({told})" if told else label] = strategy
    return named


if __name__ == "__main__":
    sys.exit(main())
