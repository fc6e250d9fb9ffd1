"""Try strategies and settings over a pool, without any model.

    python -m jobs.sweep --pool RUN --config configs/sweeps/small.yaml

Reads a pool (a run of ``jobs.collect``, or its export) and the grids of a YAML file
(`pipeline.config.sweep`); writes a Parquet table (`pipeline.replay.sweep`) and prints the chosen
settings and those without a choice. ``chosen_on`` says on which questions a setting was chosen. A
second table has the fronts (`pipeline.replay.fronts`): the accuracy of each strategy at every
budget, compared with three controls. Exits with 0, or with 2 for input that does not fit.
"""

from __future__ import annotations

import argparse
import logging
import posixpath
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jobs.cli import VerbParser, add_set_option, add_shared, log_to_stderr, shipped_config
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.answers.answer_rules import Rule
    from pipeline.config.sweep import SweepConfig
    from pipeline.core.protocol import Strategy
    from pipeline.replay.pools import CompletionPool
    from pipeline.replay.sweep import SweepResult

logger = logging.getLogger(__name__)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("sweep", __doc__)
    options.add_argument("--pool", required=True, metavar="RUN", help="run or exported pool")
    options.add_argument(
        "--config",
        required=True,
        type=shipped_config("sweeps"),
        metavar="FILE",
        help="YAML file of grids",
    )
    add_shared(options, "--features")
    add_set_option(options, "override one field, such as priors.predictor=FOLDER")
    add_shared(
        options,
        "--prices",
        help="US$ a million tokens: prints what 1,000 questions cost under each setting",
    )
    options.add_argument("--out", metavar="FILE", help="Parquet file to write (RUN/sweep.parquet)")
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    import pyarrow as pa

    from jobs.pool_config import predicted_pool
    from jobs.tables import print_costs, print_fronts, print_sweep
    from pipeline.config.strategies import rules_of
    from pipeline.config.sweep import SweepConfig, science_of
    from pipeline.replay.costs import Cost
    from pipeline.replay.fronts import SCHEMA, sweep_fronts
    from pipeline.replay.pools import read_pool
    from pipeline.replay.sweep import fitting, sweep_table
    from pipeline.report.fronts_view import fronts_name
    from pipeline.store.storage import Folder

    log_to_stderr(arguments.level)
    config = SweepConfig.load(arguments.config, arguments.overrides)
    out = arguments.out or f"{arguments.pool.rstrip('/')}/sweep.parquet"
    folder, name = Folder(posixpath.dirname(out) or "."), posixpath.basename(out)
    folder.prepare(name)
    pool = read_pool(arguments.pool).of_benchmarks(config.benchmarks).comparable()
    pool = predicted_pool(pool, config.priors, arguments.features)
    possible, unscored = _asked(config, pool)
    settings, notes = fitting(pool, possible)
    if unscored:
        notes.append(f"left out, as the pool has no scores: {', '.join(unscored)}")
    if pool.imported is not None:
        notes = [f"{pool.imported.sentence}; columns of tokens hold {pool.counted}", *notes]
    if pool.chains > 1:
        notes.append(
            f"values of chains are means over {pool.chains} chains of each question; intervals are "
            "over questions"
        )
    for note in notes:
        print(note)
    rules = rules_of(science_of(config, pool.science))
    _check_held_out(settings, pool)
    result = _swept(pool, settings, config.seed, rules)
    fronts = sweep_fronts(result)
    own = replace(result, settings=result.settings[: len(settings)])
    table = sweep_table(own, config.choose)
    folder.write_table(name, table)
    folder.write_table(fronts_name(name), pa.Table.from_pylist(fronts, schema=SCHEMA))
    if arguments.level < logging.WARNING:  # -q: the last line alone
        print_sweep(table, config.choose, synthetic=pool.synthetic)
        print_fronts(fronts)
        if arguments.prices:
            print_costs(own, Cost(axis="usd", prices=tuple(arguments.prices)))
    print(
        f"{len(settings):,} settings over {len(pool.questions):,} questions: {out}, fronts "
        f"({len(result.settings) - len(settings):,} more settings, of the controls): "
        f"{fronts_name(out)}"
    )
    return 0


def _asked(
    config: SweepConfig, pool: CompletionPool
) -> tuple[list[tuple[str, Strategy]], list[str]]:
    """The settings, and the labels of those left out: a run refuses what needs scores that it does
    not have, an export or import goes without."""
    from pipeline.config.sweep import grid, possible_grid
    from pipeline.replay.pools import is_export

    if is_export(pool.address):
        return possible_grid(config, pool.science)
    return grid(config, pool.science), []


def _check_held_out(settings: Sequence[tuple[str, Strategy]], pool: CompletionPool) -> None:
    """Refuse what was fitted on questions that it is judged by; warn of other models or prompts.

    Questions are compared by their texts; what earlier versions fitted holds no texts' digests, and
    is known by the name of its pool alone.
    """
    from pipeline.replay.pools import names_of

    names, here = names_of(pool.address), pool.science.origin()
    texts = [question.question.text for question in pool.questions]
    warned = set[str]()
    for label, strategy in settings:
        for name in ("calibration", "weights"):
            fitted = getattr(strategy, name, None)
            origin = getattr(fitted, "origin", None)
            if origin is None or not origin.questions:
                fitted_on = getattr(fitted, "fitted_on", "")
                found = f"on {fitted_on}, the pool that is swept" if fitted_on in names else ""
            else:
                shared = origin.shared(texts)
                found = f"on {shared:,} of the {len(texts):,} that are swept" if shared else ""
            if found:
                raise ConfigError(
                    f"{name} of {label} must be fitted on other questions, got one fitted {found}"
                )
            for differing in [] if origin is None else origin.differing(here):
                if (
                    warning := f"{name} of {label} was fitted with another {differing}"
                ) not in warned:
                    warned.add(warning)
                    logger.warning("%s", warning)


def _swept(
    pool: CompletionPool, settings: Sequence[tuple[str, Strategy]], seed: int, rules: Sequence[Rule]
) -> SweepResult:
    """The settings and those of the controls over the pool."""
    from pipeline.replay.fronts import control_settings
    from pipeline.replay.sweep import sweep

    started = time.perf_counter()
    settings = [*settings, *(one for one in control_settings(pool) if one not in settings)]
    result = sweep(pool, settings, seed=seed, rules=rules)
    seconds = time.perf_counter() - started
    logger.info("%d settings over %s in %.1f s", len(settings), pool.address, seconds)
    return result


if __name__ == "__main__":
    sys.exit(main())
