"""docs/offline.md: every command in it can be given as it is written, in the order of the page."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
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


def test_every_command_of_the_page_is_one() -> None:
    """Its job takes its options, and it names no file that neither the checkout has nor an earlier
    command of the page has made."""
    made: set[str] = set()
    assert len(commands()) >= 10
    for words in commands():
        assert words[:2] == ["python", "-m"]
        job = importlib.import_module(words[2])
        if hasattr(job, "parser"):
            job.parser().parse_args(words[3:])
        options = dict(pairwise(words[3:]))
        for name in ("--pool", "--run", "--resume", "--config", "--strategy", "--predictor"):
            if name in options:
                assert options[name] in made or (ROOT / options[name]).exists(), words
        if "--name" in options:
            made.add(f"runs/{options['--name']}")
        if "--export" in options:
            made.add(words[words.index("--export") + 2])
        if "--out" in options:
            made.add(options["--out"])


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
