"""What a killed process had started is killed after it."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil

from tests.conftest import ROOT

_HOST = """
import subprocess, sys, time
from actors.cluster import orphan_reaper
orphan_reaper.hold()
nested = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", nested], start_new_session=True)
time.sleep(2)
print("up", flush=True)
time.sleep(600)
"""


def test_nothing_of_a_killed_host_is_left() -> None:
    """Neither its children nor theirs, whatever session they are in, nor the reaper itself."""
    host = subprocess.Popen(
        [sys.executable, "-c", _HOST],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert host.stdout is not None
    try:
        assert host.stdout.readline() == b"up\n"
        family = psutil.Process(host.pid).children(recursive=True)
    finally:
        host.kill()
        host.wait()
        host.stdout.close()
    _, left = psutil.wait_procs(family, timeout=20)
    for process in left:
        process.kill()

    assert len(family) == 3
    assert left == []


def test_the_reaper_of_a_host_that_ends_in_peace_ends_too() -> None:
    """It kills nobody that has ended, and does not stay."""
    code = (
        "from actors.cluster import orphan_reaper; orphan_reaper.hold(); import time; time.sleep(1)"
    )
    host = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    own = psutil.Process(host.pid)
    family = []
    while not family:
        family = own.children(recursive=True)
    host.wait(20)
    _, left = psutil.wait_procs(family, timeout=20)

    assert left == []
