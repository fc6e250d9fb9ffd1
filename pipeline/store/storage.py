"""*Folder*: reads and writes files through pyarrow.fs: local folders, s3:// and gs:// alike.

Objects are written once and never appended to. On a local disk an object appears under its name by
a rename, on an object store by the store's own atomic put, so a reader sees it whole or not at all.
On a local disk the folder is made durable as well as the file: a rename that only memory knows is
lost with the power.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import posixpath
import re
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from pipeline.core.errors import DataError
from pipeline.store.local import shipped_path
from pipeline.store.parquet import NO_PARQUET, first_line, no_parquet, parquet_bytes, parquet_table

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


@contextmanager
def appearing(target: Path, *, exclusive: bool = False) -> Iterator[Path]:
    """Where to write a file that appears under its name when all of it is on the disk.

    Raises:
        FileExistsError: where there is one and it must not be replaced.
        OSError: naming `target`.
    """
    check_replaceable(target)
    unfinished = target.with_name(f".unfinished-{target.name}-{secrets.token_hex(4)}")
    try:
        yield unfinished
        with unfinished.open("rb") as stream:
            os.fsync(stream.fileno())
        if exclusive:
            _link(unfinished, target)
        else:
            unfinished.replace(target)
        make_durable(target.parent)
    except OSError as error:
        # of a write Python tells no file, of others one whose name nobody knows
        if error.filename != str(unfinished) and error.errno not in _FULL:
            raise
        raise type(error)(error.errno, error.strerror, str(target)) from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)  # a full disk must not be filled further


def check_replaceable(target: Path) -> None:
    """Refuse the place of a folder, a device or a pipe: a rename would take it away.

    Raises:
        OSError: naming the place.
    """
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a directory has the place of a file", str(target))
    if target.exists() and not target.is_file():
        raise FileExistsError(errno.EEXIST, "only a file may be replaced", str(target))


def check_writable(target: Path) -> None:
    """See that a file can be written, in a folder that may have to be made; nothing is made.

    Raises:
        OSError: naming `target`, or the folder that has its place.
    """
    check_replaceable(target)
    above = next(folder for folder in target.parents if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=above):
            pass
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(target)) from error


def _link(unfinished: Path, target: Path) -> None:
    try:
        target.hardlink_to(unfinished)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: the name is taken first
        target.touch(exist_ok=False)
        unfinished.replace(target)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, durably."""
    if not folder.is_dir():
        make_folder(folder.parent)
        try:
            folder.mkdir(exist_ok=True)
        except FileExistsError as error:
            raise NotADirectoryError(
                errno.ENOTDIR, "a file has the place of a directory", str(folder)
            ) from error
        make_durable(folder.parent)


