"""Attempts of a small run in this very process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.config.run import RunConfig
from pipeline.records.run_dir import RunDir, rows_of
from tests.live import Engines, create, live


def config_of(runs: Path, *, size: int = 6, n: int = 4, **runtime: Any) -> RunConfig:
    """A run of one strategy on scripted engines."""
    return RunConfig.parse(
        {
            "name": "test",
            "science": {
                "benchmarks": [{"name": "arithmetic", "size": 200, "limit": size}],
                "strategies": ["mr_thinking"],
                "strategy": {"n": n},
                "prompts": {"first": "{question}", "revise": "{question} was {answer}"},
                "generator": {"model": "none"},
                "verifier": {"model": "none"},
            },
            "runtime": {"runs": str(runs), "scripted": {}, **runtime},
        }
    )


def new_run(config: RunConfig, name: str = "r") -> RunDir:
    """A run directory with its questions."""
    return create(config, name)


async def attempt(run: RunDir, engines: Engines, number: int = 1) -> list[dict[str, Any]]:
    """What is left of a run, as attempt `number`; its outcome rows."""
    await live(run, engines, engines, attempt=number)
    return [row for row in rows_of(run.outcomes()) if row["attempt"] == number]


def outcomes_of(run: RunDir) -> dict[str, dict[str, Any]]:
    """Outcomes by question, without what tells who wrote them when."""
    gone = ("seconds", "epoch", "sequence", "attempt")
    return {
        row["question_id"]: {name: value for name, value in row.items() if name not in gone}
        for row in rows_of(run.outcomes())
    }
