"""docs/offline.md: every command in it can be given as it is written, in the order of the page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "offline.md"


def commands() -> list[list[str]]:
    """The commands of the page's blocks, without comments; long lines joined."""
    found = []
    for block in re.findall(r"^```\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                found.append(words)
    return found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what the commands read; what they write stays in it."""
    for name in ("configs", "models", "data"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def run(words: list[str], checkout: Path) -> None:
    """A command of the page, by this Python."""
    assert words[0] == "python"
    done = subprocess.run(
        [sys.executable, *words[1:]],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (
        f"{shlex.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    )


@pytest.mark.slow
def test_the_first_command_needs_nothing_but_the_checkout(checkout: Path) -> None:
    """Every table and figure from the recorded pool."""
    run(commands()[0], checkout)
    assert (checkout / "runs" / "paper" / "paper.html").stat().st_size > 50_000


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(3_000)
def test_the_page_can_be_followed_from_top_to_bottom(checkout: Path) -> None:
    """All of it with real engines on the embedded models: collect, deepen, export, train, sweep,
    evaluate, replay. Minutes: it starts engines eight times."""
    for words in commands():
        run(words, checkout)
    for name in ("paper", "paper-predicted"):
        assert (checkout / "runs" / name / "tables.tex").exists()
