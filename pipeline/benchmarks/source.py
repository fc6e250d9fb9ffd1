"""*BenchmarkSource*, *known*: say where a benchmark comes from, and list those known by name.

Five of the known ones are those of the paper, each at a pinned commit and with its number of rows
checked. Of the others the columns are known as they are published, so that a downloaded file can be
read as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import ClassVar, Literal, TypeAlias

from pydantic import TypeAdapter

from pipeline.answers.graders import MATH, GraderSettings
from pipeline.benchmarks.fields import Fields
from pipeline.benchmarks.generated import level_of
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


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
Split: TypeAlias = Literal["train", "test", "validation"]

GENERATED = ("arithmetic", "sums", "steps-K")
"""Generated benchmarks, as messages name them; K is a number from 1 to 20."""


def _near(name: str) -> str:
    near = get_close_matches(name.lower(), [*known(), *GENERATED], n=1)
    return f" (did you mean {near[0]}?)" if near else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSource:
    """One benchmark of a run.

    ``{name: aime24}`` reads the pinned data set from Hugging Face, ``{name: aime24, path: ...}`` a
    local copy of it, ``{name: mine, path: questions.csv, fields: {question: q}}`` one's own.
    """

    name: str
    """A known benchmark (`pipeline.benchmarks.source`), a generated one, or one's own name."""
    path: str | None = None
    """A JSONL, JSON, CSV, TSV or Parquet file, or a folder: with the benchmark's file, a cloned
    data set, or what ``save_to_disk`` wrote."""
    hf_dataset: str | None = None
    """A data set on Hugging Face, in place of the known one."""
    hf_config: str | None = None
    hf_split: str | None = None
    revision: str | None = None
    """Commit or tag of the data set."""
    loader: str | None = None
    """``package.module:function`` of one's own: without arguments, gives a mapping a row."""
    fields: Fields = Fields()
    """Where rows hold what; a known benchmark has its own mapping, over which these are put."""
    limit: int | None = None
    """Take only the first questions; the number of rows is then not checked."""
    max_tokens: int | None = None
    """New tokens a completion of this benchmark; None takes ``science.decoding.max_tokens``."""
    skip_bad_rows: bool = False
    """List and count rows that cannot be read instead of refusing the file."""
    max_row_bytes: int = 1 << 20
    max_file_bytes: int = 1 << 30
    size: int | None = None
    """Of generated ones: how many questions (100)."""
    split: Split | None = None
    """Of generated ones: train, validation or test (test)."""
    grader: GraderSettings | None = None
    """How its answers are graded; None takes what the known benchmark has, else ``math``."""
    seed: int | None = None
    """Of generated ones: which questions (0). Of shuffled choices: their order (0)."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                "a benchmark's name must be 1 to 64 letters, digits, '.', '_' or '-', "
                f"starting with a letter or digit, got {self.name!r}"
            )
        for field in ("limit", "max_tokens", "max_row_bytes", "max_file_bytes", "size"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ValueError(f"{field} must be >= 1, got {value!r}")
        if self.seed is not None and self.seed < 0:
            raise ValueError(f"seed must be >= 0, got {self.seed!r}")
        places = [n for n in ("path", "hf_dataset", "loader") if getattr(self, n) is not None]
        parts = [n for n in ("hf_config", "hf_split", "revision") if getattr(self, n) is not None]
        if self.is_generated:
            if parts:
                raise ValueError(f"{self.name} is generated: it must have no part of a data set")
            return
        if self.size is not None or self.split is not None:
            raise ValueError(
                f"size and split must be of {' or '.join(GENERATED)} without a path or data set, "
                f"got {self.name!r}"
            )
        if self.seed is not None and not self.is_shuffled:
            raise ValueError(
                f"seed must be of {' or '.join(GENERATED)} or of shuffled choices, "
                f"got {self.name!r}"
            )
        if len(places) > 1 or (parts and places not in ([], ["hf_dataset"])):
            raise ValueError(
                "a benchmark must have one of path, hf_dataset (with hf_config, hf_split and "
                f"revision) and loader, got {', '.join(places + parts)}"
            )
        if not places and known_of(self.name) is None:
            raise ValueError(
                f"a benchmark must be one of {', '.join([*known(), *GENERATED])} "
                f"or have a path, hf_dataset or loader, got {self.name!r}{_near(self.name)}"
            )

    @property
    def graded_by(self) -> GraderSettings:
        """The grader, where none is named that of the known benchmark."""
        known = known_of(self.name)
        return self.grader or (known.grader if known is not None else MATH)

    @property
    def is_generated(self) -> bool:
        """Whether it is made here. A path, data set or loader makes it one's own of that name: runs
        from before the name was taken stay readable."""
        own = (self.path, self.hf_dataset, self.loader)
        known = self.name in GENERATED[:2] or level_of(self.name) is not None
        return known and all(value is None for value in own)

    @property
    def is_shuffled(self) -> bool:
        """Whether choices are put into a random order."""
        known = known_of(self.name)
        return any(fields.shuffle for fields in (self.fields, *(known.mappings if known else ())))
