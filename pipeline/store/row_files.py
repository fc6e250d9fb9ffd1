"""*Row files*: reads the rows of a local JSONL, JSON, CSV, TSV, Parquet or Arrow file."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.errors import DataError
from pipeline.store.parquet import NO_PARQUET, check_unpacked_size

Row = dict[str, Any]
_EMPTY_CELLS = ("nan", "NaN", "None", "null", "NULL", "<NA>")  # as pandas and databases write it
SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row, or why it could not be read."""

    where: str
    """File and line, or data set and row, from 1 on."""
    row: Row | None
    problem: str | None = None


def find_files(path: str, name: str, split: str = "test") -> list[str]:
    """The files of benchmark `name` at `path`: the file itself, or those of a folder that holds
    the benchmark's file, a split of a cloned data set, or what ``save_to_disk`` wrote.

    Raises:
        DataError: if there is none, or more than one that could be meant.
    """
    try:
        place = Path(path).expanduser()
    except RuntimeError as error:
        raise DataError(
            f"the path of benchmark {name!r} must be one, got {path!r}: {error}"
        ) from error
    if place.is_file():
        if place.suffix not in SUFFIXES:
            raise DataError(f"a benchmark file must end in {', '.join(SUFFIXES)}, got {path!r}")
        return [str(place)]
    if not place.is_dir():
        raise DataError(f"the path of benchmark {name!r} must be a file or folder, got {path!r}")
    if (place / "dataset_dict.json").is_file() or (place / "state.json").is_file():
        return [str(file) for file in _saved(place, split)]
    stems = (name, f"{name}_test", f"{name}/test")
    named = [place / f"{stem}{end}" for stem in stems for end in SUFFIXES]
    found = [file for file in named if file.is_file()][:1]
    if not found:
        found = sorted(file for file in place.iterdir() if file.suffix in SUFFIXES)
        found = found if len(found) == 1 else _shards(place, split)
    if not found:
        raise DataError(
            f"a benchmark folder must hold {name}.jsonl (or .json, .csv, .tsv, .parquet, or "
            f"{name}_test.jsonl), one data file alone, or the files of one split, "
            f"{split}.jsonl or {split}-00000-of-00001.parquet; none or several are in {path!r}: "
            "name the file"
        )
    return [str(file) for file in found]


def _saved(folder: Path, split: str) -> list[Path]:
    """The Arrow files of what ``save_to_disk`` of `datasets` wrote: a data set, or one by split."""
    if (folder / "dataset_dict.json").is_file():
        splits = sorted(part.name for part in folder.iterdir() if (part / "state.json").is_file())
        if split not in splits and len(splits) != 1:
            raise DataError(
                f"a saved data set must have the split {split}, got {', '.join(splits)} in "
                f"{str(folder)!r}: name the folder of one"
            )
        folder /= split if split in splits else splits[0]
    found = sorted(folder.glob("*.arrow"))
    if not found:
        raise DataError(f"a saved data set must hold *.arrow files, got none in {str(folder)!r}")
    return found


def _shards(folder: Path, split: str) -> list[Path]:
    """The files of one split in a cloned data set: ``test.csv``, ``data/test-*.parquet`` or
    ``main/test-*.parquet``; none where several sets of files could be meant."""
    of_split = re.compile(rf"{re.escape(split)}(-\d+-of-\d+)?")
    found = [
        file
        for level in ("*", "*/*")
        for file in sorted(folder.glob(level))
        if file.suffix in SUFFIXES and of_split.fullmatch(file.stem)
    ]
    several = len({(file.parent, file.suffix) for file in found}) > 1
    return [] if several else found


def read_rows(path: str | Path, *, max_row_bytes: int, max_file_bytes: int) -> Iterator[RawRow]:
    """Every row of a file, bad ones with their problem.

    Raises:
        DataError: if the file as a whole cannot be read.
    """
    file = Path(path)
    size = file.stat().st_size
    if size > max_file_bytes:
        raise DataError(
            f"a benchmark file must have at most {max_file_bytes} bytes (max_file_bytes), "
            f"got {size} in {file}"
        )
    match file.suffix:
        case ".jsonl":
            return _jsonl(file, max_row_bytes)
        case ".json":
            return _json(file)
        case ".csv" | ".tsv":
            return _csv(file, max_row_bytes)
        case ".arrow":
            return _arrow(file)
        case ".parquet":
            return _parquet(file, max_file_bytes)
        case other:
            raise DataError(f"a file must be {', '.join(SUFFIXES)}, got {other!r} in {file}")


