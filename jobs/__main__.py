"""The console script: ``markovscale <verb> ...`` is ``python -m jobs.<verb> ...``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

_NOT_VERBS = {
    "cluster",
    "dry_run",
    "logs",
    "miniature_tables",
    "priors",
    "progress",
    "results",
    "run_options",
    "sweep_tables",
    "tables",
    "training",
}


def verbs() -> list[str]:
    """Names of the jobs, one a module."""
    names = (path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    return sorted(name for name in names if name not in _NOT_VERBS)


def main(argv: list[str] | None = None) -> int:
    """Hand the rest of the command line to a verb; returns its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] not in verbs():
        print(f"usage: markovscale VERB ..., VERB one of {', '.join(verbs())}", file=sys.stderr)
        return 2
    job = importlib.import_module(f"jobs.{arguments[0]}")
    return int(job.main(arguments[1:]) or 0)


if __name__ == "__main__":
    sys.exit(main())
