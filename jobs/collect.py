"""Record a pool of completions once, to replay any strategy over it offline.

    python -m jobs.collect --config configs/laptop.yaml --rounds 64 --samples 64
    python -m jobs.collect --resume runs/laptop-20260101-120000 --rounds 128
    python -m jobs.collect --resume RUN --config FILE       # with another benchmark in FILE
    python -m jobs.collect --config FILE --from POOL        # continue an export or import
    python -m jobs.collect --export RUN FOLDER              # one graded Parquet file, no engines

Takes the configuration of any run: its benchmarks, prompts, decoding and models. For every question
it generates a chain of R rounds (``sequential``; several with ``--chains``) and K independent
samples (``parallel``), scored by the verifier; all go through the same engines at the same time.
Writes a run directory whose journal is the pool. A resume with more rounds, chains, samples or
benchmarks generates only what is missing. The last lines recommend a strategy. Exits as
``jobs.evaluate`` does.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from jobs.cli import VerbParser, add_run_options, log_to_stderr
from jobs.endings import in_one_line
from jobs.supervision import supervised
from pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.replay.pools import CompletionPool


def parser() -> argparse.ArgumentParser:
    """The command line."""

    options = VerbParser("collect", __doc__)
    add_run_options(options)
    options.add_argument(
        "--rounds", type=int, metavar="R", help="completions a chain (64; on a resume, as before)"
    )
    options.add_argument(
        "--samples", type=int, metavar="K", help="samples a question (64; on a resume, as before)"
    )
    options.add_argument(
        "--chains",
        type=int,
        metavar="C",
        help="independent chains a question (1; on a resume, as before)",
    )
    options.add_argument(
        "--from",
        dest="pool",
        metavar="POOL",
        help="continue a pool: use its prompts and sampling, generate only what it lacks",
    )
    options.add_argument(
        "--export",
        nargs=2,
        metavar=("RUN", "FOLDER"),
        help="write the pool of a finished run as Parquet files with a card, and stop",
    )
    options.add_argument(
        "--no-texts", action="store_true", help="leave the replies' texts out of the export"
    )
    options.add_argument("--licence", default="", help="for the card of the export")
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from jobs.evaluate import execute
    from jobs.run_options import opened_run
    from pipeline.imports.own_pools import carry_over, pool_to_go_on_from
    from pipeline.records.run_dir import RunDir
    from pipeline.replay.pool_export import export_pool

    log_to_stderr(arguments.level)
    if arguments.export:
        source, target = arguments.export
        rows = export_pool(
            RunDir.open(source),
            target,
            texts=not arguments.no_texts,
            licence=arguments.licence,
        )
        print(f"{rows:,} completions of {source} written to {target}")
        return 0
    if arguments.pool and arguments.resume:
        raise ConfigError("--from must come with a new run, got --resume: it has a pool already")
    pool = pool_to_go_on_from(arguments.pool) if arguments.pool else None
    run, config, attempt = opened_run(arguments, partial(_shape, arguments, pool))
    if pool is not None:
        print(f"{carry_over(pool, run, config):,} completions taken over from {pool.address}")
        attempt = run.resume(config)
    status = execute(run, config, attempt)
    if status == 0:
        print_suitability(run.address)
    return status


def _shape(
    arguments: argparse.Namespace, pool: CompletionPool | None, values: dict[str, Any]
) -> None:
    from pipeline.config.collection import make_collection
    from pipeline.imports.own_pools import ask_alike

    make_collection(values, arguments.rounds, arguments.samples, arguments.chains)
    if pool is not None:
        ask_alike(values, pool)


def print_suitability(address: str) -> None:
    """What the chains of each benchmark say of the choice of a strategy, a sentence each."""
    from pipeline.report.run_data import benchmarks_of, read_run
    from pipeline.report.suitability_view import suitability_of
    from pipeline.theory.suitability import LEAST_QUESTIONS

    for benchmark, cells in benchmarks_of(read_run(address).cells).items():
        found = suitability_of(cells)
        sentences = () if found is None else found.sentences()
        for sentence in sentences or (
            f"Chains of {LEAST_QUESTIONS} questions or more, some right and some wrong, would tell "
            f"which strategy suits.",
        ):
            print(f"{benchmark}: {sentence}")


if __name__ == "__main__":
    sys.exit(supervised(main))
