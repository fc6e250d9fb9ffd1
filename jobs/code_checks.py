"""*Code checks*: the frame of the verbs that check a user's own strategy or answer rule.

What decides must use no clock, no random numbers and no files, and decide alike in every process.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

from jobs.cli import VerbParser, add_set_option, log_to_stderr
from pipeline.core.errors import ConfigError, MarkovScaleError

T = TypeVar("T")

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


def check_parser(verb: str, text: str | None, what: str, help_: str) -> VerbParser:
    """The command line of a verb that checks code of a user's own.

    Args:
        verb: its name.
        text: the docstring of its module.
        what: is checked, such as ``RULE``.
        help_: how it is named.
    """
    options = VerbParser(verb, text)
    options.add_argument("kind", metavar=what, help=help_)
    add_set_option(options, "a field of the class")
    options.add_argument("--digest", action="store_true", help=argparse.SUPPRESS)
    options.set_defaults(verb=verb, what=what.lower())
    return options


def run_checks(
    arguments: argparse.Namespace,
    argv: list[str] | None,
    build: Callable[[str, dict[str, Any]], T],
    checks: Mapping[str, Callable[[T], object]],
    digest: Callable[[T, bool], str],
) -> int:
    """Run the checks of a contract; returns the exit status.

    Args:
        arguments: as parsed by `check_parser`.
        argv: the command line that they are from.
        build: makes the object from its kind and fields; raises ConfigError where it cannot be.
        checks: by what each says of code that passes; they raise where it does not.
        digest: of all decisions, taken in the order of the checks or backwards.
    """
    from pipeline.config.run import override_field

    log_to_stderr(arguments.level)
    fields: dict[str, Any] = {}
    try:
        for override in arguments.overrides:
            override_field(fields, override)
        built = build(arguments.kind, fields)
    except ConfigError as error:
        where = "" if str(error).startswith(arguments.kind) else f"{arguments.kind}: "
        print(f"error: {where}{error}", file=sys.stderr)
        return 2
    except (Exception, SystemExit) as error:  # of the module that is imported
        print(f"error: {arguments.kind}: {error_words(error)}", file=sys.stderr)
        return 2
    try:
        if arguments.digest:  # of a process with other hashes of texts
            print(digest(built, True))
            return 0
        for says, check in checks.items():
            check(built)
            print(f"ok  {says}")
        given = sys.argv[1:] if argv is None else argv
        if why := differs_elsewhere(arguments.verb, given, digest(built, False)):
            raise ConfigError(why)
        print("ok  decides alike in another process")
    except (Exception, SystemExit) as error:  # the user's own, whatever it is
        why = str(error) if isinstance(error, MarkovScaleError) else error_words(error)
        print(f"error: {arguments.kind}: {why}", file=sys.stderr)
        return 2
    what = {"rule": "answer rules", "strategy": "strategies"}[arguments.what]
    print(f"{arguments.kind} keeps the contract of {what}")
    return 0


def check_pure(drive: Callable[[], object]) -> None:
    """Raises ConfigError where driving the code calls what no decision may rest on."""
    if why := find_impure_call(drive):
        raise ConfigError(why)


def find_impure_call(drive: Callable[[], object]) -> str | None:
    """The first call of something that no decision may rest on, in words; None where none is."""
    with suppress(Exception):  # what else is amiss is found by other checks
        drive()  # imports within functions are done by now
    with watched() as seen, suppress(Exception):
        drive()
    return f"{seen[0]}: it must decide by what it is given alone" if seen else None


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


def error_words(error: BaseException) -> str:
    """An error of a user's code in one line, with the place where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    return f"it raised {type(error).__name__}: {' '.join(str(error).splitlines())}{where}"
