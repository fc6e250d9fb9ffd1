"""A process that hangs is killed; what a killed process had started is killed after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT

_HOST = """
import subprocess, sys, time
from actors.cluster import process_guard
process_guard.__file__ = sys.argv[1]
guard = process_guard.ProcessGuard()
nested = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", nested], start_new_session=True)
time.sleep(600)
"""
_GUARD = """
import sys, time
import psutil
from actors.cluster import process_guard
def note_and_sleep(seconds, sleep=time.sleep):
    with open(__file__ + ".looks", "a") as looks:
        looks.write(".")
    sleep(seconds)
time.sleep = note_and_sleep
process_guard.__file__ = __file__
def kill_and_complain(process, kill=psutil.Process.kill):
    kill(process)
    raise psutil.AccessDenied(process.pid)
if "complain" in __file__:
    psutil.Process.kill = kill_and_complain
process_guard.guard(int(sys.argv[1]), 0.0)
"""


@pytest.mark.parametrize("name", ["guard.py", "complain.py"])
def test_nothing_of_a_killed_host_is_left(tmp_path: Path, name: str) -> None:
    """Neither its children nor theirs, whatever session they are in, nor the guard itself; one
    that cannot be ended, such as another user's, keeps none of the others."""
    guard, looks = tmp_path / name, tmp_path / f"{name}.looks"
    guard.write_text(_GUARD)
    looks.touch()
    host = subprocess.Popen(
        [sys.executable, "-c", _HOST, str(guard)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        while len(family := psutil.Process(host.pid).children(recursive=True)) < 3:
            time.sleep(0.05)
        seen = looks.stat().st_size
        while looks.stat().st_size < seen + 2:  # it has looked since
            time.sleep(0.05)
    finally:
        host.kill()
        host.wait()
    _, left = psutil.wait_procs(family, timeout=60)
    for process in left:
        process.kill()

    assert len(family) == 3
    assert left == []


def test_the_guard_of_a_host_that_ends_in_peace_ends_too() -> None:
    """It kills nobody that has ended, and does not stay."""
    code = "from actors.cluster.process_guard import ProcessGuard; guard = ProcessGuard(); input()"
    host = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE)
    own = psutil.Process(host.pid)
    while not (family := own.children(recursive=True)):
        time.sleep(0.01)
    host.communicate(b"\n", timeout=60)
    _, left = psutil.wait_procs(family, timeout=60)

    assert left == []


_BEATS = """
import sys, time
from actors.cluster.process_guard import ProcessGuard
guard = ProcessGuard(2.0)
for _ in range(int(sys.argv[1])):
    guard.beat()
    time.sleep(0.2)
print("hangs", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("stopped", [False, True])
def test_a_process_that_hangs_is_killed(stopped: bool) -> None:
    """From the first heartbeat on, once none came for as long as it may; a process that is stopped
    by a signal too. One that beats, or never began to, is left alone."""

    def started(beats: int, hangs_s: float) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _BEATS, str(beats), str(hangs_s)]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)

    hung, well, silent = started(5, 600.0), started(20, 0.0), started(0, 3.0)
    assert hung.stdout is not None
    hung.stdout.readline()
    began = time.monotonic()
    if stopped:
        hung.send_signal(signal.SIGSTOP)
    hung.communicate(timeout=60)
    killed_s = time.monotonic() - began
    well.communicate(timeout=60)
    silent.communicate(timeout=60)

    assert (hung.returncode, well.returncode, silent.returncode) == (-signal.SIGKILL, 0, 0)
    assert 0.5 < killed_s < 30.0
