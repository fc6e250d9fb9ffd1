"""Export a run into the formats of others: logs, data sets, results, tables.

    python -m jobs.export RUN --to inspect --out logs            # then: inspect view --log-dir logs
    python -m jobs.export RUN --to lm_eval --out logs            # results_*.json, samples_*.jsonl
    python -m jobs.export RUN --to hf_dataset --out dataset      # datasets.load_dataset("dataset")
    python -m jobs.export RUN --to hf_dataset --out dataset --push me/my-run
    python -m jobs.export RUN --to hf_results --out model        # model/.eval_results/NAME.yaml
    python -m jobs.export RUN --to csv --out tables

Reads a run directory, finished or not; needs no cluster and none of the packages that read the
formats. Accuracies are those of summary.json. Nothing leaves the machine without ``--push``. Exits
with 0, or with 2 and one line for input that cannot be read or an ``--out`` that is there already.
"""

from __future__ import annotations

import argparse
import sys
import time

from jobs.cli import VerbParser, log_to_stderr
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError, DataError


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("export", __doc__)
    options.add_argument("run", metavar="RUN", help="run directory")
    options.add_argument(
        "--to",
        required=True,
        choices=("inspect", "lm_eval", "hf_dataset", "hf_results", "csv"),
        help="the format",
    )
    options.add_argument("--out", required=True, metavar="PATH", help="folder to write")
    options.add_argument(
        "--overwrite", action="store_true", help="replace files of the same names in an old folder"
    )
    options.add_argument(
        "--push",
        metavar="REPO",
        help="also upload an hf_dataset to this Hugging Face data set, made private if it is new",
    )
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from pipeline.export.formats import export_run

    log_to_stderr(arguments.level)
    if arguments.push is not None and arguments.to != "hf_dataset":
        raise ConfigError(f"--push must come with --to hf_dataset, got --to {arguments.to}")
    source = export_run(
        arguments.run, arguments.to, arguments.out, time.time(), overwrite=arguments.overwrite
    )
    if arguments.push is not None:
        _push(arguments.out, arguments.push)
    outcomes = sum(cell.entry["questions"] for cell in source.cells)
    whole = "" if source.finished else ", the run is not finished"
    print(f"{arguments.to}: {outcomes:,} outcomes in {arguments.out}{whole}")
    return 0


def _push(folder: str, repository: str) -> None:
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        api.create_repo(repository, repo_type="dataset", private=True, exist_ok=True)
        api.upload_folder(folder_path=folder, repo_id=repository, repo_type="dataset")
    except Exception as error:  # of whichever library speaks to the hub
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"{folder} is whole but could not be pushed to {repository}: {why}") from (
            error
        )


if __name__ == "__main__":
    sys.exit(main())
