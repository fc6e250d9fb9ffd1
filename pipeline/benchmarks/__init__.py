"""Benchmarks: questions with gold answers, from Hugging Face, a local file or built in.

Those that are known by name are listed in `pipeline.benchmarks.source`, each with where its rows
hold what; ``arithmetic`` and ``sums`` are generated. Any other name is the user's own, with a path
or a data set.
"""

from __future__ import annotations

from pipeline.benchmarks.fields import Fields
from pipeline.benchmarks.loading import Loaded, Skip, describe_rows, described_fields, load
from pipeline.benchmarks.rows import Item
from pipeline.benchmarks.source import BenchmarkSource

__all__ = [
    "BenchmarkSource",
    "Fields",
    "Item",
    "Loaded",
    "Skip",
    "describe_rows",
    "described_fields",
    "load",
]
