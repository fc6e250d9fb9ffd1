"""What is asked of a user's own code that decides: no clock, no random numbers, no files, and the
same decisions in every process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_ASIDE = {
    "time": "the clock",
    "random": "random numbers",
    "posix": "the system (files, random bytes, the environment)",
    "_io": "files",
    "io": "files",
    "_socket": "the network",
}
"""What a decision must not rest on, by the module that the called function is of."""
_HASH_SEEDS = ("1", "2", "3")
"""Of other processes: of one alone a decision may be the same by chance."""
_NOW = ("now", "today", "utcnow")


def asks_aside(drive: Callable[[], object]) -> str | None:
    """The first call of something that no decision may rest on, in words; None where none is."""
    with suppress(Exception):  # what else is amiss is found by other checks
        drive()  # imports within functions are done by now
    with watched() as seen, suppress(Exception):
        drive()
    return f"{seen[0]}: it must decide by what it is told alone" if seen else None


def differs_elsewhere(job: str, argv: Sequence[str], own: str) -> str | None:
    """Whether ``python -m jobs.JOB ARGV --digest`` prints another digest than `own` in processes
    with other hashes of texts, in words; None where all agree."""
    command = [sys.executable, "-m", f"jobs.{job}", *argv, "--digest"]
    paths = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))
    for seed in _HASH_SEEDS:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        done = subprocess.run(  # noqa: S603  # this very program
            command, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode or done.stdout.strip() != own:
            return (
                "it must decide alike in another process, it does not (the hash of a text, the "
                "order of a set?)"
            )
    return None


@contextmanager
def watched() -> Iterator[list[str]]:
    """Notes calls of functions that no decision may rest on, with their place."""
    seen: list[str] = []
    standard = sysconfig.get_path("stdlib")

    def watch(frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or seen:
            return
        owner = getattr(called, "__self__", None)
        kind = owner if isinstance(owner, type) else type(owner)
        module = getattr(called, "__module__", None) or kind.__module__
        what = _ASIDE.get(module)
        if module == "datetime" and called.__name__ in _NOW:
            what = "the clock"
        if what is None:
            return
        place: FrameType | None = frame
        while place is not None and place.f_code.co_filename.startswith(standard):
            place = place.f_back
        at = frame if place is None else place
        seen.append(
            f"{at.f_code.co_filename}, line {at.f_lineno}, asks {what} ({module}.{called.__name__})"
        )

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # what others do as it collects (gc.callbacks, finalizers) is not the code's
    sys.setprofile(watch)
    try:
        yield seen
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()


def told(error: Exception) -> str:
    """An error of a user's code with the line where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    return f"it raised {type(error).__name__}: {error}{where}"
