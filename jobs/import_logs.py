"""Import logs of other tools as a pool, to decide over samples and chains that exist already.

    markovscale import logs/*.eval --format inspect --out pools/gpqa
    markovscale import results/org__model --format lm_eval --out pools/gsm8k
    markovscale import answers.csv --map fields.yaml --out pools/mine

Reads Inspect's logs (``inspect``), samples of lm-evaluation-harness (``lm_eval``), NeMo-Skills'
outputs (``nemo_skills``), OpenAI's and vLLM's batches (``openai_batch``), Qwen2.5-Math's results
(``qwen_math``), the completion pools of OptScale (``optscale``), several pools of this project as
one (``pool``), and any JSONL, JSON, CSV or Parquet by a map (docs/import.md). Answers are graded
anew and compared with the log's labels; the first table of what the samples are worth follows.
Needs no engine and no Ray. Files that end in ``.gz`` or ``.zst`` are unpacked. Exits with 0; with 1
where more than 2 % of the labels differ from the verdicts, or a file could not be read and
``--skip-bad`` is not given; with 2 for input that does not fit.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, TypeVar

from jobs.cli import VerbParser, at_least, log_to_stderr, terminal
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from pipeline.benchmarks import Item
    from pipeline.core.protocol import Pool
    from pipeline.imports.entries import Log
    from pipeline.imports.first_table import Row
    from pipeline.imports.importer import ImportOptions, ImportReport
    from pipeline.imports.mapped import LogMap
    from pipeline.replay.pools import CompletionPool
    from pipeline.statistics.intervals import Interval
    from pipeline.store.log_files import LogFile

FORMATS: Mapping[str, tuple[str, ...]] = {
    "inspect": ("*.eval", "summaries.json", "*.json"),
    "lm_eval": ("samples_*.jsonl",),
    "nemo_skills": ("output-rs*.jsonl", "output*.jsonl"),
    "openai_batch": ("*.jsonl",),
    "optscale": ("*.json",),
    "pool": (),
    "qwen_math": ("*.jsonl",),
}
"""Formats, and the names of their files in a folder."""
_ANY = ("*.jsonl", "*.parquet", "*.csv", "*.json")
_SHOWN = 10
_WORTH_A_PROCESS = 10_000  # items: it takes a second to start
_CHUNK = 500

T = TypeVar("T")
R = TypeVar("R")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("import", __doc__)
    options.add_argument(
        "logs", nargs="+", metavar="LOG", help="files, folders or patterns, of one model"
    )
    options.add_argument("--format", choices=tuple(FORMATS), help="who wrote the logs")
    options.add_argument("--map", metavar="FILE", help="YAML file that says which field is what")
    options.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="with --map: only rows whose field has this value (repeatable)",
    )
    options.add_argument("--out", required=True, metavar="POOL", help="new folder of the pool")
    options.add_argument(
        "--gold", metavar="FILE", help="benchmark file with reference answers, by id or by text"
    )
    options.add_argument("--model", metavar="NAME", help="which model, or a name for it")
    options.add_argument("--benchmark", metavar="NAME", help="which benchmark, or a name for it")
    _add_depth(options, "--rounds", "R", "completions are rounds of chains; take R of each")
    _add_depth(options, "--samples", "K", "completions are samples; take K a question")
    options.add_argument(
        "--ragged",
        choices=("best", "cut"),
        default="best",
        help="where questions differ in depth: the depth that keeps most completions, without the "
        "questions below it (best), or the smallest depth (cut)",
    )
    options.add_argument(
        "--skip-bad", action="store_true", help="exit with 0 although files could not be read"
    )
    options.add_argument(
        "--labels",
        choices=("both", "grade", "trust"),
        help="verdicts: grade anew and compare with the log's labels (both, the default), grade, "
        "or trust them (the default for pools)",
    )
    options.add_argument(
        "--scorer", metavar="NAME", help="whose label counts: scorer of Inspect, filter of lm_eval"
    )
    options.add_argument(
        "--question-of-id",
        metavar="REGEX",
        help="what of a batch's custom_id names the question: the first group",
    )
    options.add_argument(
        "--score-map",
        choices=("identity", "sigmoid", "percent", "exp"),
        help="how scores come to lie in [0, 1]",
    )
    options.add_argument("--scores", metavar="NAME", help="what gave the scores")
    options.add_argument(
        "--tokens",
        choices=("recorded", "estimate"),
        default="recorded",
        help="estimate completion tokens from the texts that lack them (4 characters a token)",
    )
    options.add_argument(
        "--no-texts", action="store_true", help="leave the replies' texts out of the pool"
    )
    options.add_argument("--licence", default="", help="of the logs, for the card and pool.json")
    return options


def _add_depth(options: argparse.ArgumentParser, name: str, metavar: str, what: str) -> None:
    options.add_argument(name, nargs="?", const=0, type=at_least(1), metavar=metavar, help=what)


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from jobs.progress import steps
    from pipeline.imports.first_table import first_table
    from pipeline.imports.importer import MOST_DISAGREEMENTS, import_log
    from pipeline.imports.own_pools import read_own
    from pipeline.replay.pools import read_pool
    from pipeline.store.log_files import find_logs

    log_to_stderr(arguments.level)
    started = time.perf_counter()
    if (arguments.format is None) == (arguments.map is None):
        raise ConfigError("an import must have --format NAME or --map FILE, one of them")
    patterns = _ANY if arguments.format is None else FORMATS[arguments.format]
    files = [] if arguments.format == "pool" else find_logs(arguments.logs, patterns)
    logs = {"": read_own(arguments.logs)} if arguments.format == "pool" else _read(arguments, files)
    options = _options(arguments)
    worst, made, bad = 0.0, 0, 0
    tables: dict[str, dict[str, list[Row]]] = {}  # by benchmark and pool
    for part, log in steps(logs.items(), lambda item: item[0] or arguments.out, "importing"):
        address = arguments.out.rstrip("/") + (f"/{_file_name(part)}" if part else "")
        try:
            report = import_log(log, files, options, address, in_processes)
        except DataError as error:
            if not part:
                raise
            print(f"refused: {part}: {error}")
            continue
        pool = read_pool(address)
        if arguments.level < logging.WARNING:
            _print(report, address)
        for benchmark in pool.benchmarks:
            of = pool.of_benchmarks((benchmark,))
            rows = first_table(of)
            if not part:
                _print_table(benchmark, rows)
                _print_chains(of)
            if rows:
                depth = f"{benchmark}, {report.drawn}"
                tables.setdefault(depth, {})[address] = rows
        worst, made = max(worst, report.share_disagreeing), made + 1
        bad += len(report.bad_files)
    for benchmark, found in tables.items():
        if len(found) > 1:
            _print_over(benchmark, found)
    seconds = time.perf_counter() - started
    print(f"{made} pool{'s' if made != 1 else ''}, {seconds:.0f} s: {arguments.out}")
    return 1 if worst > MOST_DISAGREEMENTS or (bad and not arguments.skip_bad) else 0


def in_processes(work: Callable[[T], R], items: Sequence[T]) -> Iterable[R]:
    """`map`, in processes where there is much to do; results come in the order of the items."""
    workers = min(os.cpu_count() or 1, len(items) // _WORTH_A_PROCESS)
    if workers < 2:
        yield from map(work, items)
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        yield from pool.map(work, items, chunksize=_CHUNK)


def _read(arguments: argparse.Namespace, files: list[LogFile]) -> dict[str, Log]:
    from pipeline.imports.inspect_logs import read_inspect
    from pipeline.imports.mapped import read_mapped
    from pipeline.imports.optscale import read_optscale
    from pipeline.imports.row_formats import (
        read_lm_eval,
        read_nemo_skills,
        read_openai_batch,
        read_qwen_math,
    )

    if arguments.map is not None:
        return read_mapped(files, _fields(arguments))
    match arguments.format:
        case "inspect":
            return {"": read_inspect(files, scorer=arguments.scorer)}
        case "lm_eval":
            return {"": read_lm_eval(files, filter_name=arguments.scorer)}
        case "nemo_skills":
            return {"": read_nemo_skills(files)}
        case "openai_batch":
            return {"": read_openai_batch(files, question_of_id=_pattern(arguments))}
        case "qwen_math":
            return {"": read_qwen_math(files)}
        case _:
            return {"": read_optscale(files, pool=_pool(arguments))}


def _fields(arguments: argparse.Namespace) -> LogMap:
    from pipeline.imports.mapped import read_map

    fields = read_map(arguments.map)
    for text in arguments.only:
        name, sign, value = text.partition("=")
        if not sign:
            raise ConfigError(f"--only must be FIELD=VALUE, got {text!r}")
        fields = fields.model_copy(update={"only": {**fields.only, name: value}})
    return fields


def _pattern(arguments: argparse.Namespace) -> re.Pattern[str] | None:
    if arguments.question_of_id is None:
        return None
    try:
        pattern = re.compile(arguments.question_of_id)
    except re.error as error:
        raise ConfigError(f"--question-of-id must be a regular expression: {error}") from error
    if pattern.groups < 1:
        raise ConfigError("--question-of-id must have a group, such as '(.*)-[0-9]+$'")
    return pattern


def _pool(arguments: argparse.Namespace) -> Pool | None:
    """What completions are, where one of the options says so."""
    from pipeline.core.protocol import Pool

    if (arguments.rounds is None) == (arguments.samples is None):
        return None
    return Pool.SEQUENTIAL if arguments.rounds is not None else Pool.PARALLEL


def _options(arguments: argparse.Namespace) -> ImportOptions:
    from pipeline.imports.importer import ImportOptions

    named = ("model", "benchmark", "ragged", "score_map", "scores", "licence")
    return ImportOptions(
        format=arguments.format or "map",
        rounds=arguments.rounds or None,
        samples=arguments.samples or None,
        labels=arguments.labels or ("trust" if arguments.format == "pool" else "both"),
        estimate_tokens=arguments.tokens == "estimate",
        texts=not arguments.no_texts,
        golds=_golds(arguments.gold),
        **{name: getattr(arguments, name) for name in named},
    )


def _golds(path: str | None) -> tuple[Item, ...]:
    from pipeline.benchmarks import BenchmarkSource, load

    if path is None:
        return ()
    try:
        return tuple(load(BenchmarkSource(name="gold", path=path, skip_bad_rows=True)).items)
    except DataError as error:
        raise DataError(f"--gold: {error}") from error


def _file_name(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-.") or "pool"


def _print(report: ImportReport, address: str) -> None:
    """What came of an import, refused rows and disagreements first."""
    say = terminal().print
    for line in report.bad_files:
        say(f"file left out: {line} (--skip-bad)", soft_wrap=True)
    for line in report.refused[:_SHOWN]:
        say(f"refused: {line}", soft_wrap=True)
    if len(report.refused) > _SHOWN:
        say(f"refused: {len(report.refused) - _SHOWN:,} more")
    failed = f", {report.failures:,} of them failed" if report.failures else ""
    drawn = report.completions + report.failures
    say(
        f"{report.questions:,} questions, {report.drawn}: {drawn:,} completions{failed}",
        soft_wrap=True,
    )
    for note in report.notes:
        say(f"note: {note}", soft_wrap=True)
    if report.origin is not None:
        say(report.origin.sentence, soft_wrap=True)
    if report.table:
        _print_labels(report, address)


def _print_table(benchmark: str, rows: list[Row]) -> None:
    from jobs.tables import text_table

    cells = []
    for row in rows:
        reference = row.against is None
        tokens = row.column.tokens
        cells.append(
            (
                row.method,
                _share(row.column.accuracy),
                "reference" if reference else _share(row.against, sign="+"),
                f"{row.completions:.2f}",
                "" if reference else _share(row.completions_saved),
                "-" if tokens is None or not row.tokens_known else f"{tokens.value:,.0f}",
                "" if reference else _share(row.tokens_saved),
            )
        )
    header = ("", "accuracy", "minus reference", "completions", "saved", "tokens", "saved")
    if cells:
        title = f"{benchmark}: accuracy, and what it took"
        terminal().print(text_table(title, header, cells))


def _share(value: Interval | None, sign: str = "") -> str:
    """In percent with its interval."""
    if value is None:
        return "-"
    ends = f"{100 * value.low:{sign}.1f}, {100 * value.high:{sign}.1f}"
    return f"{100 * value.value:{sign}.1f} [{ends}]"


def _print_chains(pool: CompletionPool) -> None:
    """a and b round by round, their drift, and what the chains say of the choice of a strategy."""
    from pipeline.report.suitability_view import suitability_of_pool
    from pipeline.theory.diagnostics import homogeneity_test
    from pipeline.theory.transitions import Chain, count_by_round, labels_of_verdicts

    if pool.rounds < 2:
        return
    chains = [
        Chain(
            benchmark=question.question.benchmark,
            question_id=question.question.question_id,
            labels=labels_of_verdicts(verdicts),
            level=question.level,
        )
        for question in pool.questions
        for verdicts in question.verdicts_by_chain
    ]
    counted = count_by_round(chains)
    if counted:
        tested = homogeneity_test(counted)
        for name, shares, test in (
            ("a (right to wrong)", tested.a_by_round, tested.a),
            ("b (wrong to right)", tested.b_by_round, tested.b),
        ):
            accuracies = " ".join("-" if math.isnan(share) else f"{share:.3f}" for share in shares)
            drift = f"   drift: p = {test.p_value:.4f}" if test.df else ""
            terminal().print(f"{name} by round: {accuracies}{drift}", soft_wrap=True)
    found = suitability_of_pool(pool)
    for sentence in () if found is None else found.sentences():
        terminal().print(sentence, soft_wrap=True)


def _print_over(benchmark: str, tables: dict[str, list[Row]]) -> None:
    """Means over pools, each of which weighs the same, and those that lose and gain most."""
    from statistics import fmean

    from jobs.tables import text_table

    cells = []
    rows = [row for of_pool in tables.values() for row in of_pool]
    for method in dict.fromkeys(row.method for row in rows):
        of = [row for row in rows if row.method == method]
        accuracy = fmean(row.column.accuracy.value for row in of if row.column.accuracy)
        by_pool = sorted((row.against for row in of if row.against), key=lambda one: one.value)
        saved = [row.completions_saved.value for row in of if row.completions_saved]
        tokens = [row.tokens_saved.value for row in of if row.tokens_saved]
        cells.append(
            (
                method,
                str(len(of)),
                f"{100 * accuracy:.2f}",
                f"{100 * fmean(d.value for d in by_pool):+.2f}" if by_pool else "reference",
                _share(by_pool[0], sign="+") if by_pool else "",
                _share(by_pool[-1], sign="+") if by_pool else "",
                f"{fmean(saved):.1%}" if saved else "",
                f"{fmean(tokens):.1%} ({len(tokens)})" if tokens else "",
            )
        )
    names = ("", "pools", "accuracy", "minus reference", "worst pool", "best pool")
    header = (*names, "completions saved", "tokens saved (pools)")
    terminal().print(text_table(f"{benchmark}: means over {len(tables)} pools", header, cells))


def _print_labels(report: ImportReport, address: str) -> None:
    from pipeline.imports.importer import DISAGREEMENTS, MOST_DISAGREEMENTS

    say = terminal().print
    verdicts = ("right", "wrong", "ungraded")
    say("label    " + "".join(f"{verdict:>12}" for verdict in verdicts) + "   (graded anew)")
    for label in ("right", "wrong"):
        say(f"{label:<9}" + "".join(f"{report.table[label, verdict]:>12,}" for verdict in verdicts))
    for one in report.disagreements[:_SHOWN]:
        say(
            f"{one['label']} by the log, {one['verdict']} here: {one['answer']!r} for "
            f"{one['gold']!r}, {one['where']}",
            soft_wrap=True,
        )
    if report.disagreements:
        say(
            f"{len(report.disagreements):,} labels differ ({report.share_disagreeing:.1%}), all in "
            f"{address}/{DISAGREEMENTS}"
            + (
                ": look at them, then import with --labels grade or --labels trust"
                if report.share_disagreeing > MOST_DISAGREEMENTS
                else ""
            ),
            soft_wrap=True,
        )


if __name__ == "__main__":
    sys.exit(main())
