"""*known*: benchmarks by name: where they are, and which fields of their rows hold what.

Five are those of the paper, each at a pinned commit and with its number of rows checked. Of the
others the columns are known as they are published, so that a downloaded file can be read as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pydantic import TypeAdapter

from pipeline.answers.graders import MATH, GraderSettings
from pipeline.benchmarks.fields import Fields
from pipeline.store.local import package_text, read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One benchmark as published on Hugging Face."""

    rows: int
    """How many the split has; checked where the commit is pinned."""
    dataset: str
    config: str | None = None
    split: str = "test"
    revision: str | None = None
    """The commit that is read; None reads the newest."""
    grader: GraderSettings = MATH
    mappings: tuple[Fields, ...] = (Fields(),)
    """Forms in which its rows circulate; the first whose names a row has is meant."""


@cache
def known() -> Mapping[str, Known]:
    """The benchmarks of ``known.yaml`` by name, those of the paper first."""
    values = read_yaml(package_text("pipeline.benchmarks", "known.yaml"))
    return TypeAdapter(dict[str, Known]).validate_python(values)


_ALIASES = {"gaokao2023en": "gaokao-en", "aquarat": "aqua", "gpqadiamond": "gpqa"}


def known_of(name: str) -> Known | None:
    """The benchmark of a name, whatever its case and whether ``-`` or ``_`` joins its words."""
    letters = re.sub(r"[\W_]", "", name).lower()
    by_letters = {each.replace("-", ""): each for each in known()} | _ALIASES
    return known().get(by_letters.get(letters, ""))
