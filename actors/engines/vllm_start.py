"""Starts vLLM's engines; `vllm_setup` has their arguments."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock

from actors.engines import vllm_in_process
from actors.engines.engine_stats import Meter
from actors.engines.vllm_setup import PROCESSES, engine_args, environment, on_cpu
from pipeline.config.models import ModelConfig
from pipeline.config.runtime import PoolConfig


@contextmanager
def alone_on_gpu(pool: PoolConfig) -> Iterator[None]:
    """Let the replicas that share a GPU start one after the other, on each node.

    At its start vLLM measures what it needs by how much memory of the whole GPU is taken
    meanwhile, so that it counts what another engine takes at the same time as its own, and its KV
    cache has that much less.
    """
    if not pool.shares_gpu:
        yield
        return
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").replace("/", "-")
    name = f"markovscale-{os.getuid()}-gpu-{gpu}.lock"
    with FileLock(Path(tempfile.gettempdir()) / name):
        yield


def start(arguments: dict[str, Any], pool: PoolConfig, meter: Meter) -> Any:
    """A running vLLM AsyncLLM whose steps `meter` counts; on CPU what stands for one.

    On a GPU the engine needs a process of its own: while a step runs there, Python has time for
    requests and replies. On a CPU that process costs more than it saves.
    """
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.metrics.loggers import StatLoggerBase

    class StepCounter(StatLoggerBase):  # type: ignore[misc]  # vLLM is untyped here
        """Feeds `meter` after every engine step."""

        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            del vllm_config, engine_index

        def record(self, scheduler_stats: Any, iteration_stats: Any, *_: Any, **__: Any) -> None:
            if iteration_stats is not None:
                meter.count(
                    completion_tokens=iteration_stats.num_generation_tokens,
                    preemptions=iteration_stats.num_preempted_reqs,
                )
            if scheduler_stats is not None:
                meter.batch(
                    scheduler_stats.num_running_reqs,
                    scheduler_stats.num_waiting_reqs,
                    scheduler_stats.kv_cache_usage,
                )

        def log_engine_initialized(self) -> None:
            """Nothing to say."""

    with alone_on_gpu(pool):
        options = AsyncEngineArgs(**arguments)
        if on_cpu(pool) and environment(pool).get(PROCESSES) == "0":
            llm: Any = vllm_in_process.started(options, StepCounter(None))
        else:
            llm = AsyncLLM.from_engine_args(options, stat_loggers=[StepCounter])
    meter.ready()
    return llm


def embedder(model: ModelConfig, pool: PoolConfig, pooling: str) -> Any:
    """vLLM's synchronous engine, for last-layer states pooled by ``last`` or ``mean``."""
    from vllm import LLM
    from vllm.config import PoolerConfig

    arguments = engine_args(
        model,
        pool,
        runner="pooling",
        convert="embed",
        pooler_config=PoolerConfig(pooling_type=pooling.upper(), use_activation=False),
        enable_prefix_caching=False,
        enable_chunked_prefill=False,
    )
    with alone_on_gpu(pool):
        return LLM(**arguments)
