"""Runs a job in a child process, so that one line and a status say how it ended even where Ray ends
the process itself.

Where its node or the cluster's head dies, Ray ends the driver by `_Exit(1)` or `abort()`: no
exception is raised, nothing is printed, and the status means something else. The parent only waits,
passes signals on, and says what the child could not say.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

from jobs.endings import EXIT_RESUMABLE, ignore_broken_pipe

_END_S = 60.0  # how long a job that has told its status may take to end, Ray's own end included
_LOOK_S, _PAUSE_S = 1.0, 0.02
_PR_SET_PDEATHSIG = 1
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_HAS_ENDED = re.compile(rb"^end \d+$", re.MULTILINE)

_word: int | None = None
"""Where a child writes; None where it is nobody's child."""


def resumable(address: str) -> None:
    """Tell the parent, if there is one, the run that `--resume` would go on with."""
    _print_to_parent(f"run {' '.join(address.splitlines())}")


def explained(status: int) -> None:
    """Tell the parent, if there is one, that the job has said why it ends with that status: so it
    does, even if Ray ends it before it is done."""
    _print_to_parent(f"status {status}")


def supervised(job: Callable[[], int]) -> int:
    """The exit status of a job that runs in a child process; the child itself returns it too.

    A child that ends without telling its status was ended from outside: that is said, and the
    status is 75. A child that has told it, but does not end, is killed.
    """
    global _word
    ignore_broken_pipe()
    if sys.platform != "linux":
        return job()
    parent = os.getpid()
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    # a signal that comes before the parent can pass it on must not end the parent alone
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    child = os.fork()
    if child:
        os.close(writing)
        os.set_blocking(reading, False)
        return _wait(child, reading, before)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(reading)
    _die_with(parent)
    _word = writing
    try:
        status = job()
    except KeyboardInterrupt:
        return EXIT_RESUMABLE  # the parent has passed it on, and says so
    except BaseException as error:
        _print_to_parent(f"end {_status_of(error)}")
        raise
    explained(status)
    _print_to_parent(f"end {status}")
    for number in _PASSED_ON:  # Ray's own end is not cut short; the parent sees that it comes
        signal.signal(number, signal.SIG_IGN)
    return status


def _wait(child: int, reading: int, mask: set[signal.Signals] | set[int]) -> int:
    sent: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        del frame
        sent.append(number)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for number in _PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants of SIGHUP
            signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    status, give_up = b"", math.inf
    while True:
        select.select([reading], [], [], _LOOK_S)
        status += _read(reading)
        if give_up == math.inf and _HAS_ENDED.search(status):
            give_up = time.monotonic() + _END_S
        pid, code = os.waitpid(child, os.WNOHANG)
        if pid:
            ended = os.waitstatus_to_exitcode(code)
            break
        if time.monotonic() > give_up:
            os.kill(child, signal.SIGKILL)
        time.sleep(_PAUSE_S)
    lines = os.fsdecode(status + _read(reading)).split("\n")
    words = {word: rest for word, _, rest in (line.partition(" ") for line in lines)}
    if "status" in words:
        return int(words["status"])
    # Ray ends a process by its signal's number, where nothing of ours takes the signal yet or still
    if "end" in words and int(words["end"]) not in sent:
        return int(words["end"])
    on = f"resume with --resume {words['run']}" if "run" in words else "start it again"
    print(f"stopped: {_reason(ended, sent)}; {on}", file=sys.stderr)
    return EXIT_RESUMABLE


def _reason(ended: int, sent: list[int]) -> str:
    if sent:
        return f"stopped by {signal.Signals(sent[-1]).name}"
    if ended == -signal.SIGKILL:
        return "the driver was killed by SIGKILL, perhaps since the machine is short of memory"
    if ended not in (1, -signal.SIGABRT):
        return f"the driver was ended from outside (exit status {ended})"
    how = "SIGABRT" if ended < 0 else f"status {ended}"
    return f"Ray has ended the driver ({how}): Ray's node or head is gone"


def _read(reading: int) -> bytes:
    """What is there; nothing where nothing is, or at the end."""
    with contextlib.suppress(BlockingIOError):
        return os.read(reading, 65536)
    return b""


def _print_to_parent(word: str) -> None:
    if _word is not None:
        with contextlib.suppress(OSError):  # the parent is gone, and so will this process be
            os.write(_word, os.fsencode(f"{word}\n"))


def _status_of(error: BaseException) -> int:
    if not isinstance(error, SystemExit):
        return 1
    return error.code if isinstance(error.code, int) else int(error.code is not None)


def _die_with(parent: int) -> None:
    """Be killed when the parent is."""
    os.setpgid(0, 0)  # a terminal's Ctrl-C reaches the parent alone, which passes it on
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
