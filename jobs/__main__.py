"""The console script: ``markovscale VERB ...`` is ``python -m jobs.VERB ...``."""

from __future__ import annotations

import importlib
import sys
from functools import partial

from jobs.supervision import supervised

VERBS = {
    "evaluate": "run strategies side by side on benchmarks, live",
    "collect": "record deep pools of completions, once",
    "train": "train the predictors of p0, a, b and tokens",
    "features": "cache a run's backbone features, to use a predictor offline",
    "calibrate": "fit what a verifier's scores are worth as chances of being right",
    "sweep": "replay grids of settings over a pool, offline",
    "paper": "every table and figure of the paper from recorded pools, offline",
    "miniature": "the paper's experiments in miniature on the embedded models",
    "replay": "take a run's decisions again from its journal, or another strategy's",
    "suite": "run several configurations as one submission",
    "report": "write one HTML page for a run or several",
    "export": "write a run as logs, data sets or tables that others read",
    "compare": "test strategies or runs against each other; rank backbones",
    "forecast": "what a whole run will reach and cost, from a pilot of it",
    "serve": "answer questions as an OpenAI-compatible endpoint",
    "status": "tell from another shell how far a run is",
    "regrade": "grade stored completions again, by another grader",
    "train_tiny": "make the embedded models from nothing",
}
"""Every job and what it does, in the order in which a newcomer meets them."""

DRIVERS = ("evaluate", "collect")
"""Jobs of a Ray driver, which `jobs.supervision` watches."""


def main(argv: list[str] | None = None) -> int:
    """Hand the rest of the command line to a verb; returns its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments and arguments[0] in VERBS:
        job = importlib.import_module(f"jobs.{arguments[0]}")
        run = partial(job.main, arguments[1:])
        return int((supervised(run) if arguments[0] in DRIVERS else run()) or 0)
    asked = not arguments or arguments[0] in ("-h", "--help", "help")
    stream = sys.stdout if asked else sys.stderr
    if not asked:
        print(f"error: a verb must be one of those below, got {arguments[0]!r}", file=stream)
    print("usage: markovscale VERB ...    (markovscale VERB --help tells more)\n", file=stream)
    for verb, purpose in VERBS.items():
        print(f"  {verb:<11} {purpose}", file=stream)
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(main())
