"""*load*: reads a benchmark's rows, and makes an item of each or says why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pipeline.answers.graders import golds_of
from pipeline.answers.grading import grade
from pipeline.answers.verdict import Verdict
from pipeline.benchmarks.fields import Fields, in_words, meant, over
from pipeline.benchmarks.generated import questions
from pipeline.benchmarks.rows import Item, has_gold, has_id, item_of, looks_like_a_choice
from pipeline.benchmarks.source import BenchmarkSource, known, known_of
from pipeline.core.errors import DataError
from pipeline.core.plugins import load_object
from pipeline.core.text import copies_of, folded, has_content
from pipeline.store.row_files import RawRow, Row, find_files, read_rows

GROUP = "markovscale.benchmarks"
"""The group of entry points in which a package names its loaders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A row that was left out."""

    benchmark: str
    where: str
    """File and line."""
    reason: str
    """What must hold and what came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a source gave."""

    items: tuple[Item, ...]
    skipped: tuple[Skip, ...] = ()
    """Empty unless the source says to skip bad rows."""
    warnings: tuple[str, ...] = ()
    """What was read without an error and is probably not what was meant."""


def load(source: BenchmarkSource) -> Loaded:
    """Every question of a benchmark, in the order of its rows.

    Raises:
        DataError: for a source that cannot be read; for a bad row (naming file and line, what must
            hold and what came) unless bad rows are skipped, a question whose gold answer
            contradicts that of an earlier copy among them; and where one of the five benchmarks
            does not have its number of rows.
    """
    items: list[Item] = []
    skipped: list[Skip] = []
    suspects: list[Item] = []
    for raw, fields, result in _understood(source):
        if isinstance(result, Item):
            items.append(result)
            if raw is None or result.gold is None:
                continue
            if looks_like_a_choice(raw, fields, result.gold, result.text):
                suspects.append(result)
        elif source.skip_bad_rows:
            skipped.append(result)
        else:
            raise _refused(result)
    pinned = known().get(source.name)
    rows = len(items) + len(skipped)
    if pinned and pinned.revision and source.limit is None and rows != pinned.rows:
        raise DataError(
            f"benchmark {source.name!r} must have {pinned.rows} rows, got {rows}: "
            "set a limit, or use another name for another set of questions"
        )
    if not items:
        why = f": {skipped[0].reason} in {skipped[0].where}" if skipped else ""
        raise DataError(
            f"benchmark {source.name!r} must have at least one question, got none of {rows} rows"
            f"{why}"
        )
    return Loaded(
        items=tuple(items), skipped=tuple(skipped), warnings=_warnings(source, items, suspects)
    )


def describe_rows(source: BenchmarkSource) -> Iterator[tuple[Row | None, Item | Skip]]:
    """Each row, None where it could not be read, beside the item that was made of it, or beside why
    it is left out; bad rows raise unless skipped.

    Raises:
        DataError: as `load`.
    """
    for raw, _, result in _understood(source):
        if isinstance(result, Skip) and not source.skip_bad_rows:
            raise _refused(result)
        yield raw, result


def described_fields(source: BenchmarkSource) -> str:
    """What is read from which fields of a benchmark's rows, by its first row."""
    for raw in _raw_rows(source):
        if raw.row is not None:
            return in_words(raw.row, meant_by(source, raw.row))
    return "no row"


def meant_by(source: BenchmarkSource, row: Row) -> Fields:
    """The mapping of a source that fits a row."""
    known = known_of(source.name)
    return source.fields if known is None else over(meant(row, known.mappings), source.fields)


def _refused(skip: Skip) -> DataError:
    return DataError(
        f"{skip.reason} in {skip.where} (skip_bad_rows: true of {skip.benchmark} leaves such rows "
        "out)"
    )


def _warnings(
    source: BenchmarkSource, items: Sequence[Item], suspects: Sequence[Item]
) -> tuple[str, ...]:
    copies = (*_ungraded(source, items), *_copies(source, items))
    few = {item.gold for item in items}
    all_small = len(items) >= _MANY and few <= {"0", "1", "2", "3", "4"} and len(few) > 1
    if source.is_generated or not (suspects or all_small):
        return copies
    first = (suspects or items)[0]
    return (
        *copies,
        f"{len(suspects) or len(items)} of {len(items)} gold answers of {source.name} look like "
        f"the place of a choice, but their questions show no choices (first: {first.gold!r} of "
        f"question {first.question_id}): name the field of the choices in fields.choices",
    )


_MANY = 20


def _ungraded(source: BenchmarkSource, items: Sequence[Item]) -> tuple[str, ...]:
    """A warning of a benchmark without gold answers."""
    if items[0].gold is not None:
        return ()
    reason = (
        f"{source.name} has no gold answers and is not graded; if they stand in a field, name it: "
        "fields: {answer: COLUMN}"
    )
    return (reason,)


