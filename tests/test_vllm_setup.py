"""What vLLM is started with; vLLM itself is not needed."""

import pytest

from actors.vllm_setup import PROJECT, engine_args, environment, located
from pipeline.config.models import GeneratorModel
from pipeline.config.runtime import PoolConfig
from pipeline.errors import ConfigError

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
    assert pool(num_gpus=0.5).gpus == 0.5


def test_a_pool_without_gpus_gets_vllms_cpu_settings_and_the_users_win() -> None:
    """Threads follow num_cpus; a GPU pool has none of these."""
    on_cpu = environment(pool(num_gpus=0, num_cpus=4, env={"VLLM_CPU_KVCACHE_SPACE": "8"}))

    assert on_cpu["VLLM_CPU_KVCACHE_SPACE"] == "8"
    assert on_cpu["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert on_cpu["OMP_NUM_THREADS"] == "4"
    assert environment(pool(num_gpus=0, num_cpus=0.3))["OMP_NUM_THREADS"] == "1"
    assert engine_args(MODEL, pool(num_gpus=0))["distributed_executor_backend"] == "uni"
    assert not [name for name in environment(pool()) if "CPU" in name or "OMP" in name]


def test_folders_of_the_project_are_found_from_anywhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """A worker's working directory is not the project's; ids of a hub stay as they are."""
    monkeypatch.chdir(str(tmp_path))

    assert located("configs") == str(PROJECT / "configs")
    assert located("Qwen/Qwen2.5-Math-PRM-7B") == "Qwen/Qwen2.5-Math-PRM-7B"
