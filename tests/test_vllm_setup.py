"""What vLLM is started with; vLLM itself is not needed."""

import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from actors.engines.vllm_setup import (
    engine_args,
    environment,
    prefill_args,
)
from pipeline.config.models import GeneratorModel
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import ConfigError
from tests.conftest import ROOT

MODEL = GeneratorModel(model="some/model", max_model_len=4096)


def pool(**fields: object) -> PoolConfig:
    """A pool with these fields."""
    return PoolConfig.model_validate(fields)


def test_both_batch_limits_are_always_set() -> None:
    """vLLM's own defaults inside an actor are far too small."""
    arguments = engine_args(MODEL, pool())

    assert (arguments["max_num_seqs"], arguments["max_num_batched_tokens"]) == (256, 16_384)
    assert arguments["scheduling_policy"] == "priority"
    assert arguments["trust_remote_code"] is False


def test_extra_fields_pass_through_but_decide_nothing_twice() -> None:
    """A field that has a place of its own in the configuration is refused in extra."""
    passed = engine_args(MODEL, pool(engine={"extra": {"kv_cache_dtype": "fp8"}}))

    assert passed["kv_cache_dtype"] == "fp8"
    with pytest.raises(ConfigError, match=r"engine\.extra must not hold .*, got dtype, model"):
        engine_args(MODEL, pool(engine={"extra": {"model": "x", "dtype": "half"}}))


def test_tensor_parallelism_stays_inside_one_actor() -> None:
    """The actor gets all GPUs, and vLLM starts its ranks as processes there."""
    two = pool(engine={"tensor_parallel_size": 2})

    assert two.gpus == 2
    assert engine_args(MODEL, two)["distributed_executor_backend"] == "mp"
    assert "distributed_executor_backend" not in engine_args(MODEL, pool())


def test_replicas_that_share_a_gpu_share_its_memory() -> None:
    """Each takes what it would of a whole GPU, times its share."""
    half = {"num_gpus": 0.5}
    thrifty = pool(**half, engine={"gpu_memory_utilization": 0.3})

    assert engine_args(MODEL, pool())["gpu_memory_utilization"] == 0.9
    assert engine_args(MODEL, pool(num_gpus=2))["gpu_memory_utilization"] == 0.9
    assert engine_args(MODEL, pool(**half))["gpu_memory_utilization"] == 0.45
    assert engine_args(MODEL, thrifty)["gpu_memory_utilization"] == 0.3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_gpus": 1.5}, "num_gpus must be whole above 1, got 1.5"),
        (
            {"num_gpus": 1, "engine": {"tensor_parallel_size": 2}},
            "num_gpus must be at least engine.tensor_parallel_size 2, or 0, got 1",
        ),
    ],
)
def test_gpus_that_a_replica_cannot_use_are_refused(fields: dict[str, Any], message: str) -> None:
    """Before any engine starts."""
    with pytest.raises(ValidationError, match=message):
        pool(**fields)


def test_a_pool_without_gpus_gets_vllms_cpu_settings_and_the_users_win() -> None:
    """Threads follow num_cpus; a GPU pool has none of these."""
    on_cpu = environment(pool(num_gpus=0, num_cpus=4, env={"VLLM_CPU_KVCACHE_SPACE": "8"}))

    assert on_cpu["VLLM_CPU_KVCACHE_SPACE"] == "8"
    assert on_cpu["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert on_cpu["OMP_NUM_THREADS"] == "4"
    assert environment(pool(num_gpus=0, num_cpus=0.3))["OMP_NUM_THREADS"] == "1"
    assert engine_args(MODEL, pool(num_gpus=0))["distributed_executor_backend"] == "uni"
    assert not [name for name in environment(pool()) if "CPU" in name or "OMP" in name]


HOLDER = """
import sys, time
from actors.engines.vllm_engine import alone_on_gpu
from pipeline.config.runtime import PoolConfig
with alone_on_gpu(PoolConfig(num_gpus=float(sys.argv[1]))):
    print("in", flush=True)
    time.sleep(60)
"""


def test_engines_that_share_a_gpu_start_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The next one waits until the first is up or has died; other GPUs and whole ones do not."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def began(gpu: str, share: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", HOLDER, share],
            env=os.environ | {"CUDA_VISIBLE_DEVICES": gpu, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )

    def is_in(process: subprocess.Popen[str], seconds: float) -> bool:
        assert process.stdout is not None
        return bool(select.select([process.stdout], [], [], seconds)[0])

    first = began("0", "0.5")
    started = [first]
    try:
        assert is_in(first, 120)
        second, other, whole = (began(*of) for of in (("0", "0.5"), ("1", "0.5"), ("0", "1")))
        started += [second, other, whole]
        assert is_in(other, 120)
        assert is_in(whole, 120)
        assert not is_in(second, 1)
        first.kill()
        assert is_in(second, 120)
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_prompts_are_read_whole_on_a_cpu_where_a_step_can_hold_them() -> None:
    """vLLM on CPU dies where one with a seed is read in pieces; what the user says wins."""
    steps = {"max_num_batched_tokens": 512}
    whole = {"enable_chunked_prefill": False}
    asked = {**steps, "extra": {"enable_chunked_prefill": True}}

    assert prefill_args(pool(num_gpus=0, engine=steps), 512) == whole
    assert prefill_args(pool(num_gpus=0, engine=steps), 513) == {}
    assert prefill_args(pool(num_gpus=0, engine=steps), None) == {}
    assert prefill_args(pool(engine=steps), 512) == {}
    assert prefill_args(pool(num_gpus=0, engine=asked), 512) == {}
