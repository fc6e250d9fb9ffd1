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

from jobs.cli import VerbParser, log_to_stderr
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.report.fronts import Row as FrontRow
    from pipeline.report.run_data import RunData
    from pipeline.report.sweep import Row


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
        type=_price,
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
    sweep, fronts = _sweeps(arguments.sweep, runs), _fronts(arguments.sweep, runs)
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


def _sweeps(path: str | None, runs: Sequence[RunData]) -> list[Row]:
    """Rows of the sweep given, or of those that the runs have, which say whose they are."""
    from pipeline.report.sweep import FILE, sweep_rows
    from pipeline.store.storage import Folder

    backbones = {run.config.science.generator.model for run in runs}
    if path is not None:
        if len(backbones) > 1:
            raise ConfigError(
                f"--sweep must go with runs of one backbone, got {', '.join(sorted(backbones))}: "
                f"leave it out, and the sweeps of the runs' own folders are shown"
            )
        folder, name = Folder(posixpath.dirname(path) or "."), posixpath.basename(path)
        return sweep_rows(folder.read_table(name), path)
    swept = [run for run in runs if run.run.folder.has(FILE)]
    return [
        {
            **row,
            "source": run.run_id if len(swept) > 1 else None,
            "backbone": run.config.science.generator.model,
        }
        for run in swept
        for row in sweep_rows(run.run.folder.read_table(FILE), f"{run.run.address}/{FILE}")
    ]


def _fronts(path: str | None, runs: Sequence[RunData]) -> dict[str, list[FrontRow]]:
    """Rows of the fronts beside each sweep, by whose they are; of older sweeps there are none."""
    from pipeline.report.fronts import fronts_name, read_fronts
    from pipeline.report.sweep import FILE
    from pipeline.store.storage import Folder

    if path is not None:
        folder, name = Folder(posixpath.dirname(path) or "."), fronts_name(posixpath.basename(path))
        found = {"": (folder, name)}
    else:
        found = {run.run_id: (run.run.folder, fronts_name(FILE)) for run in runs}
    made = {
        source: read_fronts(folder.read_table(name), name)
        for source, (folder, name) in found.items()
        if folder.has(name)
    }
    return made if len(made) > 1 else dict(zip([""], made.values(), strict=False))


def _default_out(runs: list[str]) -> str:
    return posixpath.join(runs[0].rstrip("/"), "report.html") if len(runs) == 1 else "report.html"


def _price(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"a price must be a number >= 0, got {text!r}")
    return value


def _questions(text: str) -> int:
    """Pages at most; all is as many as there are."""
    if text == "all":
        return sys.maxsize
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"must be all or a whole number, got {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
