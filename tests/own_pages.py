"""Pages on writing code of one's own, followed as a user follows them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def block(page: str, language: str, after: str = "") -> str:
    """The first block of a language behind a text of the page."""
    found = re.search(rf"```{language}\n(.*?)```", page[page.index(after) :], re.S)
    assert found is not None
    return found[1]


def forget() -> None:
    """Let the user's package be imported anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "early"]:
        del sys.modules[name]


def followed(page: str, name: str, project: Path, runs: Path) -> str:
    """What the commands of the page print: a live run on scripted engines, in processes that find
    the user's package by PYTHONPATH, and what reads the run afterwards."""
    script = "--set runtime.scripted.p0=0.5 --set runtime.scripted.tokens=20"
    live = block(page, "bash", "## 3.").replace(
        f"--name {name}", f"--name {name} --set runtime.runs={runs} {script}"
    )
    again = re.findall(r"python -m jobs\.(?:replay|compare) .*", page)
    environment = {
        **os.environ,
        "PYTHONPATH": str(project),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    lines = "\n".join([live, *again]).replace(f"runs/{name}", f"{runs}/{name}")
    lines = lines.replace(f"{name}.yaml", f"{project}/{name}.yaml")
    done = subprocess.run(
        ["bash", "-e", "-c", lines], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "all agree with" in done.stdout
    return done.stdout
