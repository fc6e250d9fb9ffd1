"""One self-contained HTML report of a run, or of several side by side.

    python -m jobs.report runs/laptop-20260101-120000
    python -m jobs.report RUN RUN --out comparison.html --price-per-million 0.6
    python -m jobs.report RUN --questions all

Reads run directories, finished or not; needs no cluster. Writes ``report.html`` into the run
directory (for several runs into the current folder) unless ``--out`` says otherwise. Exits with 0,
or with 2 for input that cannot be read.
"""

from __future__ import annotations

import argparse
import posixpath
import sys

from jobs.cli import VerbParser, log_to_stderr, number
from jobs.endings import in_one_line


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("report", __doc__)
    options.add_argument("runs", nargs="+", metavar="RUN", help="run directory")
    options.add_argument("--out", metavar="FILE", help="where to write the report")
    options.add_argument(
        "--price-per-million",
        metavar="X",
        type=number(0),
        help="USD of a million generated tokens, in place of the prices of the run",
    )
    options.add_argument(
        "--questions",
        metavar="all|N",
        type=_questions,
        default=300,
        help="questions that the report holds with their chains (300)",
    )
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from pipeline.report.page import report_page
    from pipeline.report.run_data import read_runs
    from pipeline.store.storage import Folder

    log_to_stderr(arguments.level)
    runs = read_runs(arguments.runs)
    out = arguments.out or _default_out(arguments.runs)
    folder = Folder(posixpath.dirname(out) or ".")
    folder.prepare(posixpath.basename(out))
    page = report_page(
        runs,
        price_per_million=arguments.price_per_million,
        most_questions=arguments.questions,
    ).encode()
    folder.write(posixpath.basename(out), page)
    print(f"report: {out} ({len(page) / 1e6:.1f} MB)")
    return 0


def _default_out(runs: list[str]) -> str:
    return posixpath.join(runs[0].rstrip("/"), "report.html") if len(runs) == 1 else "report.html"


def _questions(text: str) -> int:
    """Pages at most; all is as many as there are."""
    if text == "all":
        return sys.maxsize
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"must be all or a whole number, got {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
