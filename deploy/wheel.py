"""Builds the wheel: the packages of this checkout become one package, ``markovscale``.

In the checkout the code lives in ``pipeline``, ``actors`` and ``jobs``. Modules with such names in
site-packages would collide with folders of users, so the wheel holds ``markovscale.pipeline``,
``markovscale.actors`` and ``markovscale.jobs``, with imports and import strings renamed, beside the
shipped configurations, models and pools.
"""

from __future__ import annotations

import io
import re
import shutil
import tokenize
from pathlib import Path

from setuptools.command.build_py import build_py

PACKAGES = ("pipeline", "actors", "jobs")
DATA = ("configs", "models", "data")
_IMPORT_STRING = re.compile(rf"""["'](?:{"|".join(PACKAGES)})(?:\.\w+)+(?::\w+)?["']""")


def renamed(source: str) -> str:
    """A module's source with imports of `PACKAGES`, and strings that are nothing but an import path
    (``"actors.engines.generator:GeneratorEngine"``), below ``markovscale``."""
    lines = source.splitlines(keepends=True)
    edits: list[tuple[int, int]] = []
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        row, column = token.start
        if token.type == tokenize.NAME and token.string in PACKAGES and before == "import":
            raise ValueError(f"must be written `from ... import ...`, got {lines[row - 1]!r}")
        if token.type == tokenize.NAME and token.string in PACKAGES and before == "from":
            edits.append((row, column))
        elif token.type == tokenize.STRING and _IMPORT_STRING.fullmatch(token.string):
            edits.append((row, column + 1))
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.string
    for row, column in reversed(edits):
        line = lines[row - 1]
        lines[row - 1] = f"{line[:column]}markovscale.{line[column:]}"
    return "".join(lines)


class BuildWheel(build_py):
    """Moves what setuptools collected below ``markovscale``; an editable install stays as it is."""

    def run(self) -> None:
        """Build."""
        super().run()
        if self.editable_mode:
            return
        build = Path(self.build_lib)
        target = build / "markovscale"
        for name in PACKAGES:
            shutil.rmtree(target / name, ignore_errors=True)
            shutil.move(build / name, target / name)
        for name in DATA:
            shutil.copytree(name, target / name, dirs_exist_ok=True)
        for module in target.rglob("*.py"):
            module.write_text(renamed(module.read_text("utf-8")), "utf-8")
