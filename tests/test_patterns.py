"""Regular expressions of `pipeline`: none takes the square of what it reads, or it reads little."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

import pipeline
from pipeline.answers.graders import GraderSettings

SMALL, FACTOR = 400, 4
LIMIT_S = 0.02
"""What `FACTOR * SMALL` characters may take before growth is looked at."""
ANCHORED = ("answers.spellings:_BOUNDS",)
"""Tuples of patterns that are matched at the start of a text, in a loop."""
COMMON = (
    " ",
    "\t",
    "\n",
    "1",
    "a",
    "A ",
    "a ",
    "1 ",
    "1,",
    "1.",
    "-",
    "$",
    "\\",
    "\\(",
    "{",
    "}",
    "(",
    "*",
)


def patterns_of(name: str, value: Any) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Compiled patterns of a module's attribute, those within tuples and dicts too."""
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield name, value
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            if isinstance(inner, re.Pattern | tuple):
                yield from patterns_of(f"{name}[{key}]", inner)


def patterns() -> list[tuple[str, re.Pattern[str]]]:
    """Every compiled pattern of the package by module and name, each once."""
    found: dict[tuple[str, int], tuple[str, re.Pattern[str]]] = {}
    for info in pkgutil.walk_packages(pipeline.__path__, "pipeline."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            for path, pattern in patterns_of(name, value):
                label = f"{info.name.removeprefix('pipeline.')}:{path}"
                found.setdefault((pattern.pattern, pattern.flags), (label, pattern))
    return sorted(found.values())


def scans(name: str) -> bool:
    """Whether a pattern is looked for anywhere in a text, not only at its start."""
    module, _, path = name.partition(":")
    base = path.partition("[")[0]
    source = inspect.getsource(importlib.import_module(f"pipeline.{module}"))
    uses = re.findall(rf"(?<![\w.]){re.escape(base)}\b(?! [:=])(\.(?:match|fullmatch)\()?", source)
    return name.partition("[")[0] not in ANCHORED and not (uses and all(uses))


def pieces(pattern: re.Pattern[str]) -> list[str]:
    """Characters and short runs that the pattern itself names, and some that most know."""
    text = re.sub(r"\\[AbBdDsSwWZ]|\(\?[:=!<>P#i-]*|[\[\]()|?*+^]", " ", pattern.pattern)
    own = dict.fromkeys(word for word in text.split() if 0 < len(word) <= 12)
    return [*COMMON, *list(own)[:30]]


def seconds(pattern: re.Pattern[str], text: str, scanned: bool) -> float:
    """Processor time of finding every match, or of one at the start: the least of three, where the
    first is not next to nothing already."""
    took = []
    while len(took) < 3 and min(took, default=1.0) > LIMIT_S / 2:
        start = time.thread_time()
        if scanned:
            for _match in pattern.finditer(text):
                pass
        else:
            pattern.match(text)
            pattern.fullmatch(text)
        took.append(time.thread_time() - start)
    return min(took)


REPLIES = (
    *COMMON,
    *("<think>", "</think>", "<think></think>", "`<think>` ", "\\boxed{", "\\boxed{1} ", "**A** "),
    *("the answer is 5. ", "1,000 ", "```python\n", "(a) ", "x = ", "答案是", "\u202f", "<answer>"),
    *('{"answer": 5}', "####", "A, B and ", "assertion ", "\\frac{", "1 2 ", "Answer: 5\n"),
)
SETTINGS = tuple(GraderSettings(kind=kind) for kind in ("math", "choices", "text", "command"))


@pytest.mark.parametrize("piece", REPLIES)
def test_reading_a_reply_takes_time_in_proportion(piece: str) -> None:
    """Whatever a reply repeats, its answer is found in milliseconds where the event loop reads it,
    and in four times as long in four times as much."""
    for settings in SETTINGS:
        took = []
        for size in (2_000, 8_000):
            text, seconds = (piece * size)[:size], []
            for _ in range(3):
                start = time.thread_time()
                settings.answer_of(text)
                seconds.append(time.thread_time() - start)
            took.append(min(seconds))
        assert took[0] < 0.02, f"{settings.kind}: {took[0]:.4f} s"
        assert took[1] < max(0.08, 2 * FACTOR * took[0]), f"{settings.kind}: {took[1]:.4f} s"


def test_no_pattern_takes_the_square_of_its_input() -> None:
    """On runs of its own characters with a tail that fails to match, four times the length takes
    about four times as long, or next to nothing."""
    found = patterns()
    assert len(found) > 100
    for name, pattern in found:
        scanned = scans(name)
        for piece in pieces(pattern):
            short = seconds(pattern, (piece * SMALL)[:SMALL] + "\x00x", scanned)
            assert short < LIMIT_S, f"{name} on {piece!r}"
            text = (piece * SMALL * FACTOR)[: SMALL * FACTOR] + "\x00x"
            long = seconds(pattern, text, scanned)
            assert long < max(LIMIT_S, 2 * FACTOR * short), f"{name} on {piece!r}: {long:.3f} s"
