"""*opened_run*: makes or resumes a run directory as the command line says."""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from jobs.dry_run import check_model_folders, print_dry_run
from jobs.priors import keep_predictions, predictor_of
from pipeline.benchmarks import Skip, describe_rows, described_fields, load
from pipeline.config.run import RunConfig, override_field
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.text import encodable
from pipeline.records.questions import QUESTIONS_FILE, questions_table, read_questions
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.report.run_warnings import left_out
from pipeline.store.storage import Folder, check_name, fresh_token, resolve

logger = logging.getLogger(__name__)


def opened_run(
    arguments: argparse.Namespace, shape: Callable[[dict[str, Any]], None] | None = None
) -> tuple[RunDir, RunConfig, int]:
    """The run directory with its questions, the configuration and the number of the attempt.

    Args:
        arguments: as parsed with `add_run_options`.
        shape: changes the configuration's values before they are checked.

    Raises:
        ConfigError, DataError: before anything was started or written.
    """
    config = _config(arguments, shape)
    check_model_folders(config)
    if arguments.dry_run:
        print_dry_run(config)
        raise SystemExit(0)
    if arguments.show_rows is not None:
        _show_rows(config, arguments.show_rows)
        raise SystemExit(0)
    predictor_of(config)  # refused here where it is for another backbone
    loaded = [load(source) for source in config.science.benchmarks]
    items = [item for benchmark in loaded for item in benchmark.items]
    questions = questions_table(
        items,
        config.science.seed,
        config.science.priors,
        {source.name: source.max_tokens for source in config.science.benchmarks},
    )
    address = arguments.resume or _existing(arguments, config)
    if address:
        run = RunDir.open(address)
        _set_aside_torn(run)
        check_same_questions(run, questions, predicted=bool(config.science.priors.predictor))
        questions = keep_predictions(run, questions)
        attempt = run.resume(config, retry_failed=arguments.retry_failed)
    else:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        run = RunDir.create(config, arguments.name or f"{config.name}-{stamp}")
        attempt = run.newest().number
    run.folder.write_table("questions.parquet", questions)
    skipped = [dataclasses.asdict(skip) for benchmark in loaded for skip in benchmark.skipped]
    warnings = [*config.warnings(), *(w for benchmark in loaded for w in benchmark.warnings)]
    for name, found in (("skipped.json", skipped), ("warnings.json", warnings)):
        if found:
            run.folder.write_json(name, found)
    for sentence in (*warnings, *left_out(skipped)):
        logger.warning("%s", sentence)
    return run, config, attempt


def _set_aside_torn(run: RunDir) -> None:
    """Questions are read from their benchmarks anew, so a torn table of them blocks no resume."""
    if not run.folder.has(QUESTIONS_FILE):
        return
    try:
        read_questions(run.folder)
    except DataError as error:
        run.folder.move(QUESTIONS_FILE, f"corrupt/{fresh_token()}-{QUESTIONS_FILE}")
        logger.warning("%s set aside, it is made anew: %s", QUESTIONS_FILE, error)


def check_same_questions(run: RunDir, questions: pa.Table, *, predicted: bool) -> None:
    """Refuse to go on with questions that are not what they were.

    Args:
        run: the run to resume.
        questions: as they are read now; there may be more of them.
        predicted: whether priors come from a predictor, which writes them later.

    Raises:
        ConfigError: naming the first question that differs, and in which field.
    """
    if not run.folder.has("questions.parquet"):
        return  # the first attempt ended before it had any
    now = {(r["benchmark"], r["question_id"]): r for r in rows_of(questions)}
    for before in rows_of(read_questions(run.folder)):
        after = now.get((before["benchmark"], before["question_id"]))
        where = f"question {before['question_id']!r} of {before['benchmark']}"
        if after is None:
            raise ConfigError(f"a resume must have every question of the run, {where} is gone")
        for name in before.keys() - (_PRIORS if predicted else set()):
            if before[name] != after[name] and not _same_gold(name, before[name], after[name]):
                raise ConfigError(
                    f"a resume must have the questions of the run, {name} of {where} differs: "
                    f"{before[name]!r} -> {after[name]!r}"
                )


def _same_gold(name: str, before: Any, after: Any) -> bool:
    """Whether a gold answer differs in nothing but the commas that an earlier version left out."""
    if name != "gold" or not re.fullmatch(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?", str(after)):
        return False
    return str(before) == str(after).replace(",", "")


_PRIORS = {"p0", "p0_source", "a", "b", "tokens_per_round"}


def _config(
    arguments: argparse.Namespace, shape: Callable[[dict[str, Any]], None] | None
) -> RunConfig:
    if arguments.config is None and arguments.resume is None:
        raise ConfigError("--config must name a YAML file, or --resume a run directory")
    if arguments.config is not None:
        values = RunConfig.read(arguments.config, arguments.overrides)
    else:
        values = RunDir.open(arguments.resume).config().model_dump(mode="json")
        for override in arguments.overrides:
            override_field(values, override)
    if shape is not None:
        shape(values)
    config = RunConfig.parse(values, arguments.config or arguments.resume)
    runs = config.runtime.runs
    _, path = resolve(runs)
    if "://" in runs:
        return config
    runtime = config.runtime.model_copy(update={"runs": path})  # workers have other folders
    return config.model_copy(update={"runtime": runtime})


def _existing(arguments: argparse.Namespace, config: RunConfig) -> str | None:
    """The run directory that ``--resume-if-exists`` goes on with, if it is there."""
    if not arguments.resume_if_exists:
        return None
    if arguments.name is None:
        raise ConfigError("--resume-if-exists must come with --name, which says which run")
    folder = Folder(config.runtime.runs).child(check_name(arguments.name, "a run's name"))
    return folder.address if folder.has("config.json") else None


def _show_rows(config: RunConfig, number: int) -> None:
    for source in config.science.benchmarks:
        print(f"{source.name}: {described_fields(source)}")
        for warning in load(dataclasses.replace(source, limit=number, skip_bad_rows=True)).warnings:
            print(f"  warning: {warning}")
        for index, (raw, item) in enumerate(describe_rows(source)):
            if index >= number:
                break
            print(f"  row  {encodable(json.dumps(raw, ensure_ascii=False, default=str))}")
            if isinstance(item, Skip):
                print(f"  left out: {item.reason} in {item.where}")
            else:
                print(f"  item {json.dumps(dataclasses.asdict(item), ensure_ascii=False)}")
