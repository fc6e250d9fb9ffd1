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

from pipeline.core.errors import ConfigError, DataError, MarkovScaleError, ReplayMissError

EXIT_RESUMABLE = 75  # EX_TEMPFAIL: try again later
EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 130, 141  # as shells say it of SIGINT and of SIGPIPE


def in_one_line(job: Callable[..., int]) -> Callable[..., int]:
    """A job whose errors end it with one line and a status.

    Files and values that cannot be used are 2, what else this project raises is 1, Ray's errors are
    75, and a reader of its output that is gone is 141, without a word.
    """

    @functools.wraps(job)
    def main(argv: Sequence[str] | None = None) -> int:
        _spell()
        try:
            status = job(argv)
            if sys.stdout is not None:
                sys.stdout.flush()
        except (ConfigError, DataError, ReplayMissError) as error:
            return _ended(2, f"error: {error}")
        except MarkovScaleError as error:  # such as: no Ray at that address
            return _ended(1, f"failed: {error}")
        except OSError as error:
            if error.errno == errno.EPIPE:
                return _ended(EXIT_BROKEN_PIPE)
            return _ended(2, f"error: {error}")
        except MemoryError:
            return _ended(1, "failed: this process has no memory left")
        except KeyboardInterrupt:
            return _ended(EXIT_INTERRUPTED)
        except Exception as error:
            if not is_of_ray(error):
                raise
            return _ended(EXIT_RESUMABLE, f"stopped: Ray failed ({named(error)}); start it again")
        return status

    return main


def is_of_ray(error: BaseException) -> bool:
    """Whether it is one that Ray raises; jobs that do without Ray must not import it to ask."""
    return type(error).__module__.startswith("ray.exceptions")


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
