"""One self-contained HTML report of a run, or of several side by side.

    python -m jobs.report runs/laptop-20260101-120000
    python -m jobs.report RUN RUN --out comparison.html --paper FOLDER --price-per-million 0.6
    python -m jobs.report RUN --questions all --tables tables

Reads run directories, finished or not; needs no cluster. Writes ``report.html`` into the run
directory (for several runs into the current folder) unless ``--out`` says otherwise, and with
``--tables`` the paper's tables as CSV and LaTeX. Exits with 0, or with 2 for input that cannot be
read.
"""

from __future__ import annotations

import argparse
import posixpath
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobs.cli import VerbParser, log_to_stderr, number
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.report.run_data import RunData
    from pipeline.report.sweeps import Row
    from pipeline.report.sweeps import Row as FrontRow


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("report", __doc__)
    options.add_argument("runs", nargs="+", metavar="RUN", help="run directory")
    options.add_argument("--out", metavar="FILE", help="where to write the report")
    options.add_argument("--paper", metavar="DIR", help="folder of the paper's numbers as CSV")
    options.add_argument(
        "--sweep", metavar="FILE", help="a sweep; else RUN/sweep.parquet if it exists"
    )
    options.add_argument("--tables", metavar="DIR", help="write the paper's tables here")
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
    from pipeline.report.page import Report, write_report
    from pipeline.report.published import NONE_PUBLISHED, read_published
    from pipeline.report.run_data import read_runs
    from pipeline.report.tables import csv_of, latex_of
    from pipeline.store.storage import Folder

    log_to_stderr(arguments.level)
    runs = read_runs(arguments.runs)
    sweep, fronts = _swept(arguments.sweep, runs)
    paper = NONE_PUBLISHED if arguments.paper is None else read_published(arguments.paper)
    out = arguments.out or _default_out(arguments.runs)
    folder = Folder(posixpath.dirname(out) or ".")
    folder.prepare(posixpath.basename(out))
    report = Report(
        runs=runs,
        sweep=sweep,
        fronts=fronts,
        paper=paper,
        price_per_million=arguments.price_per_million,
        most_questions=arguments.questions,
    )
    size = write_report(report, folder, posixpath.basename(out))
    if arguments.tables:
        tables = Folder(arguments.tables)
        tables.write("tables.csv", csv_of(report.tables()).encode())
        latex = "\n".join(latex_of(table) for table in report.tables())
        tables.write("tables.tex", latex.encode())
    print(f"report: {out} ({size / 1e6:.1f} MB)")
    return 0


def _swept(
    path: str | None, runs: Sequence[RunData]
) -> tuple[list[Row], dict[str, Sequence[FrontRow]]]:
    """Rows of the sweep given, or of those that the runs have, which say whose they are, and the
    fronts beside each, by whose they are; of older sweeps there are none."""
    from pipeline.report.sweeps import FILE, fronts_name, read_fronts, sweep_rows
    from pipeline.store.storage import Folder

    files = [(run.run_id, run.run.folder, FILE) for run in runs if run.run.folder.has(FILE)]
    if path is not None:
        backbones = {run.config.science.generator.model for run in runs}
        if len(backbones) > 1:
            raise ConfigError(
                f"--sweep must go with runs of one backbone, got {', '.join(sorted(backbones))}: "
                f"leave it out, and the sweeps of the runs' own folders are shown"
            )
        files = [("", Folder(posixpath.dirname(path) or "."), posixpath.basename(path))]
    several = len(files) > 1
    rows: list[Row] = [
        {**row, "source": run if several else None}
        for run, folder, name in files
        for row in sweep_rows(folder.read_table(name), f"{folder.address}/{name}")
    ]
    fronts: dict[str, Sequence[FrontRow]] = {
        run if several else "": read_fronts(folder.read_table(beside), beside)
        for run, folder, name in files
        if folder.has(beside := fronts_name(name))
    }
    return rows, fronts


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