def _copies(source: BenchmarkSource, items: Sequence[Item]) -> tuple[str, ...]:
    """A warning of questions with the same text."""
    repeated = copies_of((item.question_id, item.text) for item in items)
    if not repeated:
        return ()
    first = next(iter(repeated.values()))
    text = next(folded(item.text) for item in items if item.question_id == first)
    ids = [first, *(copy for copy, of in repeated.items() if of == first)]
    return (
        f"{len(repeated)} of {len(items)} questions of {source.name} repeat the text of another "
        f"(first: {text[:_SHOWN]!r}, ids {', '.join(ids[:_LISTED])}): the report, jobs.compare and "
        f"jobs.paper count copies as repeats of one question, summary.json counts each",
    )


_SHOWN = 80
_LISTED = 5


def _agree(gold: str | None, other: str | None, kind: str) -> bool:
    """Whether two gold answers of one question can both be right; programs always can."""
    if gold is None or other is None:
        return gold is other
    if kind == "text":
        golds, others = ({folded(g).casefold() for g in golds_of(each)} for each in (gold, other))
        return bool(golds & others)
    return gold == other or kind not in ("math", "choices") or grade(gold, other) == Verdict.RIGHT


def _understood(
    source: BenchmarkSource,
) -> Iterator[tuple[Row | None, Fields, Item | Skip]]:
    """Rows with the mapping by which they are read and what they mean, until the limit."""
    seen: dict[str, str] = {}
    by_text: dict[str, Item] = {}
    grader = source.graded_by
    has_ids: bool | None = None
    has_golds: bool | None = None
    fields = source.fields
    for position, raw in enumerate(_raw_rows(source)):
        result: Item | Skip
        try:
            if raw.row is None:
                raise DataError(raw.problem)
            if has_ids is None:
                fields = meant_by(source, raw.row)
                has_ids, has_golds = has_id(raw.row, fields), has_gold(raw.row, fields)
            result = item_of(
                raw.row,
                source.name,
                fields,
                position,
                has_ids=has_ids,
                has_golds=has_golds is not False,
                seed=source.seed or 0,
                as_it_is=grader.reads_rows_as_they_are,
            )
            if result.question_id in seen:
                raise DataError(
                    f"an id must be unique, got {result.question_id!r} "
                    f"(first in {seen[result.question_id]})"
                )
            copied = by_text.setdefault(folded(result.text), result)
            if has_content(result.text) and not _agree(copied.gold, result.gold, grader.kind):
                raise DataError(
                    f"copies of a question must have the same gold answer, got {copied.gold!r} "
                    f"for id {copied.question_id} and {result.gold!r} for id "
                    f"{result.question_id} of {result.text[:_SHOWN]!r}"
                )
            seen[result.question_id] = raw.where
        except DataError as error:
            result = Skip(benchmark=source.name, where=raw.where, reason=str(error))
        yield raw.row, fields, result
        if source.limit is not None and len(seen) >= source.limit:
            return


def _raw_rows(source: BenchmarkSource) -> Iterator[RawRow]:
    if source.is_generated:
        return _generated(source)
    if source.loader is not None:
        return _own(source.loader)
    if source.path is not None:
        published = known_of(source.name)
        split = published.split if published else "test"
        return chain.from_iterable(
            read_rows(
                file, max_row_bytes=source.max_row_bytes, max_file_bytes=source.max_file_bytes
            )
            for file in find_files(source.path, source.name, split)
        )
    return _from_hub(source)


def _generated(source: BenchmarkSource) -> Iterator[RawRow]:
    size = source.size if source.size is not None else 100
    split, seed = source.split or "test", source.seed or 0
    try:
        made = questions(source.name, size, split=split, seed=seed)
    except ValueError as error:
        raise DataError(f"{source.name}: {error}") from error
    for number, question in enumerate(made, 1):
        row = {"id": question.question_id, "question": question.text, "answer": question.gold}
        yield RawRow(f"{source.name}, question {number}", row)


def _own(loader: str) -> Iterator[RawRow]:
    """Rows of a user's own function."""
    made = load_object(loader, GROUP)
    if not callable(made):
        raise DataError(f"loader must be a function, package.module:function, got {loader!r}")
    number = 0
    try:
        for number, row in enumerate(made(), 1):
            ours = isinstance(row, Mapping)
            problem = None if ours else f"a row must be a mapping, got {type(row).__name__}"
            yield RawRow(f"{loader}, row {number}", dict(row) if ours else None, problem)
    except Exception as error:  # whatever the user's function raises
        raise DataError(
            f"loader {loader} must give rows, got {type(error).__name__} after row {number}: "
            f"{error}"
        ) from error


def _from_hub(source: BenchmarkSource) -> Iterator[RawRow]:
    """Rows of a Hugging Face data set; ours at their pinned commit."""
    known = known_of(source.name)
    name, config, split, revision = source.hf_dataset, source.hf_config, source.hf_split, None
    if name is None:
        assert known is not None  # checked by the source
        name, config, revision = known.dataset, config or known.config, known.revision
        split = split or known.split
    split = split or "test"
    from datasets import load_dataset
    from datasets.exceptions import DatasetsError

    try:
        table: Any = load_dataset(name, config, split=split, revision=source.revision or revision)
    except (DatasetsError, OSError, ValueError) as error:
        raise DataError(
            f"data set {name!r} must be reachable on Hugging Face, got {error}: "
            "where there is no network, give the file as path"
        ) from error
    for number, row in enumerate(table, 1):
        yield RawRow(f"{name} ({split}), row {number}", row)
