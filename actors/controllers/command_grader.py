"""Graders that run programs: unit tests of code, a user's own command.

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
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pipeline.answers import Verdict
from pipeline.answers.graders import GraderSettings, public_tests

logger = logging.getLogger(__name__)

_RIGHT, _WRONG, _OVERRUN = 0, 1, 1 << 10
_FILE_BYTES = 16 << 20
_FEEDBACK_CHARS = 1_000


def run_command(settings: GraderSettings, gold: str, answer: str) -> Verdict:
    """The verdict of a command on an answer.

    Without a command of the user's, Python runs the answer followed by the gold (its tests): RIGHT
    where it reaches the end, WRONG for any error, exit or overrun. A command of one's own is RIGHT
    at status 0, WRONG at 1, and UNGRADED at any other, and where it could not be run or took too
    long.
    """
    mark = secrets.token_hex(16)
    program = f"{answer}\n\n{gold}\n\nprint({mark!r})\n"
    files = {"answer": answer, "gold": gold, "program": program}
    ran = _run(settings.command or _PYTHON, files, settings, subprocess.DEVNULL)
    if ran is None:
        return Verdict.UNGRADED
    status, output = ran
    if settings.command:
        return {_RIGHT: Verdict.RIGHT, _WRONG: Verdict.WRONG}.get(status, Verdict.UNGRADED)
    reached = status == 0 and output.endswith(mark)
    return Verdict.RIGHT if reached else Verdict.WRONG


def run_check(settings: GraderSettings, question: str, answer: str) -> str | None:
    """What a command says of an answer that knows no gold answer: what the user's own prints, else
    which of the tests that the question shows fail. None where it could not be run, or the question
    shows no tests."""
    if settings.check:
        ran = _run(settings.check, {"answer": answer, "question": question}, settings)
        if ran is None:
            return None
        status, output = ran
        return _overrun(settings) if status == _OVERRUN else output
    tests = public_tests(question)
    if not tests:
        return None
    mark = secrets.token_hex(16)
    report = _REPORT.format(tests=[*map(tuple, tests)], mark=mark)
    ran = _run(_PYTHON, {"program": f"{answer}\n\n{report}"}, settings)
    if ran is None:
        return None
    status, output = ran
    if status == _OVERRUN:
        return _overrun(settings)
    if mark in output:
        return output.rpartition(mark)[2].strip()
    return f"The program ends before its tests, with:\n{output[-_FEEDBACK_CHARS:]}".strip()


def _overrun(settings: GraderSettings) -> str:
    return f"It takes longer than {settings.timeout_s:g} s."


_PYTHON = (sys.executable, "-I", "{program}")
_REPORT = """
def _report(tests, names, most=3):
    from contextlib import redirect_stdout
    from io import StringIO

    failed = []
    for source, expected in tests:
        printed = StringIO()
        try:
            with redirect_stdout(printed):
                if expected is None:
                    exec(source, names)
                    continue
                value = eval(source, names)
            got = printed.getvalue().strip() or repr(value)
            try:
                same = got == expected or value == eval(expected, names)
            except Exception:
                same = False
            if not same:
                failed.append(f"{{source}} must give {{expected}}, it gives {{got[:200]}}")
        except BaseException as error:
            said = f"{{type(error).__name__}}: {{error}}".rstrip(": ")
            failed.append(f"{{source}} fails with {{said[:300]}}")
    print()
    print({mark!r})
    print("\\n".join(failed[:most]) or f"The tests shown pass ({{len(tests)}}).")


_report({tests!r}, globals())
"""


def _run(
    command: Sequence[str],
    files: Mapping[str, str],
    settings: GraderSettings,
    errors: int = subprocess.STDOUT,
) -> tuple[int, str] | None:
    """Exit status (`_OVERRUN` after one) and the end of the output; None where it cannot start.

    Args:
        command: program and arguments, with the names of `files` in braces for their paths.
        files: texts, by name.
        errors: where what it writes to standard error goes.
    """
    with tempfile.TemporaryDirectory(prefix="markovscale-grader-") as folder:
        paths = {name: str(Path(folder) / f"{name}.txt") for name in files}
        for name, text in files.items():
            Path(paths[name]).write_text(text, encoding="utf-8", errors="replace")
        arguments = [part.format(**paths) for part in command]
        if shutil.which(arguments[0]) is None:
            logger.warning("a grader's command must be a program, got %s", arguments[0])
            return None
        try:
            status, output = _limited(arguments, folder, settings, errors)
        except OSError as error:
            logger.warning("could not run %s: %s", arguments[0], error)
            return None
    return _OVERRUN if status is None else status, output.decode(errors="replace").strip()


def _limited(
    arguments: list[str], folder: str, settings: GraderSettings, errors: int
) -> tuple[int | None, bytes]:
    """Exit status (None after an overrun) and the end of the output."""
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
            stderr=errors,
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
