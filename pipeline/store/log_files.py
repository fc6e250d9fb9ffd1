"""*Log files*: finds logs by path, folder or pattern and reads them as rows, JSON or archives.

Files that end in ``.gz`` or ``.zst`` are unpacked first.
"""

from __future__ import annotations

import glob
import io
import json
import re
import shutil
import struct
import weakref
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa

from pipeline.core.errors import DataError
from pipeline.store.row_files import RawRow, read_rows
from pipeline.store.storage import sha256

_MOST_ROW, _MOST_FILE = 1 << 30, 1 << 34
_MOST_MEMBER = _MOST_UNPACKED = 1 << 32
_CHUNK = 1 << 20
_LOCAL_HEADER = 30
_ZSTANDARD = 93
_PACKED = {".gz": "gzip", ".zst": "zstd"}


class UnreadableError(DataError):
    """A file that cannot be read at all."""


@dataclass(frozen=True)
class LogFile:
    """One file of a log."""

    path: str

    @property
    def name(self) -> str:
        """The file's own name, without ``.gz`` or ``.zst``."""
        path = Path(self.path)
        return path.stem if path.suffix in _PACKED else path.name

    @property
    def folder(self) -> str:
        """The path of the folder that holds it."""
        return str(Path(self.path).parent)

    @property
    def digest(self) -> str:
        """SHA-256 of its bytes."""
        return sha256(Path(self.path).read_bytes())

    def rows(self) -> Iterator[RawRow]:
        """Its rows: of JSONL, JSON, CSV or Parquet, by the ending of its name.

        Raises:
            UnreadableError: naming the file, before any row of it.
        """
        file = self._unpacked

        def named(text: str) -> str:
            return text.replace(str(file), self.path)

        try:
            rows = read_rows(file, max_row_bytes=_MOST_ROW, max_file_bytes=_MOST_FILE)
            if file.suffix != ".jsonl":  # of which every line stands for itself
                rows = iter(list(rows))
        except DataError as error:
            raise UnreadableError(named(str(error))) from error
        return (replace(row, where=named(row.where)) for row in rows)

    def json(self) -> Any:
        """Its JSON value.

        Raises:
            UnreadableError: naming the file, where it holds none.
        """
        return _json(self._unpacked.read_bytes(), self.path)

    def archive(self) -> Archive:
        """Its members, where it is a ZIP file.

        Raises:
            UnreadableError: naming the file, where it is none, or is cut short.
        """
        return Archive(self.path, self._unpacked.read_bytes())

    @cached_property
    def _unpacked(self) -> Path:
        """The file itself, or a copy that is not packed and goes with this object."""
        packing = _PACKED.get(Path(self.path).suffix)
        if packing is None:
            return Path(self.path)
        scratch = mkdtemp(prefix="markovscale-log-")
        weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
        copy = Path(scratch) / self.name
        try:
            with pa.input_stream(self.path, compression=packing) as packed, copy.open("wb") as out:
                while part := packed.read(_CHUNK):
                    out.write(part)
                    if out.tell() > _MOST_UNPACKED:
                        raise UnreadableError(
                            f"a file must unpack to at most {_MOST_UNPACKED:,} bytes, "
                            f"{self.path} has more: unpack it yourself"
                        )
        except (OSError, EOFError) as error:
            raise UnreadableError(f"{self.path} must be whole {packing}, got: {error}") from error
        return copy


class Archive:
    """The members of a ZIP file, deflated or compressed with Zstandard."""

    def __init__(self, path: str, data: bytes) -> None:
        self._path, self._data = path, data
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError) as error:
            raise UnreadableError(f"{path} must be a ZIP file, got: {error}") from error

    @property
    def names(self) -> list[str]:
        """Names of its members, in the order of writing."""
        return self._zip.namelist()

    def json(self, name: str) -> Any:
        """The JSON value of a member.

        Raises:
            UnreadableError: naming file and member, where it cannot be read.
        """
        return _json(self._member(name), f"{self._path}, {name}")

    def _member(self, name: str) -> bytes:
        info = self._zip.getinfo(name)
        if info.file_size > _MOST_MEMBER:
            raise UnreadableError(
                f"a member must unpack to at most {_MOST_MEMBER:,} bytes, got {info.file_size:,} "
                f"in {self._path}, {name}"
            )
        try:
            if info.compress_type != _ZSTANDARD:
                return self._zip.read(name)
            start = info.header_offset  # Python's zipfile reads Zstandard from 3.14 on
            lengths = struct.unpack("<HH", self._data[start + 26 : start + _LOCAL_HEADER])
            start += _LOCAL_HEADER + sum(lengths)
            packed = pa.py_buffer(self._data[start : start + info.compress_size])
            with pa.input_stream(packed, compression="zstd") as stream:
                return bytes(stream.read(info.file_size))
        except (zipfile.BadZipFile, NotImplementedError, struct.error, OSError) as error:
            raise UnreadableError(f"{self._path}, {name} must be readable, got: {error}") from error


def find_logs(names: Sequence[str], patterns: Sequence[str]) -> list[LogFile]:
    """The files behind paths, glob patterns and folders, each once, in the order of the names.

    Args:
        names: as given on a command line.
        patterns: of the file names that count below a folder; the first that any file fits is used.

    Raises:
        DataError: where a name is no file, or no file below a folder fits.
    """
    found: dict[str, LogFile] = {}
    for name in names:
        for path in sorted(glob.glob(name, recursive=True), key=_natural) or [name]:
            place = Path(path).expanduser()
            if place.is_dir():
                files = _below(place, patterns)
            elif place.is_file():
                files = [place]
            else:
                raise DataError(f"a log must be a file or a folder, got {name!r}")
            found.update({str(file): LogFile(str(file)) for file in files})
    return list(found.values())


def _below(folder: Path, patterns: Sequence[str]) -> list[Path]:
    files = sorted((f for f in folder.rglob("*") if f.is_file()), key=lambda f: _natural(str(f)))
    for pattern in patterns:
        if fitting := [f for f in files if fnmatch(LogFile(str(f)).name, pattern)]:
            return fitting
    raise DataError(f"a folder must hold {' or '.join(patterns)}, {folder} holds none")


def _natural(path: str) -> list[tuple[int, str]]:
    """Sorts rs2 before rs10."""
    parts = re.split(r"([0-9]+)", path)
    return [(int(part), "") if number % 2 else (-1, part) for number, part in enumerate(parts)]


def _json(data: bytes, where: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"{where} must be JSON, got {error}") from error
