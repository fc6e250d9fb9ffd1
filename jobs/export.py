"""Export a run into the formats of other tools: logs, data sets, tables.

    python -m jobs.export RUN --to inspect --out logs            # then: inspect view --log-dir logs
    python -m jobs.export RUN --to lm_eval --out logs            # results_*.json, samples_*.jsonl
    python -m jobs.export RUN --to hf_dataset --out dataset      # datasets.load_dataset("dataset")
    python -m jobs.export RUN --to csv --out tables

Reads a run directory, finished or not; needs no cluster and none of the packages that read the
formats. Accuracies are those of summary.json. Exits with 0, or with 2 and one line for input that
cannot be read or an ``--out`` that exists.
"""

from __future__ import annotations

import argparse
import sys
import time

from jobs.cli import VerbParser, add_shared, log_to_stderr
from jobs.endings import in_one_line


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("export", __doc__)
    add_shared(options, "run")
    options.add_argument(
        "--to",
        required=True,
        choices=("inspect", "lm_eval", "hf_dataset", "csv"),
        help="the format",
    )
    options.add_argument("--out", required=True, metavar="PATH", help="new folder to write")
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from pipeline.export.formats import export_run

    log_to_stderr(arguments.level)
    source = export_run(arguments.run, arguments.to, arguments.out, time.time())
    outcomes = sum(cell.entry["questions"] for cell in source.cells)
    note = "" if source.finished else ", the run is not finished"
    print(f"{arguments.to}: {outcomes:,} outcomes in {arguments.out}{note}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
