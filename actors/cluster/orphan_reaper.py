"""Ends the processes that a host of an engine, or a driver with a Ray of its own, leaves behind.

vLLM runs its engine in a process of its own, which waits for work for ever where its parent was
killed: Ray's local node dies with its driver, and a worker whose node is gone ends at once, without
ending anything itself. The GPU memory of such an engine would never be free again. Ray's own agents
end by themselves, but only a minute after their driver was killed.

Runs as a script: ``python orphan_reaper.py PID``.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time

import psutil

_EVERY_S = 0.5


def hold() -> None:
    """Let a process outlive this one by a moment, and kill what this one had started by then.

    It is in a session of its own, so that what kills this process by its group does not reach it.
    """
    subprocess.Popen(  # noqa: S603 - this very file
        [sys.executable, __file__, str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def follow(parent: int) -> None:
    """Note what `parent`, the process that started this one, has running; kill it after its end."""
    seen: set[psutil.Process] = set()
    while os.getppid() == parent:
        with contextlib.suppress(psutil.NoSuchProcess):
            seen = seen | set(psutil.Process(parent).children(recursive=True))
        seen = {process for process in seen if process.is_running()}
        time.sleep(_EVERY_S)
    for process in seen:
        with contextlib.suppress(psutil.Error):  # it has ended, or is one that may not be ended
            if __file__ not in process.cmdline():  # others of its kind end when they are done
                process.kill()  # unless the number is another process's by now


if __name__ == "__main__":
    follow(int(sys.argv[1]))
