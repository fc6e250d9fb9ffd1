"""Configures vLLM: environment, arguments, and checks before weights are loaded.

It and the other modules named ``vllm_*`` alone know vLLM's names.
Tested with 0.32 (CPU) and 0.26 (GPU). Everything used in the two exists in both versions under the
same name, unless a comment says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from actors.engines.prompting import Prompter
from actors.routing.calls import GenerateCall
from pipeline.config.models import GeneratorModel, ModelConfig
from pipeline.config.runtime import PoolConfig
from pipeline.core.decoding import Sampling
from pipeline.core.errors import ConfigError
from pipeline.core.forms import Form
from pipeline.core.thinking import Reasoning
from pipeline.planning import sizing
from pipeline.store.local import shipped_path

CPU_KV_CACHE_GIB = "1"
PROCESSES = "VLLM_ENABLE_V1_MULTIPROCESSING"


def environment(pool: PoolConfig) -> dict[str, str]:
    """Environment of a replica's process, to be set before it imports vLLM; `pool.env` wins."""
    variables = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if on_cpu(pool):
        variables |= {
            "VLLM_CPU_KVCACHE_SPACE": CPU_KV_CACHE_GIB,
            # Ray may put several replicas on the same cores; binding would stack them on the first
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": str(max(1, round(pool.num_cpus))),
        }
        if pool.engine.tensor_parallel_size == 1:
            # no further process for the engine (see `vllm_engine`) or the model (see `engine_args`)
            variables[PROCESSES] = "0"
    return variables | pool.env


def on_cpu(pool: PoolConfig) -> bool:
    """Whether a replica of `pool` runs without a GPU."""
    return pool.num_gpus == 0


def engine_args(model: ModelConfig, pool: PoolConfig, **more: Any) -> dict[str, Any]:
    """Arguments of vLLM's AsyncEngineArgs; `pool.engine.extra` wins.

    Raises:
        ConfigError: where a field of `pool.engine.extra` is one that `model` or `pool` decides.
    """
    engine = pool.engine
    decided: dict[str, Any] = {
        "model": shipped_path(model.model),
        "revision": model.revision,
        "tokenizer": model.tokenizer and shipped_path(model.tokenizer),
        "dtype": model.dtype,
        "quantization": model.quantization,
        "max_model_len": model.max_model_len,
        "load_format": model.load_format,
        "trust_remote_code": model.trust_remote_code,
        "tensor_parallel_size": engine.tensor_parallel_size,
        "gpu_memory_utilization": pool.memory_share,
        "max_num_seqs": engine.max_num_seqs,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "enforce_eager": engine.enforce_eager,
        **more,
    }
    if twice := sorted(decided.keys() & engine.extra.keys()):
        raise ConfigError(
            f"engine.extra must not hold what has a field of its own, got {', '.join(twice)}"
        )
    defaults: dict[str, Any] = {"scheduling_policy": "priority"}
    if engine.tensor_parallel_size > 1:
        defaults["distributed_executor_backend"] = "mp"  # all ranks inside this one actor
    elif on_cpu(pool):
        # no worker process: a third less work at the start and 0.7 GB less memory. vLLM wants one
        # to bind threads to cores, which `environment` turns off
        defaults["distributed_executor_backend"] = "uni"
    if on_cpu(pool):
        # the share of the machine's memory that vLLM checks for at the start; what it takes for
        # the KV cache is set by VLLM_CPU_KVCACHE_SPACE
        decided.pop("gpu_memory_utilization")
    return {**defaults, **decided, **engine.extra}


def prefill_args(pool: PoolConfig, context: int | None) -> dict[str, Any]:
    """Arguments that keep vLLM on CPU (0.32) from dying where a prompt with a seed is read in
    pieces: ``CPU Generator does not use offset``.

    Args:
        pool: the generator's.
        context: tokens of the model's context; None where only vLLM knows.
    """
    fits = context is not None and pool.engine.max_num_batched_tokens >= context
    chosen = "enable_chunked_prefill" in pool.engine.extra
    return {"enable_chunked_prefill": False} if on_cpu(pool) and fits and not chosen else {}


def reasoning_args(reasoning: Reasoning | None) -> dict[str, Any]:
    """Arguments that tell vLLM what ends the thinking of a model with marks of its own."""
    if reasoning is None:
        return {}
    from vllm.config import ReasoningConfig

    marks = {"reasoning_start_str": reasoning.open, "reasoning_end_str": reasoning.close}
    return {"reasoning_config": ReasoningConfig(**marks)}


