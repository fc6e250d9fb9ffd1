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
    "_uuid": "the clock",
}
"""What a decision must not rest on, by the module that the called function is of."""
_HASH_SEEDS = ("1", "2", "3")
"""Of other processes: of one alone a decision may be the same by chance."""
_NOW = ("now", "today", "utcnow")
_ENVIRONMENT = type(os.environ).__getitem__.__code__


def find_impure_call(drive: Callable[[], object]) -> str | None:
    """The first call of something that no decision may rest on, in words; None where none is."""
    with suppress(Exception):  # what else is amiss is found by other checks
        drive()  # imports within functions are done by now
    with watched() as seen, suppress(Exception):
        drive()
    return f"{seen[0]}: it must decide by what it is told alone" if seen else None


def differs_elsewhere(job: str, argv: Sequence[str], own: str) -> str | None:
    """Whether ``python -m jobs.JOB ARGV --digest`` prints another digest than `own` in processes
    with other hashes of texts, in words; None where all agree. What the code itself prints before
    is not looked at."""
    command = [sys.executable, "-m", f"{__package__}.{job}", *argv, "--digest"]
    paths = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))
    for seed in _HASH_SEEDS:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        done = subprocess.run(  # noqa: S603  # this very program
            command, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode or done.stdout.splitlines()[-1:] != [own]:
            return (
                "it must decide alike in another process, it does not (the hash of a text, the "
                "order of a set, what it kept of earlier questions?)"
            )
    return None


@contextmanager
def watched() -> Iterator[list[str]]:
    """Notes calls of functions that no decision may rest on, with their place."""
    seen: list[str] = []
    standard = sysconfig.get_path("stdlib")

    def watch(frame: FrameType, event: str, called: Any) -> None:
        if seen:
            return
        if event == "call" and frame.f_code is _ENVIRONMENT:
            what, name = "the environment", "os.environ"
        elif event == "c_call":
            owner = getattr(called, "__self__", None)
            kind = owner if isinstance(owner, type) else type(owner)
            module = getattr(called, "__module__", None) or kind.__module__
            what, name = _ASIDE.get(module, ""), f"{module}.{called.__name__}"
            if module == "datetime" and called.__name__ in _NOW:
                what = "the clock"
            if name == "_thread.start_new_thread":
                what = "another thread"
        else:
            return
        if not what:
            return
        place: FrameType | None = frame
        while place is not None and place.f_code.co_filename.startswith((standard, "<frozen ")):
            place = place.f_back
        at = frame if place is None else place
        seen.append(f"{at.f_code.co_filename}, line {at.f_lineno}, asks {what} ({name})")

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # what others do as it collects (gc.callbacks, finalizers) is not the code's
    sys.setprofile(watch)
    try:
        yield seen
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()


def told(error: BaseException) -> str:
    """An error of a user's code in one line, with the place where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    return f"it raised {type(error).__name__}: {' '.join(str(error).splitlines())}{where}"
