"""Local files that appear under their names when all of them is on the disk."""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
