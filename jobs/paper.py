"""The paper's whole evaluation of recorded pools: every table and figure, without any model.

    python -m jobs.paper --pool data/pools/arithmetic --out build/paper
    python -m jobs.paper --pool POOL --pool POOL --run RUN --paper FOLDER --out DIR

A pool is a run of ``jobs.collect`` or its export; several are several backbones or benchmarks.
``--run`` gives what a pool cannot replay (budget forcing, Atom of Thoughts). Writes to DIR a CSV a
table and figure, ``comparisons.csv``, ``tables.tex`` (booktabs) and ``paper.html``. Without
``--predictor``, a and b are counted on the other half of the questions and p0 is the first score.
Needs no engine and no Ray. Exits with 0, or with 2 for input that does not fit.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from typing import TYPE_CHECKING

from jobs.cli import VerbParser, add_shared, log_to_stderr
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.paper.evaluation import Evaluation
    from pipeline.replay.costs import Cost
    from pipeline.replay.pools import CompletionPool

logger = logging.getLogger(__name__)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("paper", __doc__)
    options.add_argument(
        "--pool", action="append", required=True, metavar="POOL", help="run or export (repeatable)"
    )
    options.add_argument(
        "--run", action="append", default=[], metavar="RUN", help="run directory (repeatable)"
    )
    options.add_argument("--out", required=True, metavar="DIR", help="where to write")
    options.add_argument("--paper", metavar="FOLDER", help="folder of the paper's numbers as CSV")
    options.add_argument(
        "--predictor", metavar="FOLDER", help="of p0, a and b (jobs.train), for all pools"
    )
    options.add_argument(
        "--cost",
        choices=("tokens", "all_tokens", "flops", "seconds", "usd"),
        default="tokens",
        help="what tables and fronts count: completion tokens; those with prompts and the "
        "verifier; FLOPs; seconds of the critical path; US$ (tokens)",
    )
    options.add_argument(
        "--parameters",
        nargs=2,
        type=float,
        metavar=("GENERATOR", "VERIFIER"),
        help="numbers of parameters, for --cost flops",
    )
    add_shared(options, "--prices", help="US$ a million tokens, for --cost usd")
    add_shared(options, "--features")
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from pipeline.paper.evaluation import add_runs
    from pipeline.paper.page import build
    from pipeline.replay.costs import Cost
    from pipeline.report.published import NONE_PUBLISHED, read_published
    from pipeline.report.run_data import read_run
    from pipeline.store.storage import Folder

    log_to_stderr(arguments.level)
    started = time.perf_counter()
    paper = NONE_PUBLISHED if arguments.paper is None else read_published(arguments.paper)
    folder = Folder(arguments.out)
    folder.prepare("paper.html")
    cost = Cost(
        axis=arguments.cost,
        parameters=arguments.parameters and tuple(arguments.parameters),
        prices=arguments.prices and tuple(arguments.prices),
    )
    made = _evaluations(arguments, cost)
    add_runs(made, [read_run(run) for run in arguments.run])
    logger.info("writing tables, charts and the page")
    for name, content in build(made, paper=paper):
        folder.write(name, content.encode())
    questions = sum(len(evaluation.pool.questions) for evaluation in made)
    seconds = time.perf_counter() - started
    print(f"{questions:,} questions, {seconds:.0f} s: {arguments.out.rstrip('/')}/paper.html")
    return 0


def _evaluations(arguments: argparse.Namespace, cost: Cost) -> list[Evaluation]:
    """One a pool and benchmark.

    Raises:
        ConfigError: where two pools hold the same benchmark of the same backbone.
    """
    from jobs.pool_config import predicted_pool
    from jobs.progress import steps
    from pipeline.config.science import PriorsConfig
    from pipeline.paper.beliefs import from_other_half, predicted
    from pipeline.paper.evaluation import evaluate
    from pipeline.paper.replays import Maker
    from pipeline.replay.pools import read_pool

    parts: dict[tuple[str, str], CompletionPool] = {}
    for address in steps(arguments.pool, str, "reading"):
        pool = read_pool(address).comparable()
        if pool.imported is not None:
            print(f"{address}: {pool.imported.sentence}")
        backbone = pool.science.generator.model
        if arguments.predictor is not None:
            priors = PriorsConfig(predictor=arguments.predictor)
            pool = predicted_pool(pool, priors, arguments.features)
        for benchmark in pool.benchmarks:
            if (backbone, benchmark) in parts:
                raise ConfigError(
                    f"pools must differ in backbone or benchmark, {benchmark} of {backbone} is in "
                    f"{parts[backbone, benchmark].address} and in {address}: chains and "
                    "samples of other seeds become one pool by markovscale import --format pool"
                )
            parts[backbone, benchmark] = pool.of_benchmarks((benchmark,))
    found = []
    for (backbone, _), part in steps(parts.items(), lambda item: item[0][1], "replaying"):
        if arguments.predictor is None:
            believed = from_other_half(part)
        else:
            believed = predicted(part, f"predicted by {arguments.predictor}")
        make = Maker(part.science, believed.p0_source)
        found.append(evaluate(believed, backbone, make, cost))
    return found


if __name__ == "__main__":
    sys.exit(main())
