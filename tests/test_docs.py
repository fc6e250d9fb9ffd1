"""What the pages say is there: links, files, modules, jobs with their options, fields, targets."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import re
import shlex
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from jobs.__main__ import MODULES, VERBS
from jobs.cli import VerbParser
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


PLACEHOLDER = re.compile(r"(?:.*/)?[A-Z][A-Z_0-9]*(?:\.\w+)?|N")


def commands(text: str) -> list[tuple[str, list[str]]]:
    """(verb, arguments) of each ``python -m jobs.VERB ...`` and ``markovscale VERB ...`` of a page,
    in a block or between backticks; a verb that is only named has no arguments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    found = []
    for line in (*lines, *inline):
        for verb, rest in re.findall(
            r"(?:python -m jobs\.|(?<![\w/.-])markovscale )([a-z_]+)(.*)", line
        ):
            lexer = shlex.shlex(rest.rstrip("\\"), posix=True, punctuation_chars=";|&>")
            lexer.whitespace_split, lexer.commenters = True, "#"
            found.append(
                (verb, list(itertools.takewhile(lambda word: word[0] not in ";|&>", lexer)))
            )
    return found


@page
def test_commands_fit_the_parsers_of_their_verbs(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options exist, positional arguments are as many as there may be, values are of their type;
    words in capitals and ``...`` stand for a value."""
    value, choice = VerbParser._get_value, VerbParser._check_value
    monkeypatch.setattr(
        VerbParser,
        "_get_value",
        lambda self, action, text: (
            text if PLACEHOLDER.fullmatch(text) else value(self, action, text)
        ),
    )
    monkeypatch.setattr(
        VerbParser,
        "_check_value",
        lambda self, action, got: PLACEHOLDER.fullmatch(str(got)) or choice(self, action, got),
    )
    refused = []
    for verb, words in commands(page.read_text(encoding="utf-8")):
        assert verb in VERBS, verb
        parser = importlib.import_module(f"jobs.{MODULES.get(verb, verb)}").parser()
        if words and "..." not in words:
            try:
                parser.parse_args(words)
            except SystemExit:
                refused.append(f"{shlex.join([verb, *words])}: {capsys.readouterr().err}")
    assert not refused


def test_python_blocks_of_the_api_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are written, in the checkout. Pages with a class or a rule of one's own, and the
    client of `jobs.serve`, are followed by tests of their own."""
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for block in (blocks := re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)):
        exec(compile(block, "api.md", "exec"), {})
    assert blocks


def members(kind: Any) -> dict[str, Any]:
    """Fields of a section, or of any section that a type may be."""
    if typing.get_origin(kind) is not None:
        inner = [members(part) for part in typing.get_args(kind) if not isinstance(part, str)]
        return {name: each for found in inner for name, each in found.items()}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    ours = dataclasses.is_dataclass(kind) and kind.__module__.startswith("pipeline.")
    return typing.get_type_hints(kind) if ours else {}


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


def paths(section: Any, above: str = "") -> Iterator[str]:
    """Dotted fields of a mapping read from YAML, outermost first."""
    if isinstance(section, dict):
        for name, value in section.items():
            yield f"{above}{name}"
            yield from paths(value, f"{above}{name}.")


@page
def test_blocks_of_yaml_hold_fields_that_exist(page: Path) -> None:
    """Each ``science`` and ``runtime`` of a configuration; strategies and profiles have fields of
    their own."""
    for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
        for path in paths(yaml.safe_load(block)):
            if path.startswith(("science.", "runtime.")) and "profile" not in path:
                assert not list(unknown(path)), path
