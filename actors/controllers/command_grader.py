"""Graders that run programs: unit tests of code, a user's own command, a user's own function.

A command runs in a folder of its own, with limits on processor time, memory and files, without the
environment of this process, in a network namespace without a way out where the kernel lets us make
one. It guards against accidents and carelessness of models; who runs code that may be hostile puts
the whole run into a container.
"""

from __future__ import annotations

import logging
import os
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from pipeline.answers import Verdict
from pipeline.answers.graders import GraderSettings

logger = logging.getLogger(__name__)

_RIGHT, _WRONG, _OVERRUN = 0, 1, -1
_FILE_BYTES = 16 << 20


def run_command(settings: GraderSettings, gold: str, answer: str) -> Verdict:
    """The verdict of a command on an answer.

    Without a command of the user's, Python runs the answer followed by the gold (its tests): RIGHT
    where it reaches the end, WRONG for any error, exit or overrun. A command of one's own is RIGHT
    at status 0, WRONG at 1, and UNGRADED at any other, and where it could not be run or took too
    long.
    """
    mark = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="markovscale-grader-") as folder:
        program = f"{answer}\n\n{gold}\n\nprint({mark!r})\n"
        files = {"answer": answer, "gold": gold, "program": program}
        paths = {name: str(Path(folder) / f"{name}.txt") for name in files}
        for name, text in files.items():
            Path(paths[name]).write_text(text, encoding="utf-8", errors="replace")
        arguments = [part.format(**paths) for part in settings.command]
        own = bool(arguments)
        arguments = arguments or [sys.executable, "-I", paths["program"]]
        try:
            status, output = _run(arguments, folder, settings)
        except OSError as error:
            logger.warning("could not run %s: %s", arguments[0], error)
            return Verdict.UNGRADED
    if own:
        verdicts = {_RIGHT: Verdict.RIGHT, _WRONG: Verdict.WRONG}
        return verdicts.get(_OVERRUN if status is None else status, Verdict.UNGRADED)
    reached = status == 0 and output.rstrip().endswith(mark.encode())
    return Verdict.RIGHT if reached else Verdict.WRONG


def run_function(settings: GraderSettings, gold: str, answer: str) -> Verdict:
    """The verdict of a user's own function: True, False, or None where it cannot say."""
    try:
        found = settings.function()(gold, answer)
    except Exception as error:  # the user's own, whatever it is
        logger.warning("grader %s could not be applied: %s", settings.kind, error)
        return Verdict.UNGRADED
    if found is None:
        return Verdict.UNGRADED
    return Verdict.RIGHT if found else Verdict.WRONG


def _run(arguments: list[str], folder: str, settings: GraderSettings) -> tuple[int | None, bytes]:
    """Exit status (None after an overrun) and the end of the standard output."""
    seconds = int(settings.timeout_s) + 1
    memory = settings.memory_mb << 20

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    out = Path(folder) / "output"
    with out.open("wb") as written:
        process = subprocess.Popen(  # noqa: S603 - the user's command, or our interpreter
            [*_without_network(), *arguments],
            cwd=folder,
            env={"PATH": os.defpath, "HOME": folder, "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=limited,
        )
        try:
            status: int | None = process.wait(settings.timeout_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:  # and whatever it has started
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                logger.debug("nothing is left of %s", arguments[0])
            process.wait()
    return status, out.read_bytes()[-4096:]


@lru_cache(maxsize=1)
def _without_network() -> tuple[str, ...]:
    """What makes a command run without a network; empty where the kernel does not let us."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return ()
    prefix = (unshare, "--user", "--map-root-user", "--net")
    tried = subprocess.run([*prefix, "true"], check=False, capture_output=True)  # noqa: S603
    if tried.returncode:
        logger.warning("commands that grade have a network: unshare must be allowed to take it")
        return ()
    return prefix
