"""Hooks of the documentation site (deploy/mkdocs.yml): pages made from README and from the code."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from jobs.__main__ import GROUPS, MODULES
from pipeline import api
from pipeline.config.run import RunConfig
from pipeline.strategies import STRATEGIES

ROOT = Path(__file__).resolve().parents[1]
_OUTSIDE = re.compile(r"\[([^]]+)\]\((?:\.\./)?((?:examples|benchmarks|configs|tests)/[^)]*)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are not in docs/."""
    readme = (ROOT / "README.md").read_text("utf-8").replace("](docs/", "](")
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8").replace("](docs/", "](")
    pages = {
        "index.md": readme.replace("](CONTRIBUTING.md)", "](contributing.md)"),
        "contributing.md": contributing,
        "changelog.md": (ROOT / "CHANGELOG.md").read_text("utf-8"),
        "reference/configuration.md": configuration(),
        "reference/strategies.md": strategies(),
        "reference/verbs.md": verbs(),
        "reference/api.md": python_api(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Names files of the repository instead of linking to them; the site does not hold them."""
    return _OUTSIDE.sub(r"\1 (`\2`)", markdown)


def configuration() -> str:
    """Every field of a run's YAML file: type, default, meaning."""
    lines = ["# Configuration reference", "", "Every field of a run's YAML file."]
    for path, kind in _sections("", RunConfig):
        lines += ["", f"## {path or 'top level'}", "", _text(kind), *_table(kind)]
    return "\n".join(lines)


def strategies() -> str:
    """Every strategy with its fields."""
    lines = ["# Strategy reference", "", "Every shipped strategy with the fields that it takes."]
    for name, kind in sorted(STRATEGIES.items()):
        lines += ["", f"## {name}", "", _text(kind), *_table(kind)]
    return "\n".join(lines)


def verbs() -> str:
    """The help of every verb."""
    lines = ["# Command line"]
    for group, named in GROUPS.items():
        for verb in named:
            module = importlib.import_module(f"jobs.{MODULES.get(verb, verb)}")
            if hasattr(module, "parser"):
                text = module.parser().format_help()
                lines += ["", f"## {verb}", "", f"*{group}*", "", "```text", text, "```"]
    return "\n".join(lines)


def python_api() -> str:
    """Signature and docstring of every public name."""
    lines = ["# Python API", "", "`import markovscale as ms`"]
    for name in api.__all__:
        value = getattr(api, name)
        lines += ["", f"## {name}", "", f"```python\n{name}{inspect.signature(value)}\n```"]
        lines += ["", f"```text\n{inspect.getdoc(value)}\n```"]
    return "\n".join(lines)


def _sections(path: str, kind: type[BaseModel]) -> Iterator[tuple[str, type]]:
    yield path, kind
    for name, field in kind.model_fields.items():
        for inner in _kinds(field.annotation):
            below = f"{path}.{name}".lstrip(".")
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from _sections(below, inner)
            elif dataclasses.is_dataclass(inner) and isinstance(inner, type):
                yield below, inner


def _kinds(annotation: Any) -> list[Any]:
    inner = typing.get_args(annotation)
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return list(inner[:1] if inner and not is_union else inner) or [annotation]


def _table(kind: Any) -> list[str]:
    rows = ["", "| field | type | default | meaning |", "|---|---|---|---|"]
    comments = _field_comments(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = [
            (
                name,
                field.annotation,
                field.get_default(call_default_factory=True),
                field.description,
            )
            for name, field in kind.model_fields.items()
        ]
    else:
        fields = [
            (each.name, each.type, _default(each), comments.get(each.name))
            for each in dataclasses.fields(kind)
        ]
    for name, annotation, default, meaning in fields:
        is_class = isinstance(annotation, type) and not typing.get_args(annotation)
        shown = annotation.__name__ if is_class else str(annotation)
        given = "required" if default is PydanticUndefined else f"`{default!r}`"
        if len(given) > 60:
            given = "see below"
        cells = (f"`{name}`", f"`{shown}`", given, " ".join((meaning or "").split()))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return rows


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return PydanticUndefined


def _field_comments(kind: Any) -> dict[str, str]:
    """The strings below the fields of a dataclass, its bases' too."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):
            continue
        found |= dict(re.findall(r'^    (\w+): [^\n]+\n    """(.*?)"""', source, re.M | re.S))
    return found


def _text(kind: type) -> str:
    return inspect.getdoc(kind) or ""
