"""A shim that makes storage slow and unreliable: in each Python process of a run synchronising a
file waits, or fails with EIO, at random, for as long as a control file exists.

Files are written aside, synchronised and renamed, so that what fails leaves a torn file behind, as
a real disk does.
"""

from __future__ import annotations

import errno
import os
import random
import time

_FAILS, _WAITS, _MOST_S = 0.3, 0.3, 1.0


def install(control: str) -> None:
    """Replace `os.fsync` in this process; imported by name, it stays what it was."""
    synchronise = os.fsync

    def fsync(number: int) -> None:
        if os.path.exists(control):
            if random.random() < _WAITS:  # noqa: S311 - no secret
                time.sleep(random.uniform(0, _MOST_S))  # noqa: S311
            if random.random() < _FAILS:  # noqa: S311
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        synchronise(number)

    os.fsync = fsync  # type: ignore[assignment]
