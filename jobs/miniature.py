"""The whole paper in miniature: collect, train, evaluate and sweep, on the embedded tiny models.

    python -m jobs.miniature                # in runs/miniature, under 20 minutes on 2 cores
    python -m jobs.miniature --quick        # a fifth of the questions, to see it run

The steps are the jobs that a cluster runs, one after the other in one Ray session:

1. ``jobs.collect`` on training questions: chains of 8 rounds, 60 samples (the paper's number).
2. ``jobs.collect`` on test questions: chains of 32 rounds, 16 samples.
3. ``jobs.train``: predictors on features of the frozen generator, from 1.
4. ``jobs.evaluate``: MarkovScale^t, ^*, ^0 and MR-Thinking live at N = 8, with the predictor of 3.
5. ``jobs.sweep``: the same and more at N = 8, 16 and 32 over the pool of 2, which decides as live
   runs over these completions would; tau and gamma; gate x stopping x answer rule.
6. ``jobs.paper``: the paper's tables and figures over the pool of 2, with the predictor of 3.

A step that was finished is not done again. Prints the tables; everything is in the folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jobs import collect, evaluate, paper, sweep, train
from jobs.logs import log_to_stderr
from jobs.miniature_tables import print_tables
from jobs.supervision import supervised
from jobs.verb_parser import verb_parser, verbosity

CONFIG = "configs/miniature.yaml"
GRIDS = "configs/sweeps/miniature.yaml"

Step = tuple[str, Callable[[list[str]], int], list[str]]


def steps(out: str, *, quick: bool) -> list[Step]:
    """Name, job and command line of each step."""
    training, test = (40, 32) if quick else (200, 160)
    run = ["--config", CONFIG, "--set", f"runtime.runs={out}", "--resume-if-exists"]
    size = "science.benchmarks.0.size"
    predictor = f"{out}/predictor"
    training_questions = [
        "--set",
        f"{size}={training}",
        "--set",
        "science.benchmarks.0.split=train",
    ]
    test_questions = ["--set", f"{size}={test}"]
    return [
        (
            "collect training questions",
            collect.main,
            [*run, *training_questions, "--name", "training", "--rounds", "8", "--samples", "60"],
        ),
        (
            "collect test questions",
            collect.main,
            [*run, *test_questions, "--name", "test", "--rounds", "32", "--samples", "16"],
        ),
        ("train", train.main, ["--pool", f"{out}/training", "--out", predictor, "--use", "tuned"]),
        (
            "evaluate",
            evaluate.main,
            [
                *run,
                *test_questions,
                "--name",
                "live",
                "--set",
                f"science.priors={{predictor: {predictor}}}",
            ],
        ),
        (
            "sweep",
            sweep.main,
            [
                "--pool",
                f"{out}/test",
                "--config",
                GRIDS,
                "--set",
                f"priors.predictor={predictor}",
                "--out",
                f"{out}/sweep.parquet",
                "--quiet",
            ],
        ),
        (
            "paper",
            paper.main,
            ["--pool", f"{out}/test", "--predictor", predictor, "--out", f"{out}/paper"],
        ),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the steps; returns the exit status of the first that failed, else 0."""
    options = verb_parser("miniature", __doc__)
    options.add_argument(
        "--out", default="runs/miniature", metavar="FOLDER", help="where to write (runs/miniature)"
    )
    options.add_argument("--quick", action="store_true", help="fewer questions")
    arguments = options.parse_args(argv)
    log_to_stderr(arguments.level)
    out = str(Path(arguments.out).resolve())
    began = time.monotonic()
    spent: dict[str, float] = {}
    for name, job, command in steps(out, quick=arguments.quick):
        started = time.monotonic()
        status = job([*command, *verbosity(arguments.level)])
        spent[name] = time.monotonic() - started
        if status != 0:
            print(f"the step '{name}' ended with status {status}", file=sys.stderr)
            return status
    print_tables(out)
    times = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in spent.items())
    print(f"{time.monotonic() - began:.0f} s in all: {times}")
    return 0


if __name__ == "__main__":
    sys.exit(supervised(main))
