"""The console script: ``markovscale VERB ...`` is ``python -m jobs.VERB ...``."""

from __future__ import annotations

import importlib
import os
import sys
from difflib import get_close_matches
from functools import partial

from jobs.endings import go_on_unheard, in_one_line
from jobs.supervision import supervised
from jobs.version import version

GROUPS = {
    "run models": {
        "evaluate": "run strategies side by side on benchmarks, live",
        "collect": "record deep pools of completions, once",
        "suite": "run several configurations as one submission",
        "serve": "answer questions as an OpenAI-compatible endpoint",
        "status": "tell from another shell how far a run is",
    },
    "look at runs": {
        "report": "write one HTML page for a run or several",
        "compare": "test strategies or runs against each other; rank backbones",
        "export": "write a run as logs, data sets or tables that others read",
        "forecast": "what a whole run will reach and cost, from a pilot of it",
        "regrade": "grade stored completions again, by another grader",
    },
    "decide offline, without a model": {
        "replay": "take a run's decisions again from its journal, or another strategy's",
        "sweep": "replay grids of settings over a pool",
        "paper": "every table and figure of the paper from recorded pools",
        "check_strategy": "check that a strategy of your own keeps the contract",
        "check_rule": "check that an answer rule of your own keeps the contract",
    },
    "fit and train": {
        "train": "train the predictors of p0, a, b and tokens",
        "features": "cache a run's backbone features, to use a predictor offline",
        "calibrate": "fit what a verifier's scores are worth as chances of being right",
        "train_tiny": "make the embedded models from nothing",
    },
}
"""Every job and what it does, in the order in which a newcomer meets them."""

VERBS = {verb: purpose for group in GROUPS.values() for verb, purpose in group.items()}

DRIVERS = ("evaluate", "collect", "serve", "train", "features")
"""Jobs of a Ray driver, which `jobs.supervision` watches."""


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Hand the rest of the command line to a verb; returns its exit status."""
    started = argv is None  # as a program, whose process may be divided
    if argv is None:
        argv = sys.argv[1:]
        if os.getcwd() not in sys.path and "" not in sys.path:
            sys.path.insert(0, os.getcwd())  # as `python -m` does: one's own code is found there
    first = argv[0] if argv else "--help"
    verb = first.replace("-", "_")
    if verb in VERBS:
        job = importlib.import_module(f"jobs.{verb}")
        run = partial(job.main, argv[1:])
        if started and verb in DRIVERS:
            return supervised(run)
        if started and verb == "suite":
            go_on_unheard()
        return int(run() or 0)
    if first == "--version":
        print(version())
        return 0
    if first == "completion":
        from jobs.completion import print_script

        return print_script(argv[1:])
    if first in ("-h", "--help", "help"):
        print(_usage())
        return 0
    near = get_close_matches(verb, VERBS, n=1)
    meant = f"did you mean {near[0]}?" if near else f"a verb must be one of {', '.join(VERBS)}"
    print(f"error: no verb {first!r}: {meant} (markovscale --help tells them all)", file=sys.stderr)
    return 2


def _usage() -> str:
    lines = ["usage: markovscale VERB ...    (markovscale VERB --help tells more)"]
    for group, verbs in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {verb:<14} {told}" for verb, told in verbs.items())]
    return "\n".join(
        [
            *lines,
            "",
            "markovscale --version, and markovscale completion bash|zsh for the shell's completion",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
