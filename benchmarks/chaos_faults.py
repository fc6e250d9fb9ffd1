"""What the chaos run does to a run besides killing: storage that fails, and processes that hang."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.running import ROOT

_DISK = b"size=128m"
_DETACH = 2  # MNT_DETACH
RAY = ("gcs_server", "raylet")
"""Names of Ray's own processes."""


class Disk:
    """Where the runs of a chaos run lie: on a small file system of its own, where one may be made.

    Args:
        folder: of the chaos run.
    """

    def __init__(self, folder: Path) -> None:
        self.place = folder / "disk"
        self.place.mkdir(parents=True)
        self._control = folder / "storage-fails"
        shim = folder / "shim"
        shim.mkdir()
        (shim / "sitecustomize.py").write_text(
            f"from benchmarks.chaos_shim import install\ninstall({str(self._control)!r})\n"
        )
        paths = [str(shim), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {"PYTHONPATH": os.pathsep.join(paths)}
        self.refused = self._mount()
        """Why no file system could be mounted; None where it was."""

    def _mount(self) -> str | None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"tmpfs", str(self.place).encode(), b"tmpfs", 0, _DISK) == 0:
            return None
        return os.strerror(ctypes.get_errno())

    def close(self) -> None:
        """Take the file system away."""
        if self.refused is None:
            ctypes.CDLL(None).umount2(str(self.place).encode(), _DETACH)

    def full(self, seconds: float) -> None:
        """Leave no room for so long."""
        filler = self.place / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(1 << 20))
        with contextlib.suppress(OSError), filler.open("ab", buffering=0) as stream:
            while stream.write(bytes(512)):
                pass
        time.sleep(seconds)
        filler.unlink()

    def fail(self, seconds: float) -> None:
        """Let writes fail and wait at random for so long."""
        self._control.touch()
        time.sleep(seconds)
        self._control.unlink()


@contextlib.contextmanager
def hanging(pids: list[int]) -> Iterator[None]:
    """Processes are stopped, and go on afterwards."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
