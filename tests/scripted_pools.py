"""Pools and runs of scripted engines, drawn by the live controller: two benchmarks each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from actors.engines.scripted import gold
from pipeline.config.collection import make_collection
from pipeline.config.run import RunConfig
from pipeline.config.runtime import Script
from pipeline.records.run_dir import RunDir, rows_of
from tests.live import ScriptedGenerator, create, live

OTHER = 12
"""Questions of the benchmark ``pairs``."""


def made_up(folder: Path) -> str:
    """A benchmark as a file, with the answers that scripted engines hold to be right."""
    path = folder / "pairs.jsonl"
    questions = [f"What is {7 * n + 11} and {3 * n + 5}?" for n in range(OTHER)]
    rows = [{"question": text, "answer": gold(text)} for text in questions]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def configuration(folder: Path, backbone: str, strategies: list[Any], size: int = 12) -> RunConfig:
    """Both benchmarks with scripted engines under a backbone's name."""
    return RunConfig.parse(values_of(folder, backbone, strategies, size))


def values_of(folder: Path, backbone: str, strategies: list[Any], size: int) -> dict[str, Any]:
    p0 = 0.5 if backbone.endswith("a") else 0.65
    return {
        "science": {
            "benchmarks": [
                {"name": "arithmetic", "size": size},
                {"name": "pairs", "path": made_up(folder)},
            ],
            "strategies": strategies,
            "prompts": {"first": "{question}", "revise": "{question}\nIt was {answer}."},
            "decoding": {"max_tokens": 256},
            "generator": {"model": backbone},
            "verifier": {"model": "scripted"},
        },
        "runtime": {"runs": str(folder), "scripted": {"p0": p0, "a": 0.1, "b": 0.3}},
    }


async def collected(
    folder: Path,
    backbone: str,
    rounds: int = 8,
    samples: int = 8,
    size: int = 12,
    fails_in: int | None = None,
) -> RunDir:
    """A finished collection; chains fail in one round where it is given."""
    values = values_of(folder, backbone, ["base"], size)
    make_collection(values, rounds, samples)
    run = create(RunConfig.parse(values), f"pool-{backbone}")
    rows = rows_of(run.folder.read_table("questions.parquet")) if fails_in is not None else []
    fail = [f"sequential/{row['benchmark']}/{row['question_id']}#{fails_in}" for row in rows]
    script = Script.model_validate(values["runtime"]["scripted"])
    await live(run, ScriptedGenerator(script, fail=tuple(fail)))
    return run


async def evaluated(folder: Path, backbone: str, strategies: list[Any], size: int = 12) -> RunDir:
    """A finished run of other strategies on the same questions."""
    run = create(configuration(folder, backbone, strategies, size), f"run-{backbone}")
    await live(run)
    return run
