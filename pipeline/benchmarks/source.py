"""Where a benchmark comes from: the part of a run's configuration that names it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
Split: TypeAlias = Literal["train", "test", "validation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One of the five benchmarks of the paper, as published on Hugging Face."""

    rows: int
    """How many there must be."""
    dataset: str
    config: str | None
    split: str
    revision: str
    """The commit that is read."""


KNOWN: dict[str, Known] = {
    "math500": Known(
        rows=500,
        dataset="HuggingFaceH4/MATH-500",
        config=None,
        split="test",
        revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
    ),
    "gsm8k": Known(
        rows=1319,
        dataset="openai/gsm8k",
        config="main",
        split="test",
        revision="740312add88f781978c0658806c59bc2815b9866",
    ),
    "aime24": Known(
        rows=30,
        dataset="HuggingFaceH4/aime_2024",
        config=None,
        split="train",
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
    ),
    "aime25": Known(
        rows=30,
        dataset="math-ai/aime25",
        config=None,
        split="test",
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
    ),
    "amc23": Known(
        rows=40,
        dataset="math-ai/amc23",
        config=None,
        split="test",
        revision="80815d37005feb82cd7f8fbc6901d5d3eff43057",
    ),
}
GENERATED = ("arithmetic", "sums")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Names of the fields of a row; None means the usual names are tried."""

    question: str | None = None
    """Else ``problem``, ``question`` or ``prompt``; the first of them that the row has."""
    answer: str | None = None
    """Else ``answer``, ``final_answer``, ``expected_answer`` or ``gold``."""
    id: str | None = None
    """Else ``question_id``, ``unique_id`` or ``id``; without any, the position from 0 on."""
    level: str | None = None
    """Else ``level`` or ``difficulty``; may be absent."""
    subject: str | None = None
    """Else ``subject`` or ``type``; may be absent."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSource:
    """One benchmark of a run.

    ``{name: aime24}`` reads the pinned data set from Hugging Face, ``{name: aime24, path: ...}`` a
    local copy of it, ``{name: mine, path: questions.csv, fields: {question: q}}`` one's own.
    """

    name: str
    """A known benchmark (math500, gsm8k, aime24, aime25, amc23, arithmetic, sums) or one's own."""
    path: str | None = None
    """A JSONL, JSON, CSV or Parquet file, or a folder that holds the benchmark's file."""
    hf_dataset: str | None = None
    """A data set on Hugging Face, in place of the known one."""
    hf_config: str | None = None
    hf_split: str | None = None
    revision: str | None = None
    """Commit or tag of the data set."""
    fields: Fields = Fields()
    limit: int | None = None
    """Take only the first questions; the number of rows is then not checked."""
    max_tokens: int | None = None
    """New tokens a completion of this benchmark; None takes ``science.decoding.max_tokens``."""
    skip_bad_rows: bool = False
    """List and count rows that cannot be read instead of refusing the file."""
    max_row_bytes: int = 1 << 20
    max_file_bytes: int = 1 << 30
    size: int | None = None
    """Of ``arithmetic`` and ``sums``: how many questions (100)."""
    split: Split | None = None
    """Of ``arithmetic`` and ``sums``: train, validation or test (test)."""
    seed: int | None = None
    """Of ``arithmetic`` and ``sums``: which questions (0)."""

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
        outside = [self.path, self.hf_dataset, self.hf_config, self.hf_split, self.revision]
        generated = [self.size, self.split, self.seed]
        if self.name in GENERATED:
            if any(value is not None for value in outside):
                raise ValueError(f"{self.name} is generated: it must have no path and no data set")
            return
        if any(value is not None for value in generated):
            raise ValueError(
                f"size, split and seed must be of {' or '.join(GENERATED)}, got {self.name!r}"
            )
        if self.path is not None and any(value is not None for value in outside[1:]):
            raise ValueError("a benchmark must have a path or a data set, got both")
        if self.path is None and self.hf_dataset is None and self.name not in KNOWN:
            raise ValueError(
                f"a benchmark must be one of {', '.join([*KNOWN, *GENERATED])} "
                f"or have a path or hf_dataset, got {self.name!r}"
            )
