"""The console script: ``markovscale VERB ...`` is ``python -m jobs.VERB ...``."""

from __future__ import annotations

# PYTHON_ARGCOMPLETE_OK
import argparse
import importlib
import os
import sys
from difflib import get_close_matches
from functools import partial
from importlib import metadata
from pathlib import Path

from jobs.cli import complete
from jobs.endings import in_one_line
from jobs.supervision import supervised

_PACKAGE = complete.__module__.rpartition(".")[0]
"""`jobs`, or `markovscale.jobs` in a wheel."""
_ROOT = Path(__file__).resolve().parents[1]

GROUPS = {
    "run models": {
        "evaluate": "run strategies side by side on benchmarks, live",
        "collect": "record deep pools of completions, once",
        "serve": "answer questions as an OpenAI-compatible endpoint",
        "status": "show the progress of a run",
    },
    "inspect runs": {
        "report": "write one HTML page for a run or several",
        "show": "print one question of a run, round by round",
        "compare": "test strategies or runs against each other",
        "export": "write a run as logs, data sets or tables that others read",
        "forecast": "predict accuracy and cost of a whole run from a pilot",
        "regrade": "grade stored completions again, by another grader",
    },
    "decide offline, without a model": {
        "import": "read logs of other tools as a pool",
        "replay": "repeat a run's decisions from its journal",
        "sweep": "replay grids of settings over a pool",
        "paper": "every table and figure of the paper from recorded pools",
    },
    "fit and train": {
        "train": "train the predictors of p0, a and b",
        "features": "cache a run's backbone features, to use a predictor offline",
        "calibrate": "map a verifier's scores to probabilities of being right",
    },
}
"""Every job and what it does, in the order in which a newcomer meets them."""

MODULES = {"import": "import_logs"}  # a keyword is no name of a module
VERBS = {verb: purpose for group in GROUPS.values() for verb, purpose in group.items()}

DRIVERS = ("evaluate", "collect", "serve", "train", "features")
"""Jobs of a Ray driver, which `jobs.supervision` watches."""


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Runs a verb with the rest of the command line; returns its exit status."""
    started = argv is None  # as a program, whose process may fork
    if argv is None:
        if "_ARGCOMPLETE" in os.environ:
            return _complete()
        argv = sys.argv[1:]
        if os.getcwd() not in sys.path and "" not in sys.path:
            sys.path.insert(0, os.getcwd())  # as `python -m` does: finds the user's own modules
    verb = argv[0] if argv else "--help"
    if verb in VERBS:
        run = partial(_run, verb, argv[1:])
        if started and verb in DRIVERS:
            return supervised(run)
        return run()
    if verb == "--version":
        print(version())
        return 0
    if verb in ("-h", "--help", "help"):
        print(_usage())
        return 0
    near = get_close_matches(verb, VERBS, n=1)
    meant = f"did you mean {near[0]}?" if near else f"a verb must be one of {', '.join(VERBS)}"
    print(f"error: no verb {verb!r}: {meant} (markovscale --help lists them)", file=sys.stderr)
    return 2


def _run(verb: str, argv: list[str]) -> int:
    """Runs a verb; returns its exit status, 2 where a package that it needs is not installed."""
    job = importlib.import_module(f"{_PACKAGE}.{MODULES.get(verb, verb)}")
    try:
        return int(job.main(argv) or 0)
    except ModuleNotFoundError as error:
        print(_missing(verb, error), file=sys.stderr)
        return 2


def _missing(verb: str, error: ModuleNotFoundError) -> str:
    """The message for a verb whose packages are not installed.

    Raises:
        ModuleNotFoundError: where the missing module is the project's own.
    """
    package = (error.name or "").partition(".")[0]
    if package in ("markovscale", "pipeline", "actors", "jobs"):
        raise error
    return f"error: {verb} needs the package {package}: pip install 'markovscale[run]'"


def _complete() -> int:
    """Answers a shell that completes: verbs first, then the options of the verb's own parser."""
    words = os.environ.get("COMP_LINE", "").split()
    verb = words[1] if len(words) > 1 else ""
    if verb in VERBS:
        os.environ["_ARGCOMPLETE"] = "2"  # the words that argcomplete skips
        return int(importlib.import_module(f"{_PACKAGE}.{MODULES.get(verb, verb)}").main([]) or 0)
    parser = argparse.ArgumentParser("markovscale")
    parser.add_argument("verb", choices=VERBS)
    complete(parser)
    return 0


def _usage() -> str:
    lines = ["usage: markovscale VERB ...    (markovscale VERB --help lists its options)"]
    for group, verbs in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {verb:<14} {purpose}" for verb, purpose in verbs.items())]
    last = (
        'markovscale --version; eval "$(register-python-argcomplete markovscale)" completes verbs'
    )
    return "\n".join([*lines, "", last])


def version() -> str:
    """Version and folder."""
    try:
        number = metadata.version("markovscale")
    except metadata.PackageNotFoundError:
        number = "not installed"
    return f"markovscale {number} ({_ROOT})"


if __name__ == "__main__":
    sys.exit(main())
