"""*ProcessGuard*: kills a process that hangs, and the children of one that was killed.

vLLM runs its engine in a process of its own, which waits for work for ever where its parent was
killed: Ray's local node dies with its driver, and a worker whose node is gone ends at once, without
ending anything itself. The GPU memory of such an engine would never be free again. Ray's own agents
end by themselves, but only a minute after their driver was killed.

A process whose event loop hangs, or that is stopped, cannot find that out itself, and Ray takes it
for alive. One that sends heartbeats is killed once they stay away.

Runs as a script: ``python process_guard.py PID LIMIT_S``, with heartbeats on standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import subprocess
import sys
import time

import psutil

_EVERY_S = 0.5


class ProcessGuard:
    """Guards this process: a helper outlives it by a moment and kills what it had started.

    It is in a session of its own, so that what kills this process by its group does not reach it.

    Args:
        limit_s: from the first `beat` on, this process is killed after so long without another.
    """

    def __init__(self, limit_s: float = 0.0) -> None:
        helper = subprocess.Popen(  # noqa: S603 - this very file
            [sys.executable, __file__, str(os.getpid()), f"{limit_s}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert helper.stdin is not None
        self._beats = helper.stdin.fileno()
        self._helper, self._every_s = helper, min(1.0, limit_s / 8)
        os.set_blocking(self._beats, False)

    def beat(self) -> None:
        """Tell the helper that this process is well."""
        with contextlib.suppress(OSError):  # it is full while the helper is stopped, or closed
            os.write(self._beats, b".")

    async def beat_for_ever(self) -> None:
        """Show that the running event loop does not hang."""
        while True:
            self.beat()
            await asyncio.sleep(self._every_s)


def guard(parent: int, limit_s: float) -> None:
    """Kill `parent`, the process that started this one, when it hangs; kill its children after it.

    Args:
        parent: its process id.
        limit_s: longest time between two heartbeats on standard input; 0 expects none.
    """
    seen: set[psutil.Process] = set()
    beat_at = looked_at = time.monotonic()
    beating = False
    while os.getppid() == parent:
        with contextlib.suppress(psutil.NoSuchProcess):
            seen = seen | set(psutil.Process(parent).children(recursive=True))
        seen = {process for process in seen if process.is_running()}
        time.sleep(_EVERY_S)
        now = time.monotonic()
        suspended, looked_at = now - looked_at > 4 * _EVERY_S, now
        if limit_s and select.select([0], [], [], 0)[0]:
            beating = bool(os.read(0, 65_536))  # else the pipe is closed: the parent ends
            beat_at = now
        elif suspended:  # this process did not run either: the parent has its whole time again
            beat_at = now
        elif beating and now - beat_at > limit_s:
            with contextlib.suppress(psutil.Error):
                psutil.Process(parent).kill()
    for process in seen:
        with contextlib.suppress(psutil.Error):  # it has ended, or is one that may not be ended
            if __file__ not in process.cmdline():  # others of its kind end when they are done
                process.kill()  # unless the number is another process's by now


if __name__ == "__main__":
    guard(int(sys.argv[1]), float(sys.argv[2]))
