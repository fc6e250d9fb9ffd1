"""*Streams*: writes files piece by piece: bytes, archives, Parquet tables, a scratch folder.

As all files of a folder, a local one appears under its name when all of it is on the disk.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from pipeline.core.errors import DataError
from pipeline.store.storage import Folder, appearing


@contextmanager
def writing(folder: Folder, name: str) -> Iterator[IO[bytes]]:
    """A stream into a new object; on a local disk the object is there only if all went well."""
    fs, target = folder._target(name)
    if isinstance(fs, pafs.LocalFileSystem):
        with appearing(Path(target)) as unfinished, unfinished.open("wb") as stream:
            yield stream
            stream.flush()
        return
    with fs.open_output_stream(target) as stream:
        yield stream


class Lines:
    """A stream of lines that counts and digests what it was given."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._sum = stream, hashlib.sha256()
        self.count = 0

    def add(self, line: bytes) -> None:
        """Write one line; its end is added."""
        self._stream.write(line + b"\n")
        self._sum.update(line + b"\n")
        self.count += 1

    @property
    def sha256(self) -> str:
        """Of all that was written."""
        return self._sum.hexdigest()


class Archive:
    """A ZIP file in the making."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file

    def add(self, name: str, data: bytes) -> None:
        """Add a member; its time is that of nothing, so that equal content is an equal file."""
        self._file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)


@contextmanager
def archive(folder: Folder, name: str) -> Iterator[Archive]:
    """A ZIP file into which members are written one after the other."""
    with writing(folder, name) as stream, zipfile.ZipFile(stream, "w") as file:
        yield Archive(file)


class Tables:
    """A Parquet object in the making, a row group a table."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self.rows = 0

    def add(self, table: pa.Table) -> None:
        """Write one row group."""
        self._writer.write_table(table)
        self.rows += table.num_rows


def write_tables(folder: Folder, name: str, schema: pa.Schema, parts: Iterable[pa.Table]) -> int:
    """Write tables as one Parquet object, a row group each, one in memory; returns the rows."""
    with tables(folder, name, schema) as written:
        for part in parts:
            written.add(part)
    return written.rows


@contextmanager
def tables(folder: Folder, name: str, schema: pa.Schema) -> Iterator[Tables]:
    """A Parquet object into which tables are written one after the other."""
    with (
        writing(folder, name) as stream,
        pq.ParquetWriter(stream, schema, compression="zstd") as writer,
    ):
        yield Tables(writer)


@contextmanager
def scratch() -> Iterator[Folder]:
    """A local folder that is gone afterwards, below ``TMPDIR``."""
    path = tempfile.mkdtemp(prefix="markovscale-")
    try:
        yield Folder(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


Row = dict[str, Any]


def packed_lines(rows: Iterable[Row]) -> bytes:
    """Rows as compressed JSON lines."""
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    return lzma.compress(text.encode())


def unpacked_lines(data: bytes, where: str) -> list[Row]:
    """The rows of compressed JSON lines.

    Raises:
        DataError: naming the file, where it is torn or something else.
    """
    try:
        return lines_of(lzma.decompress(data), where)
    except (lzma.LZMAError, EOFError) as error:
        raise DataError(f"{where} must be compressed JSON lines, got: {error}") from error


def lines_of(data: bytes, where: str) -> list[Row]:
    """The rows of JSON lines, an object each.

    Raises:
        DataError: naming the file, where it is something else.
    """
    try:
        rows = [json.loads(line) for line in data.splitlines()]
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("a line is no object")
        return rows
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} must be JSON lines, got: {error}") from error
