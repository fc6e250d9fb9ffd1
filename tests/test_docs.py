"""What the pages say is there: links, files, modules, jobs with their options, fields, targets."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from jobs.__main__ import MODULES, VERBS
from pipeline.config.run import RunConfig
from tests.conftest import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "models").glob("*/README.md")),
    *sorted((ROOT / "data").rglob("README.md")),
]
FOLDERS = "pipeline|actors|jobs|configs|deploy|docs|tests|benchmarks|examples|models"
page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def anchors(path: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", text, re.M)
    }


@page
def test_links_lead_somewhere(page: Path) -> None:
    """To a file that is there, and to a heading that it has."""
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@page
def test_files_and_targets_that_are_named_exist(page: Path) -> None:
    """Paths of the project, tests, and targets of make; words in capitals stand for a name."""
    text = page.read_text(encoding="utf-8")
    tests = {path.name for path in (ROOT / "tests").rglob("*.py")}
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)

    for name in re.findall(rf"(?<![\w/.-])((?:{FOLDERS})/[\w./-]*\w\.\w+)", text):
        assert (ROOT / name).exists() or re.search(r"\b[A-Z]{2,}\b", name), name
    for package, name in re.findall(r"python -m (jobs|benchmarks)\.(\w+)", text):
        assert (ROOT / package / f"{name}.py").is_file() or name == "VERB", name
    assert set(re.findall(r"\btest_\w+\.py", text)) <= tests
    assert set(re.findall(r"`make ([a-z-]+)`", text)) <= set(targets)


def options_of(job: str) -> set[str]:
    """What a job's parser takes; all that stands in the text of one without a parser of its own."""
    module = importlib.import_module(job)
    if hasattr(module, "parser"):
        actions: list[argparse.Action] = module.parser()._actions
        return {option for action in actions for option in action.option_strings}
    return set(re.findall(r"--[a-z-]+", Path(str(module.__file__)).read_text(encoding="utf-8")))


@page
def test_jobs_take_the_options_that_are_shown(page: Path) -> None:
    """Each ``python -m jobs.VERB`` and ``markovscale VERB`` of a page."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for found in re.finditer(r"(?:python -m jobs\.|markovscale )([a-z_]+)([^`\n;|&#]*)", text):
        verb, rest = found.groups()
        if verb not in VERBS and "jobs" not in found[0]:
            continue  # markovscale is a word of sentences too
        assert verb in VERBS, found[0]
        options = re.findall(r"(?<=\s)--[a-z][a-z-]*", rest)
        assert set(options) <= options_of(f"jobs.{MODULES.get(verb, verb)}"), found[0]


def members(kind: Any) -> dict[str, Any]:
    """Fields of a section, or of any section that a type may be."""
    if typing.get_origin(kind) is not None:
        inner = [members(part) for part in typing.get_args(kind) if not isinstance(part, str)]
        return {name: each for found in inner for name, each in found.items()}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    return typing.get_type_hints(kind) if dataclasses.is_dataclass(kind) else {}


def unknown(path: str) -> Iterator[str]:
    """The first part of a dotted field that its section does not have."""
    kind: Any = RunConfig
    for part in path.split("."):
        fields = members(kind)
        if not fields:
            return  # a mapping, or an entry of a list: names of the user's own
        if part not in fields:
            yield part
            return
        kind = fields[part]


@page
def test_fields_of_the_configuration_exist(page: Path) -> None:
    """Each ``science...`` and ``runtime...`` of a page; what follows a number is a strategy's."""
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"\b((?:science|runtime)\.[a-z_]+(?:\.[a-z_]+)*)(?![\w.]*\.py)", text):
        if path != "runtime.py":
            assert not list(unknown(path)), path
