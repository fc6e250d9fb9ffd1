"""Chains of known length through the product's own path: Ray Data, controllers, client, engines."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import pyarrow as pa

from actors.driver.driver import Attempt
from benchmarks.workload import ROUNDS, Job
from jobs.cluster import start_ray
from pipeline.config.run import RunConfig
from pipeline.core.seeds import question_seed
from pipeline.records.questions import SCHEMA
from pipeline.records.run_dir import RunDir

SCIENCE: dict[str, Any] = {
    "strategies": [{"kind": "markovscale_t", "n": ROUNDS, "p0_source": "priors_file"}],
    "answer_rule": "last",
    "prompts": {"first": "{question}", "revise": "{question} was {answer}"},
}
"""A strategy whose priors decide how many rounds a chain has; nothing is scored."""


def scripted_config(
    chains: int,
    *,
    replicas: int = 1,
    slots: int = 16,
    tokens_per_s: float | None = None,
    most_tokens: int = 400,
    host: str = "actors",
    controllers: int = 1,
) -> dict[str, Any]:
    """A run on scripted engines that write as much as they are asked to.

    Args:
        chains: questions.
        replicas: generators.
        slots: of each.
        tokens_per_s: of one sequence, however full the batch; None answers at once.
        most_tokens: of a completion.
        host: ``actors`` or ``serve``.
        controllers: actors that hold the chains.
    """
    return {
        "name": "scripted",
        "science": {
            **SCIENCE,
            "benchmarks": [{"name": "arithmetic", "size": chains}],
            "decoding": {"max_tokens": most_tokens},
            "generator": {"model": "scripted"},
        },
        "runtime": {
            "host": host,
            "journal_flush_s": 1.0,
            "generator": {
                "replicas": replicas,
                "num_gpus": 0,
                "num_cpus": 0.1,
                "engine": {"max_num_seqs": slots},
            },
            "controllers": {
                "actors": controllers,
                "num_cpus": 0.2,
                "in_flight": round(1.1 * slots * replicas),
            },
            # completions have between half and twice the median, and are cut at what is asked for
            "scripted": {"slots": slots, "tokens": 4 * most_tokens, "tokens_per_s": tokens_per_s},
        },
    }


def run_chains(config: dict[str, Any], work: list[Job]) -> dict[str, float]:
    """Run `work` once; what its engines and its driver say of it.

    Raises:
        AssertionError: if a chain did not end as it had to.
    """
    with tempfile.TemporaryDirectory() as runs:
        config = {**config, "runtime": {**config["runtime"], "runs": runs}}
        parsed = RunConfig.parse(config)
        run = RunDir.create(parsed, f"{parsed.name}-{time.time_ns()}")
        run.folder.write_table("questions.parquet", questions_of(work))
        start_ray(parsed.runtime)
        began = time.perf_counter()
        Attempt(run, parsed, 1).execute()
        whole_s = time.perf_counter() - began
        outcomes, metrics = run.outcomes().to_pylist(), run.metrics()
    rounds = sum(job.rounds for job in work)
    assert len(outcomes) == len(work), "every chain must have its outcome"
    assert not [row for row in outcomes if row["error"]], "no chain may fail"
    assert sum(row["completions"] for row in outcomes) == rounds, "rounds must be those asked for"
    tokens = sum(row["completion_tokens"] for row in outcomes)
    engines = metrics[-1]["engines"]["generator"]
    seconds = max(engine["span_s"] for engine in engines)
    assert seconds > 0, "no engine may have been replaced on the way"
    phase_s = metrics[-1]["phase_seconds"]
    return {
        "seconds": seconds,
        "phase_seconds": phase_s,
        "whole_seconds": whole_s,
        "tokens": tokens,
        "tokens_per_s": tokens / seconds,
        "rounds_per_s": rounds / seconds,
        "slots_busy": sum(engine["slot_s"] for engine in engines) / (seconds * len(engines)),
        "ms_a_step": 1_000 * seconds / max(engine["steps"] or 1 for engine in engines),
        "preemptions": sum(engine["preemptions"] for engine in engines),
        # the whole span of a replica whose slots were never nine tenths in use
        "filled_s": max(
            engine["span_s"] if engine["filled_s"] is None else engine["filled_s"]
            for engine in engines
        ),
        "loop_lag_ms": max(row["loop_lag_ms"] for row in metrics),
    }


def questions_of(work: list[Job]) -> pa.Table:
    """questions.parquet for chains of known length."""
    rows = [
        {
            **dict.fromkeys(SCHEMA.names),
            "benchmark": "arithmetic",
            "question_id": job.question_id,
            "text": job.text,
            "seed": question_seed(0, "arithmetic", job.question_id),
            "p0": 0.9 if job.rounds == 1 else 0.1,  # L is 0.5: the first is gated, the other not
            "p0_source": "priors_file",
            "a": 0.2,
            "b": 0.2,
            "tokens_per_round": float(job.tokens),
            "max_tokens": job.tokens,
        }
        for job in work
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)