def _jsonl(file: Path, max_row_bytes: int) -> Iterator[RawRow]:
    with file.open("rb") as stream:
        number = 0
        while line := stream.readline(max_row_bytes + 1):
            number += 1
            where = f"{file}, line {number}"
            if len(line) > max_row_bytes and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = stream.readline(max_row_bytes)
                problem = f"a row must have at most {max_row_bytes} bytes (max_row_bytes)"
                yield RawRow(where, None, problem)
                continue
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                yield RawRow(where, None, f"a line must be UTF-8, got {error.reason}")
                continue
            if text.strip():
                yield _object(text, where)


def _object(text: str, where: str) -> RawRow:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return RawRow(where, None, f"a line must be one JSON object, got {error}")
    if not isinstance(value, dict):
        return RawRow(where, None, f"a row must be a JSON object, got {type(value).__name__}")
    return RawRow(where, value)


def _json(file: Path) -> Iterator[RawRow]:
    try:
        value = json.loads(_text(file))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} must be JSON: {error}") from error
    if isinstance(value, dict):
        lists = [part for part in value.values() if isinstance(part, list)]
        keyed = bool(value) and all(isinstance(part, dict) for part in value.values())
        if keyed:  # by id, which becomes a field where rows do not have it
            value = [{"key": key, **part} for key, part in value.items()]
        else:
            value = lists[0] if len(lists) == 1 else None
    if not isinstance(value, list):
        raise DataError(
            f"{file} must hold a list of rows, an object with one such list, or rows by key"
        )
    for number, row in enumerate(value, 1):
        where = f"{file}, row {number}"
        if isinstance(row, dict):
            yield RawRow(where, row)
        else:
            yield RawRow(where, None, f"a row must be an object, got {type(row).__name__}")


def _text(file: Path) -> str:
    data = file.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"a file must be UTF-8, got {error.reason} in {file}, line {line}: save it as UTF-8"
        ) from error


def _csv(file: Path, max_row_bytes: int) -> Iterator[RawRow]:
    text = _text(file)
    separator = "\t" if file.suffix == ".tsv" else _separator(text.partition("\n")[0])
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header: list[str] | None = None
    line = 1
    while True:
        where = f"{file}, line {line}"
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(f"a CSV file must be well formed, got {error} in {where}") from error
        line = reader.line_num + 1
        if not cells:
            continue
        if header is None:
            header = [cell.strip() for cell in cells]
            if len(set(header)) != len(header):
                raise DataError(f"the columns of a CSV file must differ, got {header} in {where}")
        elif len(cells) != len(header):
            yield RawRow(where, None, f"a row must have {len(header)} cells, got {len(cells)}")
        elif sum(map(len, cells)) > max_row_bytes:
            yield RawRow(where, None, f"a row must have at most {max_row_bytes} bytes")
        else:
            values = (None if cell.strip() in _EMPTY_CELLS else cell for cell in cells)
            yield RawRow(where, dict(zip(header, values, strict=True)))


def _separator(header: str) -> str:
    """What separates the cells of a header; a comma unless another sign gives more of them."""

    def cells(sign: str) -> int:
        return max(map(len, csv.reader([header], delimiter=sign)), default=0)

    return max((",", ";", "\t", "|"), key=cells)


def _arrow(file: Path) -> Iterator[RawRow]:
    """Rows of an Arrow stream, as `datasets` saves them."""
    number = 0
    try:
        with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as stream:
            for batch in stream:
                for row in batch.to_pylist():
                    number += 1
                    yield RawRow(f"{file}, row {number}", row)
    except (*NO_PARQUET, OSError) as error:
        raise DataError(f"{file} must be an Arrow stream: {error}") from error


def _parquet(file: Path, max_file_bytes: int) -> Iterator[RawRow]:
    try:
        number = 0
        with pq.ParquetFile(file) as table:
            check_unpacked_size(table.metadata, str(file), max_file_bytes)
            for batch in table.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    number += 1
                    yield RawRow(f"{file}, row {number}", row)
    except (*NO_PARQUET, OSError) as error:
        raise DataError(f"{file} must be a Parquet file: {error}") from error
