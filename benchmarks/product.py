"""Chains of known length through the product's own path: Ray Data, controllers, client, engines."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import ray

from actors.driver.driver import Attempt
from actors.engines.engine_stats import Meter
from actors.engines.launch import Engines, start_engines
from actors.routing.transport import NAMESPACE
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
    controllers: int = 1,
) -> dict[str, Any]:
    """A run on scripted engines that write as much as they are asked to.

    Args:
        chains: questions.
        replicas: generators.
        slots: of each.
        tokens_per_s: of one sequence, however full the batch; None answers at once.
        most_tokens: of a completion.
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


@contextmanager
def engines_up(config: dict[str, Any]) -> Iterator[Engines]:
    """Engines on plain actors that several runs have one after another."""
    parsed = RunConfig.parse(config)
    start_ray(parsed.runtime)
    engines = start_engines(parsed.science, parsed.runtime, f"{parsed.name}-shared")
    try:
        yield engines
    finally:
        engines.stop()


class _OnEngines(Attempt):
    """An attempt on engines that were up before it and stay so."""

    def __init__(self, run: RunDir, config: RunConfig, engines: Engines) -> None:
        super().__init__(run, config, 1)
        self._given = engines

    @contextmanager
    def _engines(self, watch: Any) -> Iterator[Engines]:
        for pool in self._given.address.pools.values():
            for name in pool.at["replicas"]:
                ray.get(ray.get_actor(name, NAMESPACE).__ray_call__.remote(_count_anew))
        self._spending.engines_start()
        yield self._given


def _count_anew(host: Any) -> None:
    """Runs inside a replica (`EngineHost`): each run counts its own steps and time."""
    meter: Meter = host._engine._meter
    meter.ready()
    meter.preemptions = 0


def run_chains(
    config: dict[str, Any], work: list[Job], engines: Engines | None = None, seed: int = 0
) -> dict[str, float]:
    """Run `work` once; what its engines and its driver say of it.

    Args:
        config: of the run.
        work: its chains.
        engines: that are up (`engines_up`); None starts engines for this run.
        seed: another one makes other texts of the same lengths, so that no engine knows them.

    Raises:
        AssertionError: if a chain did not end as it had to.
    """
    with tempfile.TemporaryDirectory() as runs:
        config = {**config, "runtime": {**config["runtime"], "runs": runs}}
        parsed = RunConfig.parse(config)
        run = RunDir.create(parsed, f"{parsed.name}-{time.time_ns()}")
        run.folder.write_table("questions.parquet", questions_of(work, seed))
        start_ray(parsed.runtime)
        began = time.perf_counter()
        attempt = _OnEngines(run, parsed, engines) if engines else Attempt(run, parsed, 1)
        attempt.execute()
        whole_s = time.perf_counter() - began
        outcomes, metrics = run.outcomes().to_pylist(), run.metrics()
    rounds = sum(job.rounds for job in work)
    assert len(outcomes) == len(work), "every chain must have its outcome"
    assert not [row for row in outcomes if row["error"]], "no chain may fail"
    assert sum(row["completions"] for row in outcomes) == rounds, "rounds must be those asked for"
    tokens = sum(row["completion_tokens"] for row in outcomes)
    replicas = metrics[-1]["engines"]["generator"]
    seconds = max(engine["span_s"] for engine in replicas)
    assert seconds > 0, "no engine may have been replaced on the way"
    phase_s = metrics[-1]["phase_seconds"]
    return {
        "seconds": seconds,
        "phase_seconds": phase_s,
        "whole_seconds": whole_s,
        "tokens": tokens,
        "tokens_per_s": tokens / seconds,
        "rounds_per_s": rounds / seconds,
        "slots_busy": sum(engine["slot_s"] for engine in replicas) / (seconds * len(replicas)),
        "ms_a_step": 1_000 * seconds / max(engine["steps"] or 1 for engine in replicas),
        "preemptions": sum(engine["preemptions"] for engine in replicas),
        "loop_lag_ms": max(row["loop_lag_ms"] for row in metrics),
    }


def questions_of(work: list[Job], seed: int = 0) -> pa.Table:
    """questions.parquet for chains of known length."""
    rows = [
        {
            **dict.fromkeys(SCHEMA.names),
            "benchmark": "arithmetic",
            "question_id": job.question_id,
            "text": job.text,
            "seed": question_seed(seed, "arithmetic", job.question_id),
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
