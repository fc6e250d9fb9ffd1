"""What a killed process had started is killed after it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT

_HOST = """
import subprocess, sys, time
from actors.cluster import orphan_reaper
orphan_reaper.__file__ = sys.argv[1]
orphan_reaper.hold()
nested = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", nested], start_new_session=True)
time.sleep(600)
"""
_REAPER = """
import sys, time
import psutil
from actors.cluster import orphan_reaper
def note_and_sleep(seconds, sleep=time.sleep):
    with open(__file__ + ".looks", "a") as looks:
        looks.write(".")
    sleep(seconds)
time.sleep = note_and_sleep
orphan_reaper.__file__ = __file__
def kill_and_complain(process, kill=psutil.Process.kill):
    kill(process)
    raise psutil.AccessDenied(process.pid)
if "complain" in __file__:
    psutil.Process.kill = kill_and_complain
orphan_reaper.follow(int(sys.argv[1]))
"""


@pytest.mark.parametrize("name", ["reaper.py", "complain.py"])
def test_nothing_of_a_killed_host_is_left(tmp_path: Path, name: str) -> None:
    """Neither its children nor theirs, whatever session they are in, nor the reaper itself; one
    that cannot be ended, such as another user's, keeps none of the others."""
    reaper, looks = tmp_path / name, tmp_path / f"{name}.looks"
    reaper.write_text(_REAPER)
    looks.touch()
    host = subprocess.Popen(
        [sys.executable, "-c", _HOST, str(reaper)],
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


def test_the_reaper_of_a_host_that_ends_in_peace_ends_too() -> None:
    """It kills nobody that has ended, and does not stay."""
    code = "from actors.cluster import orphan_reaper; orphan_reaper.hold(); input()"
    host = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE)
    own = psutil.Process(host.pid)
    while not (family := own.children(recursive=True)):
        time.sleep(0.01)
    host.communicate(b"\n", timeout=60)
    _, left = psutil.wait_procs(family, timeout=60)

    assert left == []
