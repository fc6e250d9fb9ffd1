"""Benchmarks: questions with gold answers, from Hugging Face, a local file or built in.

Five are known by name, each at a pinned revision and with its number of rows checked: ``math500``,
``gsm8k``, ``aime24``, ``aime25``, ``amc23``; ``arithmetic`` and ``sums`` are generated. Any
other name is the user's own, with a path or a data set.
"""

from __future__ import annotations

from pipeline.benchmarks.loading import Loaded, Skip, describe_rows, load
from pipeline.benchmarks.rows import Item
from pipeline.benchmarks.source import BenchmarkSource, Fields

__all__ = ["BenchmarkSource", "Fields", "Item", "Loaded", "Skip", "describe_rows", "load"]
