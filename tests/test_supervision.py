"""A job whose process is ended from outside still ends with one line and the right status."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from benchmarks.running import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="supervision is for Linux")

JOB = """
import atexit, os, signal, sys, time
import jobs.supervision as supervision
from jobs.supervision import explained, resumable, supervised

def job():
    {body}

supervision._END_S = 1.0
sys.exit(supervised(job))
"""


def started(*lines: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", JOB.format(body="\n    ".join(lines))],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(*lines: str) -> tuple[int, str]:
    process = started(*lines)
    _, told = process.communicate(timeout=60)
    return process.returncode, told


@pytest.mark.parametrize(
    ("body", "status"),
    [("return 0", 0), ("return 3", 3), ("sys.exit(2)", 2), ("sys.exit()", 0)],
)
def test_a_job_that_ends_by_itself_has_its_own_status(body, status):
    """And nothing is added to what it says."""
    assert ended("resumable('runs/x')", body) == (status, "")


def test_an_error_that_is_not_caught_is_shown_as_ever():
    """With its traceback and status 1: the parent does not call it Ray's."""
    status, told = ended("raise RuntimeError('odd')")

    assert status == 1
    assert told.endswith("RuntimeError: odd\n")


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("os.abort()", "Ray has ended the driver (SIGABRT)"),
        ("os._exit(1)", "Ray has ended the driver (status 1)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "the driver was killed by SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended from outside (exit status -11)"),
    ],
)
def test_a_job_that_is_ended_from_outside_can_be_resumed(end, why):
    """One line says what is known and how to go on; the status is that of a stopped run."""
    status, told = ended("resumable('runs/x')", end)
    (line,) = [line for line in told.splitlines() if line.startswith("stopped: ")]

    assert status == 75
    assert why in line
    assert line.endswith("resume with --resume runs/x")


def test_an_end_that_aborts_or_hangs_after_the_job_changes_nothing():
    """Ray's own end may abort, or wait for ever: the status is the one that the job had told."""
    assert ended("explained(1)", "os.abort()")[0] == 1
    assert ended("atexit.register(os.abort)", "return 2")[0] == 2
    began = time.monotonic()
    assert ended("atexit.register(time.sleep, 100)", "return 75")[0] == 75
    assert time.monotonic() - began < 30


def test_signals_reach_the_job_and_its_end_is_the_parents():
    """SIGTERM is handed on; killed, the parent leaves no job behind."""
    stop = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))"
    asked = started(stop, "print('up', flush=True)", "time.sleep(100)")
    asked.stdout.readline()
    asked.send_signal(signal.SIGTERM)
    unheard = started("print('up', flush=True)", "time.sleep(100)")
    unheard.stdout.readline()
    unheard.send_signal(signal.SIGTERM)
    killed = started("print('up', flush=True)", "time.sleep(100)")
    killed.stdout.readline()
    (child,) = psutil.Process(killed.pid).children()
    killed.kill()

    assert asked.wait(30) == 75
    assert unheard.communicate(timeout=30)[1] == "stopped: stopped by SIGTERM; start it again\n"
    assert unheard.returncode == 75
    assert killed.wait(30) == -signal.SIGKILL
    assert until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 30)
    for process in (asked, unheard, killed):
        process.communicate(timeout=30)
