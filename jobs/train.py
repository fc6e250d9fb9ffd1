"""Train predictors of p0, a and b for one backbone, from a pool of it.

    python -m jobs.collect --config FILE --rounds 8 --samples 60   # on training questions
    python -m jobs.train --pool RUN --out predictors/mine
    python -m jobs.train --pool RUN --out predictors/mine --use tuned --pooling mean
    python -m jobs.train --pool EXPORT --config configs/laptop.yaml --out predictors/mine
    python -m jobs.train --pool data/pools/arithmetic --out weights --only agree

Reads the pool's counts; computes features of its questions with the pool's own generator (cached,
so that another training takes seconds); fits the heads in the paper's setting and in a tuned one;
writes ``predictor.json``, ``heads.safetensors`` and ``priors.json`` (a and b, pooled) to OUT, and
prints how each head does on held-out questions. Use it as ``science.priors.predictor: OUT``. Also
fits the weights of the strategy ``agree`` and writes them to ``agree.json``, for ``weights:
OUT/agree.json``; ``--only agree`` does nothing else and needs no engine. Exits with 0, or with 2
for input that does not fit.
"""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

from jobs.cli import (
    VerbParser,
    add_set_option,
    at_least,
    log_to_stderr,
    shipped_config,
)
from jobs.endings import in_one_line
from jobs.supervision import supervised
from pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.replay.pools import CompletionPool


logger = logging.getLogger(__name__)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("train", __doc__)
    options.add_argument(
        "--pool", required=True, metavar="POOL", help="run of jobs.collect, or its export"
    )
    options.add_argument(
        "--config",
        metavar="FILE",
        type=shipped_config(),
        help="of an export: run configuration with a runtime section",
    )
    options.add_argument("--out", required=True, metavar="FOLDER", help="where to write")
    options.add_argument(
        "--benchmark",
        metavar="NAME",
        action="append",
        default=[],
        help="only this one of the pool (repeatable)",
    )
    options.add_argument(
        "--answers",
        metavar="K",
        type=at_least(1),
        default=60,
        help="p0 of a training question is the share right of its first so many samples (60)",
    )
    options.add_argument(
        "--pooling",
        choices=("last", "mean"),
        default="last",
        help="what stands for a question: its prompt's last state (last) or the mean of all",
    )
    options.add_argument(
        "--use",
        choices=("best", "paper", "tuned"),
        default="best",
        help="which heads predict: of each the better on validation questions (best, the default)",
    )
    options.add_argument(
        "--seed", type=at_least(0), metavar="N", default=0, help="of split and fit (0)"
    )
    options.add_argument(
        "--only",
        choices=("agree",),
        help="agree: fit the weights of agree alone, without any engine",
    )
    options.add_argument(
        "--no-score",
        action="store_true",
        help="weights of agree that read no score (by default as held-out questions favour)",
    )
    add_set_option(options, "override one field of the runtime section")
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from jobs.pool_config import pool_config
    from pipeline.replay.pools import read_pool
    from pipeline.store.storage import Folder

    log_to_stderr(arguments.level)
    Folder(arguments.out).prepare("agree.json")
    logger.info("reading %s", arguments.pool)
    pool = read_pool(arguments.pool).of_benchmarks(arguments.benchmark)
    lines = []
    if arguments.only is None:
        config = pool_config(arguments.pool, arguments.config, arguments.overrides)
        from jobs.training import train

        lines = train(config, pool, arguments)
    logger.info("fitting the weights of agree")
    lines += _agree(pool, arguments)
    print("\n".join(lines))
    return 0


def _agree(pool: CompletionPool, arguments: argparse.Namespace) -> list[str]:
    """Fit and write the weights of agree; heads alone stand where a pool is too small for it."""
    from pipeline.predictors.agreement_training import train_agreement
    from pipeline.store.storage import Folder

    try:
        trained = train_agreement(pool, seed=arguments.seed)
    except ConfigError as error:
        if arguments.only is not None:
            raise
        return [f"no weights of agree: {error}"]
    card = trained.without if arguments.no_score else trained.recommended
    Folder(arguments.out).write_json("agree.json", card.to_json())
    scores = "with" if card.weights.reads_scores else "without"
    return [*trained.sentences(), f"weights of agree, {scores} scores: {arguments.out}/agree.json"]


if __name__ == "__main__":
    sys.exit(supervised(main))
