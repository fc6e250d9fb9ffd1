"""*Endings*: ends a job with one line on standard error and a status, whatever failed."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO, cast

from pipeline.core.errors import MarkovScaleError

EXIT_RESUMABLE = 75  # EX_TEMPFAIL: try again later
EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 130, 141  # as shells say it of SIGINT and of SIGPIPE


def in_one_line(job: Callable[..., int]) -> Callable[..., int]:
    """A job whose errors end it with one line and a status (`ended_by`)."""

    @functools.wraps(job)
    def main(argv: Sequence[str] | None = None) -> int:
        _spell()
        try:
            status = job(argv)
            if sys.stdout is not None:
                sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:
            return ended_by(error)
        return status

    return main


def ended_by(error: BaseException, run: str | None = None) -> int:
    """Prints the line of an error that ends a job; returns the exit status.

    Errors of this project have their own. Files that cannot be used are 2, or 1 while a run is at
    work; Ray's errors are 75; a reader of the output that is gone is 141, without a word.

    Args:
        error: what ended it; a bug is raised again, for its traceback.
        run: address of the run that a resume would go on with.
    """
    match error:
        case MarkovScaleError():
            status, why = error.status, f"{error.ending}: {error}"
        case OSError(errno=errno.EPIPE):
            status, why = EXIT_BROKEN_PIPE, ""
        case OSError():
            status, why = (2, f"error: {error}") if run is None else (1, f"failed: {error}")
        case MemoryError():
            status, why = 1, "failed: this process has no memory left"
        case KeyboardInterrupt():
            status, why = EXIT_INTERRUPTED, ""
        case _ if is_of_ray(error):
            status, why = EXIT_RESUMABLE, f"stopped: Ray failed ({named(error)})"
        case _:
            raise error
    if why and run is not None and "--resume" not in why:
        why += f"; resume with --resume {run}"
    elif run is None and status == EXIT_RESUMABLE:
        why += "; start it again"
    return _ended(status, why)


def is_of_ray(error: BaseException) -> bool:
    """Whether it is one that Ray raises; jobs that do without Ray must not import it to ask."""
    return type(error).__module__.startswith(("ray.exceptions", "ray.serve.exceptions"))


def named(error: BaseException) -> str:
    """An error of Ray: its kind, and the last line, which has the cause."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[-1]}"


def _ended(status: int, why: str = "") -> int:
    with contextlib.suppress(OSError, ValueError):
        if why:
            print(why, file=sys.stderr)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    # what cannot be written would be tried again at the end of Python, and told with a traceback
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _spell() -> None:
    """Write what a terminal's or file's encoding has no character for as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _TolerantStream:
    """A stream that takes everything, even where nobody reads it any more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what can be written."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Pass on what can be passed on."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def ignore_broken_pipe() -> None:
    """Let this process go on where its output is closed, or its terminal is gone.

    A run costs more than its log: it is durable, and `jobs.status` tells of it.
    """
    for number in (0, 1, 2):
        with contextlib.suppress(OSError):
            os.fstat(number)
            continue
        os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: what is opened next
        # must not be taken for standard output
    _spell()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        if not isinstance(stream, _TolerantStream):
            setattr(sys, name, cast(TextIO, _TolerantStream(stream)))
