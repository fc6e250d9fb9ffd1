"""Local files that appear under their names when all of them is on the disk."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def appearing(target: Path, *, exclusive: bool = False) -> Iterator[Path]:
    """Where to write a file that appears under its name when all of it is on the disk.

    Raises:
        FileExistsError: where there is one and it must not be replaced.
    """
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
    finally:
        unfinished.unlink(missing_ok=True)  # a full disk must not be filled further


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
        folder.mkdir(exist_ok=True)
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
