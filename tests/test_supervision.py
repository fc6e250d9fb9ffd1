"""A job whose process is ended from outside still ends with one line and the right status."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from benchmarks.running import until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="supervision is for Linux"),
    pytest.mark.usefixtures("default_signals"),
]

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


@pytest.mark.parametrize(
    ("number", "takes_it"),
    [
        (signal.SIGHUP, "pass"),
        (signal.SIGTERM, "signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))"),
    ],
    ids=["its terminal is gone", "Ray ends it by the signal's number"],
)
def test_a_signal_before_the_job_takes_it_leaves_it_resumable(number, takes_it):
    """While it loads and while it ends, its own handlers are not there."""
    up = "print('up', flush=True)"
    process = started("resumable('runs/x')", takes_it, up, "time.sleep(100)")
    process.stdout.readline()
    process.send_signal(number)
    _, told = process.communicate(timeout=30)

    assert process.returncode == 75
    assert told == f"stopped: stopped by {number.name}; resume with --resume runs/x\n"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGHUP, 1), (signal.SIGINT, 2)])
def test_a_status_that_is_a_signals_number_too_is_still_the_jobs(number, status):
    """A run whose terminal went away and that fails while it drains has failed."""
    takes_it = f"signal.signal({int(number)}, lambda *_: heard.append(1))"
    wait = "while not heard: time.sleep(0.01)"
    process = started("heard = []", takes_it, "print('up', flush=True)", wait, f"return {status}")
    process.stdout.readline()
    process.send_signal(number)

    assert process.communicate(timeout=30)[1] == ""
    assert process.returncode == status


def test_a_signal_after_the_job_does_not_cut_its_end_short():
    """Ray is ended then, and nothing is said of it."""
    takes_it = "signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))"
    ends = "atexit.register(lambda: (print('ending', flush=True), time.sleep(0.5), print('end')))"
    process = started(takes_it, ends, "return 0")
    first = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    rest, told = process.communicate(timeout=30)

    assert (first, rest, told, process.returncode) == ("ending\n", "end\n", "", 0)


def test_nohup_is_heeded():
    """A job that is to outlive its terminal does."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    process = started("print('up', flush=True)", "time.sleep(0.5)", "return 3")
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)

    assert process.communicate(timeout=30)[1] == ""
    assert process.returncode == 3