def ends_thinking(llm: Any) -> bool:
    """Whether vLLM knows the tokens that end the thinking; else it refuses a thinking budget."""
    known = getattr(llm.vllm_config, "reasoning_config", None)
    return known is not None and bool(known.enabled)


def sampling_params(sampling: Sampling) -> dict[str, Any]:
    """The fields of vLLM's SamplingParams that are not at their defaults."""
    chosen = sampling.chosen()
    if "thinking_budget" in chosen:
        chosen["thinking_token_budget"] = chosen.pop("thinking_budget")
    if "repetition_detection" in chosen:
        from vllm.sampling_params import RepetitionDetectionParams

        patterns = RepetitionDetectionParams(**chosen["repetition_detection"])
        chosen["repetition_detection"] = patterns
    return chosen


def structured(form: Form | None) -> dict[str, Any]:
    """The fields of vLLM's SamplingParams that hold a reply to its form."""
    schema = None if form is None else form.schema()
    if schema is None:
        return {}
    from vllm.sampling_params import StructuredOutputsParams

    return {"structured_outputs": StructuredOutputsParams(json=schema)}


def token_rows(*, activation: bool) -> dict[str, Any]:
    """Arguments of `engine_args` for a model with a row for every token: logits, or with
    `activation` the probabilities that vLLM makes of them."""
    from vllm.config import PoolerConfig

    return {
        "runner": "pooling",
        "pooler_config": PoolerConfig(pooling_type="ALL", use_activation=activation),
    }


def value_head() -> dict[str, Any]:
    """Arguments of `engine_args` for a model of `vllm_value_head`, which this process learns of."""
    from actors.engines import vllm_value_head

    vllm_value_head.register()
    return {"worker_extension_cls": f"{vllm_value_head.__name__}.Registered", "convert": "classify"}


def context_tokens(llm: Any) -> int:
    """Tokens of prompt and completion together that a sequence may have."""
    return int(llm.model_config.max_model_len)


def kv_capacity_tokens(llm: Any) -> int:
    """Tokens that the KV cache holds; 0 where vLLM does not say."""
    cache = llm.vllm_config.cache_config
    exact = getattr(cache, "kv_cache_size_tokens", None)  # since 0.30 or so
    if exact:
        return int(exact)
    return int((cache.num_gpu_blocks or 0) * (cache.block_size or 0))


def check_shape(model: ModelConfig) -> None:
    """Hold the sizes that the configuration states against the model's own.

    Raises:
        ConfigError: naming every field that differs.
    """
    if model.shape is None:
        return
    sizing.check_shape(model.shape, hf_config(model).to_dict())


def hf_config(model: ModelConfig) -> Any:
    """The model's configuration as transformers reads it."""
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(
        shipped_path(model.model),
        revision=model.revision,
        trust_remote_code=model.trust_remote_code,
    )


def model_config(model: ModelConfig) -> dict[str, Any]:
    """The model's config.json as it stands; none of the model's code runs for it."""
    from transformers import PretrainedConfig

    raw, _ = PretrainedConfig.get_config_dict(shipped_path(model.model), revision=model.revision)
    return dict(raw)


def tokenizer(model: ModelConfig) -> Any:
    """The tokenizer that prompts are made with."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(
        shipped_path(model.tokenizer or model.model),
        revision=None if model.tokenizer else model.revision,
        trust_remote_code=model.trust_remote_code,
    )


def generator_tokenizer(model: GeneratorModel) -> Any:
    """The generator's tokenizer, with the chat template that the configuration names.

    Raises:
        ConfigError: where that cannot be read.
    """
    own = tokenizer(model)
    if model.chat_template is not None:
        try:
            own.chat_template = Path(model.chat_template).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"science.generator.chat_template must be text: {error}") from error
    return own


def check_prompts(model: GeneratorModel, tokenizer: Any, calls: Iterable[GenerateCall]) -> None:
    """Render requests as the engine will.

    Raises:
        ConfigError: where the chat template refuses one, or it does not fit into the context.
    """
    prompter = Prompter(
        tokenizer,
        context_of(model) or math.inf,
        model.open_thinking,
        reasoning=model.reasoning,
        template=model.chat_template_kwargs,
    )
    for call in calls:
        try:
            prompter.prompt(call.request)
        except ValueError as error:
            raise ConfigError(f"science.generator {model.model}: {error}") from error


def context_of(model: ModelConfig) -> int | None:
    """Tokens of the context: as configured, else the model's own; None where neither says."""
    if model.max_model_len is not None:
        return model.max_model_len
    text = hf_config(model).get_text_config()
    positions = getattr(text, "max_position_embeddings", None)
    return positions if isinstance(positions, int) else None
