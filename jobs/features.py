"""Compute and cache the features of a run's questions, to use a predictor offline.

    python -m jobs.features --run RUN --pooling last
    python -m jobs.features --run EXPORT --config configs/laptop.yaml

Needs the backbone (and its GPUs) once; ``jobs.sweep`` with ``priors.predictor`` then needs neither.
``jobs.train`` and ``jobs.evaluate`` compute missing features themselves.
"""

from __future__ import annotations

import argparse
import sys

from jobs.cli import VerbParser, log_to_stderr, shipped_config
from jobs.endings import in_one_line
from jobs.supervision import supervised


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("features", __doc__)
    options.add_argument("--run", required=True, metavar="RUN", help="run or exported pool")
    options.add_argument(
        "--config",
        metavar="FILE",
        type=shipped_config(),
        help="of an export: run configuration with a runtime section",
    )
    options.add_argument(
        "--pooling",
        choices=("last", "mean"),
        default="last",
        help="what stands for a question: its prompt's last state (last) or the mean of all",
    )
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from jobs.pool_config import pool_config
    from pipeline.records.questions import read_questions
    from pipeline.records.run_dir import rows_of
    from pipeline.store.storage import Folder

    log_to_stderr(arguments.level)
    config = pool_config(arguments.run, arguments.config, [])
    rows = rows_of(read_questions(Folder(arguments.run)))
    from actors.training.backbone_features import backbone_of, features_of
    from jobs.cluster import start_ray

    backbone = backbone_of(config.science.generator)
    start_ray(config.runtime)
    features = features_of(config, backbone, rows, arguments.pooling)
    print(f"features of {len(features):,} questions are cached for {backbone.name}")
    return 0


if __name__ == "__main__":
    sys.exit(supervised(main))
