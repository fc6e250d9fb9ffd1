"""Files of a run through pyarrow.fs: local folders, s3:// and gs:// alike.

Objects are written once and never appended to. On a local disk an object appears under its name by
a rename, on an object store by the store's own atomic put, so a reader sees it whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import posixpath
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from pipeline.core.errors import DataError

MOST_UNPACKED_BYTES = 8 << 30
"""What one Parquet object may unpack to; a segment of a journal is a thousandth of it."""
MOST_ROWS = 20_000_000

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def check_name(name: str, what: str) -> str:
    """Refuse a name that could leave its folder or that a file system may not take."""
    if not _SAFE_NAME.fullmatch(name) or ".." in name:
        raise DataError(
            f"{what} must be 1 to 128 letters, digits, '.', '_' or '-', "
            f"starting with a letter or digit, got {name!r}"
        )
    return name


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder on any file system, by its address."""

    address: str

    def child(self, *names: str) -> Folder:
        """A folder below this one."""
        return Folder(posixpath.join(self.address, *names))

    def write(self, name: str, data: bytes) -> None:
        """Write an object whole, replacing one of that name."""
        fs, base = self._resolve()
        target = posixpath.join(base, name)
        fs.create_dir(posixpath.dirname(target), recursive=True)
        if not isinstance(fs, pafs.LocalFileSystem):
            with fs.open_output_stream(target) as stream:
                stream.write(data)
            return
        _write_local(Path(target), data)

    def read(self, name: str) -> bytes:
        """The bytes of an object; FileNotFoundError where there is none."""
        fs, base = self._resolve()
        with fs.open_input_file(posixpath.join(base, name)) as stream:
            return bytes(stream.read())

    def names(self) -> list[str]:
        """Names of the objects directly in this folder, sorted; [] where it does not exist."""
        fs, base = self._resolve()
        infos = fs.get_file_info(pafs.FileSelector(base, allow_not_found=True))
        files = (info.base_name for info in infos if info.type == pafs.FileType.File)
        return sorted(name for name in files if not name.startswith("."))

    def folders(self) -> list[str]:
        """Names of the folders directly in this one, sorted."""
        fs, base = self._resolve()
        infos = fs.get_file_info(pafs.FileSelector(base, allow_not_found=True))
        return sorted(info.base_name for info in infos if info.type == pafs.FileType.Directory)

    def has(self, name: str) -> bool:
        """Whether an object of that name exists."""
        fs, base = self._resolve()
        info = fs.get_file_info(posixpath.join(base, name))
        return bool(info.type == pafs.FileType.File)

    def move(self, name: str, target: str) -> None:
        """Rename an object within this folder; `target` may name a folder below it."""
        fs, base = self._resolve()
        destination = posixpath.join(base, target)
        fs.create_dir(posixpath.dirname(destination), recursive=True)
        fs.move(posixpath.join(base, name), destination)

    def write_json(self, name: str, value: Any) -> None:
        """Write a value as indented JSON."""
        self.write(name, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())

    def read_json(self, name: str) -> Any:
        """The value of a JSON object; DataError names a file that is none."""
        try:
            return json.loads(self.read(name))
        except json.JSONDecodeError as error:
            where = posixpath.join(self.address, name)
            raise DataError(f"{where} must be JSON, got {error}") from error

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a table as Parquet."""
        self.write(name, parquet_bytes(table))

    def write_tables(self, name: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
        """Write tables as one Parquet object, a row group each, one in memory; returns the rows."""
        fs, base = self._resolve()
        fs.create_dir(base, recursive=True)
        written = 0
        with (
            fs.open_output_stream(posixpath.join(base, name)) as stream,
            pq.ParquetWriter(stream, schema, compression="zstd") as writer,
        ):
            for table in tables:
                writer.write_table(table)
                written += table.num_rows
        return written

    def read_table(self, name: str) -> pa.Table:
        """The table of a Parquet object; DataError names a file that is none."""
        return parquet_table(self.read(name), posixpath.join(self.address, name))

    def read_columns(self, name: str, columns: list[str]) -> pa.Table:
        """Some columns of a Parquet object, without reading the others."""
        fs, base = self._resolve()
        where = posixpath.join(self.address, name)
        try:
            return pq.read_table(posixpath.join(base, name), columns=columns, filesystem=fs)
        except pa.ArrowInvalid as error:
            raise DataError(f"{where} must be a whole Parquet file, got: {error}") from error

    def read_schema(self, name: str) -> pa.Schema:
        """The schema of a Parquet object, without reading its rows."""
        fs, base = self._resolve()
        try:
            return pq.read_schema(posixpath.join(base, name), filesystem=fs)
        except pa.ArrowInvalid as error:
            where = posixpath.join(self.address, name)
            raise DataError(f"{where} must be a whole Parquet file, got: {error}") from error

    def _resolve(self) -> tuple[pafs.FileSystem, str]:
        return resolve(self.address)


def _write_local(target: Path, data: bytes) -> None:
    """Let a file appear under its name when all of it is on the disk."""
    unfinished = target.with_name(f".unfinished-{target.name}-{secrets.token_hex(4)}")
    try:
        with unfinished.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(target)
    except OSError:
        unfinished.unlink(missing_ok=True)  # a full disk must not be filled further
        raise


def resolve(address: str) -> tuple[pafs.FileSystem, str]:
    """The file system of an address and the path on it; relative paths are local."""
    if urlparse(address).scheme in ("", "file"):
        path = address.removeprefix("file://")
        return pafs.LocalFileSystem(), str(Path(path).expanduser().resolve())
    fs, path = pafs.FileSystem.from_uri(address)
    return fs, path


def parquet_bytes(table: pa.Table) -> bytes:
    """A table as the bytes of a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def parquet_table(data: bytes, where: str) -> pa.Table:
    """A table from the bytes of a Parquet file.

    Raises:
        DataError: naming the file, where it is cut short, is something else, or would fill memory.
    """
    try:
        check_unpacked_size(pq.read_metadata(pa.BufferReader(data)), where)
        return pq.read_table(pa.BufferReader(data))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{where} must be a whole Parquet file, got: {error}") from error


def check_unpacked_size(
    metadata: pq.FileMetaData, where: str, most_bytes: int = MOST_UNPACKED_BYTES
) -> None:
    """Refuse a Parquet file that says it unpacks to more than a process should hold.

    Raises:
        DataError: naming the file.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    unpacked = sum(group.total_byte_size for group in groups)
    if unpacked > most_bytes or metadata.num_rows > MOST_ROWS:
        raise DataError(
            f"a Parquet file must unpack to at most {most_bytes:,} bytes and {MOST_ROWS:,} rows, "
            f"got {unpacked:,} and {metadata.num_rows:,} in {where}"
        )


def fresh_token() -> str:
    """Six hex digits that no other process draws but by chance."""
    return secrets.token_hex(3)


def checksum(data: bytes) -> str:
    """First 16 hex digits of the SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()[:16]
