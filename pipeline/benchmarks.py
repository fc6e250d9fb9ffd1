"""Benchmarks: the built-in arithmetic (stand-in until the whole loader lands)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from pipeline.config.schema import Section


class BenchmarkSource(Section):
    """Where questions come from."""

    name: str
    path: str | None = None
    size: int = Field(500, ge=1)
    split: Literal["train", "validation", "test"] = "test"
    seed: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question with its gold answer."""

    benchmark: str
    question_id: str
    text: str
    gold: str | None
    level: str | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a benchmark holds."""

    items: list[Item]
    skipped: list[Any]


def load(source: BenchmarkSource) -> Loaded:
    """Read a benchmark."""
    from pipeline.arithmetic import questions

    items = [
        Item(benchmark=source.name, question_id=q, text=t, gold=g)
        for q, t, g in questions(source.size, split=source.split, seed=source.seed)
    ]
    return Loaded(items=items, skipped=[])


def describe_rows(source: BenchmarkSource) -> Iterator[tuple[Any, Item]]:
    """Raw rows beside items."""
    for item in load(source).items:
        yield item.text, item
