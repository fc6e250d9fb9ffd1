"""What a reader of a run's figures must know first, such as that rows were left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.config.run import RunConfig
from pipeline.records.run_dir import RunDir
from pipeline.records.trajectory import Seen

_SLACK = 32  # tokens of the marks, and of the words with which an engine ends a thought


def cautions(run: RunDir, config: RunConfig, outcomes: Iterable[Seen]) -> tuple[str, ...]:
    """One sentence a matter; none where all is well."""
    skipped = run.folder.read_json("skipped.json") if run.folder.has("skipped.json") else []
    warnings = run.folder.read_json("warnings.json") if run.folder.has("warnings.json") else []
    budget = config.science.decoding.thinking_budget
    ignored = () if budget is None else _over_budget(budget, outcomes)
    return (*warnings, *left_out(skipped), *ignored)


def left_out(skipped: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Of each benchmark how many rows were skipped, and why the first of them was."""
    by_benchmark: dict[str, list[Mapping[str, Any]]] = {}
    for skip in skipped:
        by_benchmark.setdefault(skip["benchmark"], []).append(skip)
    return tuple(
        f"{len(skips):,} row{'s' if len(skips) > 1 else ''} of {benchmark} left out, the first in "
        f"{skips[0]['where']}: {skips[0]['reason']}"
        for benchmark, skips in by_benchmark.items()
    )


def _over_budget(budget: int, outcomes: Iterable[Seen]) -> tuple[str, ...]:
    chains = over = 0
    for row in outcomes:
        chains += 1
        over += row["thinking_tokens"] > row["completions"] * (budget + _SLACK)
    if not over:
        return ()
    return (
        f"the engine ignored the thinking budget of {budget:,} tokens: {over:,} of "
        f"{chains:,} chains thought longer; name what ends the thinking in "
        "science.generator.reasoning, or set vLLM's reasoning_parser",
    )