def make_durable(folder: Path) -> None:
    """Write down which names a local folder holds."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that knows no such call
            raise
    finally:
        os.close(number)


_READ_AT_ONCE = 16
_GCS_PATIENCE_S = 30
_NO_LIBRARY = ("Unable to load", "Prior attempt to load")
Address = str | Path
"""Where a folder is: local, or in an object store (``s3://``, ``gs://``)."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
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
    root: str | None = None
    """A local folder above this one that nothing makes again: where it was moved away or deleted,
    writing fails. None makes whatever folder is missing."""

    def child(self, *names: str) -> Folder:
        """A folder below this one."""
        return Folder(posixpath.join(self.address, *names), self.root)

    def make(self) -> None:
        """Make the folder, where the file system has folders."""
        self._target("any")

    def prepare(self, name: str) -> None:
        """See, before long work, that an object of that name can be written; nothing is made.

        Raises:
            OSError, DataError: where it cannot.
        """
        fs, target = self._resolve(self._named(name))
        if isinstance(fs, pafs.LocalFileSystem):
            check_writable(Path(target))

    def write(self, name: str, data: bytes | bytearray) -> None:
        """Write an object whole, replacing one of that name."""
        fs, target = self._target(name)
        if isinstance(fs, pafs.LocalFileSystem):
            with appearing(Path(target)) as unfinished:
                unfinished.write_bytes(data)
            return
        with fs.open_output_stream(target) as stream:
            stream.write(data)

    def create(self, name: str, data: bytes) -> bool:
        """Write an object whole where there is none of that name; whether this call made it.

        Of many that try at once one succeeds on a local disk. Object stores have no such promise
        here: two calls within the moment between look and put may both succeed.
        """
        fs, target = self._target(name)
        if isinstance(fs, pafs.LocalFileSystem):
            try:
                with appearing(Path(target), exclusive=True) as unfinished:
                    unfinished.write_bytes(data)
            except FileExistsError:
                return False
            return True
        if self.has(name):
            return False
        self.write(name, data)
        return self.read(name) == data

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of an object, or some of them; FileNotFoundError where there is none."""
        fs, path = self._resolve(name)
        with fs.open_input_file(path) as stream:
            stream.seek(start)
            return bytes(stream.read(length))

    def read_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """The bytes of several objects by name, some at a time from an object store."""
        listed = list(names)
        with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
            return dict(zip(listed, threads.map(self.read, listed), strict=True))

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
        fs, path = self._resolve(name)
        return bool(fs.get_file_info(path).type == pafs.FileType.File)

    def move(self, name: str, target: str) -> None:
        """Rename an object within this folder; `target` may name a folder below it."""
        _, source = self._resolve(name)
        fs, destination = self._target(target)
        fs.move(source, destination)
        if isinstance(fs, pafs.LocalFileSystem):
            for folder in {Path(destination).parent, Path(source).parent}:
                make_durable(folder)

    def delete(self) -> None:
        """Delete the folder and all in it, if it is there."""
        fs, base = self._resolve()
        with suppress(FileNotFoundError):
            fs.delete_dir(base)

    def write_json(self, name: str, value: Any) -> None:
        """Write a value as indented JSON."""
        self.write(name, json_bytes(value))

    def read_json(self, name: str) -> Any:
        """The value of a JSON object; DataError names a file that is none."""
        data = self.read(name)
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{self._where(name)} must be JSON, got {error}") from error

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a table as Parquet."""
        self.write(name, parquet_bytes(table))

    def read_table(self, name: str) -> pa.Table:
        """The table of a Parquet object; DataError names a file that is none."""
        return parquet_table(self.read(name), self._where(name))

    def read_columns(self, name: str, columns: list[str]) -> pa.Table:
        """Some columns of a Parquet object, without reading the others."""
        fs, path = self._resolve(name)
        try:
            return pq.read_table(path, columns=columns, filesystem=fs)
        except NO_PARQUET as error:
            raise no_parquet(self._where(name), error) from error

    def read_schema(self, name: str) -> pa.Schema:
        """The schema of a Parquet object, without reading its rows."""
        fs, path = self._resolve(name)
        try:
            return pq.read_schema(path, filesystem=fs)
        except NO_PARQUET as error:
            raise no_parquet(self._where(name), error) from error

    def exists(self) -> bool:
        """Whether the folder is there; on an object store, whether anything lies in it."""
        fs, base = self._resolve()
        return bool(fs.get_file_info(base).type == pafs.FileType.Directory)

    def _where(self, name: str) -> str:
        return posixpath.join(self.address, name)

    def _named(self, name: str) -> str:
        if not name:
            raise DataError(f"a file to write must have a name, got the folder {self.address}/")
        return name

    def _resolve(self, name: str = "") -> tuple[pafs.FileSystem, str]:
        fs, base = resolve(self.address)
        if "\0" in name:
            raise DataError(f"a file's name must not hold NUL, got {name!r} in {self.address}")
        return fs, posixpath.join(base, name) if name else base

    def _target(self, name: str) -> tuple[pafs.FileSystem, str]:
        """Where an object is written, with its folder made."""
        fs, target = self._resolve(self._named(name))
        if not isinstance(fs, pafs.LocalFileSystem):
            fs.create_dir(posixpath.dirname(target), recursive=True)
            return fs, target
        if self.root is not None and not Path(self.root).is_dir():
            raise FileNotFoundError(f"{self.root} must be a folder, it is gone: was it moved?")
        make_folder(Path(target).parent)
        return fs, target


def is_local(address: str) -> bool:
    """Whether an address is of a local folder."""
    scheme = _SCHEME.match(address)  # urlparse refuses local paths such as //[x
    return scheme is None or scheme[1].lower() == "file"


def resolve(address: str) -> tuple[pafs.FileSystem, str]:
    """The file system of an address and the path on it; relative paths are local.

    Raises:
        DataError: where it is no address of a folder.
    """
    try:
        if is_local(address):
            found = _SCHEME.match(address)
            local = unquote(address[found.end() :]) if found else address
            path = str(Path(shipped_path(local)).expanduser().resolve())
            path.encode()  # which Arrow does
            return pafs.LocalFileSystem(), path
        scheme, bucket = urlparse(address)[:2]
        if not bucket:
            raise ValueError("it names no bucket")
        if scheme in ("gs", "gcs") and "retry_limit_seconds" not in address:
            # else a store that is away holds everything up for 15 minutes without a word
            address += f"{'&' if '?' in address else '?'}retry_limit_seconds={_GCS_PATIENCE_S}"
        fs, path = pafs.FileSystem.from_uri(address)
        return fs, path
    except (ValueError, RuntimeError, pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and not str(error).startswith(_NO_LIBRARY):
            raise  # a store that is away; what cannot be loaded stays away
        raise DataError(
            f"a folder must be a local path, or s3:// or gs:// with a bucket, got {address!r}: "
            f"{first_line(error)}"
        ) from error


def json_bytes(value: Any) -> bytes:
    """A value as indented JSON; what is no character (a lone surrogate) is written as an escape."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:
        return (json.dumps(value, indent=2) + "\n").encode()


def fresh_token() -> str:
    """Six hex digits that no other process draws but by chance."""
    return secrets.token_hex(3)


def sha256(data: bytes) -> str:
    """The SHA-256 of `data` as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def checksum(data: bytes) -> str:
    """The first 16 hex digits of that."""
    return sha256(data)[:16]
