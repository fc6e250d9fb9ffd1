"""Loading a benchmark: rows from wherever they are, each understood, refused or skipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.benchmarks import builtin
from pipeline.benchmarks.rows import Item, has_id, item_of
from pipeline.benchmarks.source import GENERATED, KNOWN, BenchmarkSource
from pipeline.core.errors import DataError
from pipeline.store.row_files import RawRow, Row, find_file, read_rows


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


def load(source: BenchmarkSource) -> Loaded:
    """Every question of a benchmark, in the order of its rows.

    Raises:
        DataError: for a source that cannot be read; for a bad row (naming file and line, what must
            hold and what came) unless bad rows are skipped; and where one of the five benchmarks
            does not have its number of rows.
    """
    items: list[Item] = []
    skipped: list[Skip] = []
    for _, result in _understood(source):
        if isinstance(result, Item):
            items.append(result)
        elif source.skip_bad_rows:
            skipped.append(result)
        else:
            raise DataError(f"{result.reason} in {result.where}")
    known = KNOWN.get(source.name)
    rows = len(items) + len(skipped)
    if known is not None and source.limit is None and rows != known.rows:
        raise DataError(
            f"benchmark {source.name!r} must have {known.rows} rows, got {rows}: "
            "set a limit, or use another name for another set of questions"
        )
    if not items:
        raise DataError(f"benchmark {source.name!r} must have at least one question, got none")
    return Loaded(items=tuple(items), skipped=tuple(skipped))


def describe_rows(source: BenchmarkSource) -> Iterator[tuple[Row, Item]]:
    """Each good row beside the item that was made of it; bad rows raise unless skipped.

    Raises:
        DataError: as `load`.
    """
    for raw, result in _understood(source):
        if isinstance(result, Item):
            assert raw is not None
            yield raw, result
        elif not source.skip_bad_rows:
            raise DataError(f"{result.reason} in {result.where}")


def _understood(source: BenchmarkSource) -> Iterator[tuple[Row | None, Item | Skip]]:
    """Rows with what they mean, until the limit is reached."""
    seen: dict[str, str] = {}
    has_ids: bool | None = None
    for position, raw in enumerate(_raw_rows(source)):
        result: Item | Skip
        try:
            if raw.row is None:
                raise DataError(raw.problem)
            if has_ids is None:
                has_ids = has_id(raw.row, source.fields)
            result = item_of(raw.row, source.name, source.fields, position, has_ids=has_ids)
            if result.question_id in seen:
                raise DataError(
                    f"an id must be unique, got {result.question_id!r} "
                    f"(first in {seen[result.question_id]})"
                )
            seen[result.question_id] = raw.where
        except DataError as error:
            result = Skip(benchmark=source.name, where=raw.where, reason=str(error))
        yield raw.row, result
        if source.limit is not None and len(seen) >= source.limit:
            return


def _raw_rows(source: BenchmarkSource) -> Iterator[RawRow]:
    if source.name in GENERATED:
        return _generated(source)
    if source.path is not None:
        file = find_file(source.path, source.name)
        return read_rows(
            file, max_row_bytes=source.max_row_bytes, max_file_bytes=source.max_file_bytes
        )
    return _from_hub(source)


def _generated(source: BenchmarkSource) -> Iterator[RawRow]:
    size = source.size if source.size is not None else 100
    split, seed = source.split or "test", source.seed or 0
    try:
        made = builtin.questions(source.name, size, split=split, seed=seed)
    except ValueError as error:
        raise DataError(f"{source.name}: {error}") from error
    for number, question in enumerate(made, 1):
        row = {"id": question.question_id, "question": question.text, "answer": question.gold}
        yield RawRow(f"{source.name}, question {number}", row)


def _from_hub(source: BenchmarkSource) -> Iterator[RawRow]:
    """Rows of a Hugging Face data set; ours at their pinned commit."""
    known = KNOWN.get(source.name)
    name, config, split, revision = source.hf_dataset, source.hf_config, source.hf_split, None
    if name is None:
        assert known is not None  # checked by the source
        name, config, revision = known.dataset, config or known.config, known.revision
        split = split or known.split
    split = split or "test"
    rows = _hub_rows(name, config, split, source.revision or revision)
    for number, row in enumerate(rows, 1):
        yield RawRow(f"{name} ({split}), row {number}", row)


def _hub_rows(name: str, config: str | None, split: str, revision: str | None) -> Iterator[Row]:
    from datasets import load_dataset
    from datasets.exceptions import DatasetsError

    try:
        table: Any = load_dataset(name, config, split=split, revision=revision)
    except (DatasetsError, OSError, ValueError) as error:
        raise DataError(
            f"data set {name!r} must be reachable on Hugging Face, got {error}: "
            "where there is no network, give the file as path"
        ) from error
    rows: Iterator[Row] = iter(table)
    return rows
