"""*Fit*: checks that models fit GPUs, from their shapes alone: no GPU, no hub.

The memory of a replica is what vLLM makes of it: `gpu_memory_utilization` of each GPU, less the
weights' share, less an overhead, is KV cache. An engine reports what it really has when it starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.config.models import ModelConfig, ModelShape
from pipeline.config.planning import Gpu
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import ConfigError

GIB = 2**30

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How one replica fills the memory of its GPUs."""

    tensor_parallel: int
    usable_bytes: int
    """Of each GPU."""
    weight_bytes: int
    """On each GPU."""
    overhead_bytes: int
    """On each GPU."""
    kv_bytes_per_token: int
    """On each GPU."""
    context: int
    """Longest sequence in tokens."""

    @property
    def free_bytes(self) -> int:
        """What is left on each GPU for the KV cache; negative where the weights do not fit."""
        return self.usable_bytes - self.weight_bytes - self.overhead_bytes

    @property
    def kv_tokens(self) -> int:
        """Tokens that the KV cache of the replica holds."""
        return max(0, self.free_bytes // self.kv_bytes_per_token)

    @property
    def full_sequences(self) -> int:
        """Sequences that fit when each has the longest context."""
        return self.kv_tokens // self.context


def shape_of(model: ModelConfig, where: str) -> ModelShape:
    """The shape that a configuration states.

    Raises:
        ConfigError: if it states none, or that of another model.
    """
    if model.shape is None:
        raise ConfigError(f"{where}.shape must be given to see whether {model.model} fits")
    if model.shape.of not in (None, model.model):
        raise ConfigError(
            f"{where}.shape must be that of {model.model}, got the shape of {model.shape.of}: set "
            "its fields, or shape: null for a run without a plan"
        )
    return model.shape


def weight_bytes(model: ModelConfig, where: str) -> int:
    """Bytes of the loaded weights.

    Raises:
        ConfigError: for a quantised model whose `shape.weight_bytes` is not given.
    """
    shape = shape_of(model, where)
    if shape.weight_bytes is not None:
        return shape.weight_bytes
    if model.quantization is not None:
        raise ConfigError(
            f"{where}.shape.weight_bytes must be given for a quantised model, "
            f"got quantization {model.quantization!r}"
        )
    return shape.parameters * DTYPE_BYTES[_dtype(model, shape)]


def memory_of(
    model: ModelConfig, pool: PoolConfig, gpu: Gpu, *, overhead_bytes: int, where: str
) -> Fit:
    """The memory of one replica, whether or not that is enough.

    Args:
        model: with its shape.
        pool: its tensor parallelism and share of memory.
        gpu: what it runs on.
        overhead_bytes: what is neither weights nor KV cache, on each GPU.
        where: dotted place of `model` in the configuration, for messages.

    Raises:
        ConfigError: where tensor parallelism cannot split the model's heads, or its context is
            longer than the model was made for.
    """
    shape, parallel = shape_of(model, where), pool.engine.tensor_parallel_size
    if not splits(shape, parallel):
        raise ConfigError(
            f"tensor_parallel_size must split {shape.heads} heads and {shape.kv_heads} KV heads "
            f"of {model.model} evenly, got {parallel}"
        )
    context = model.max_model_len or shape.positions
    if context > shape.positions:
        raise ConfigError(
            f"{where}.max_model_len must be at most {shape.positions:,}, which {model.model} was "
            f"made for, got {context:,}"
        )
    width = shape.head_dim or shape.hidden // shape.heads
    heads = max(1, shape.kv_heads // parallel)  # fewer heads than GPUs: each GPU has a copy of one
    value_bytes = DTYPE_BYTES[_dtype(model, shape)]
    return Fit(
        tensor_parallel=parallel,
        usable_bytes=math.floor(gpu.memory_bytes * pool.memory_share),
        weight_bytes=math.ceil(weight_bytes(model, where) / parallel),
        overhead_bytes=overhead_bytes,
        kv_bytes_per_token=2 * shape.layers * heads * width * value_bytes,
        context=context,
    )


def fitted(
    model: ModelConfig, pool: PoolConfig, gpu: Gpu, *, overhead_bytes: int, where: str
) -> Fit:
    """The memory of one replica that can serve at least one sequence of the longest context.

    Raises:
        ConfigError: where it cannot, with the tensor parallelism that can; and as `memory_of`.
    """
    fit = memory_of(model, pool, gpu, overhead_bytes=overhead_bytes, where=where)
    if fit.full_sequences >= 1:
        return fit
    enough = least_tensor_parallel(model, pool, gpu, overhead_bytes=overhead_bytes, where=where)
    remedy = "no tensor_parallel_size up to 16 can" if enough is None else f"{enough} can"
    raise ConfigError(
        f"a replica of {model.model} must hold its weights and {fit.context:,} tokens: each GPU "
        f"has {gib(fit.usable_bytes)} at gpu_memory_utilization "
        f"{pool.memory_share:g}, of which weights take {gib(fit.weight_bytes)} "
        f"and overhead {gib(fit.overhead_bytes)}, and the context needs "
        f"{gib(fit.context * fit.kv_bytes_per_token)}, got tensor_parallel_size "
        f"{fit.tensor_parallel}; {remedy}"
    )


def least_tensor_parallel(
    model: ModelConfig, pool: PoolConfig, gpu: Gpu, *, overhead_bytes: int, where: str
) -> int | None:
    """The smallest tensor parallelism of 1, 2, 4, 8, 16 with which a replica fits; None if none."""
    shape = shape_of(model, where)
    for parallel in (1, 2, 4, 8, 16):
        if not splits(shape, parallel):
            continue
        engine = pool.engine.model_copy(update={"tensor_parallel_size": parallel})
        wider = pool.model_copy(update={"engine": engine})
        fit = memory_of(model, wider, gpu, overhead_bytes=overhead_bytes, where=where)
        if fit.full_sequences >= 1:
            return parallel
    return None


def splits(shape: ModelShape, parallel: int) -> bool:
    """Whether vLLM can divide a model's attention among `parallel` GPUs."""
    if shape.heads % parallel:
        return False
    return shape.kv_heads % parallel == 0 or parallel % shape.kv_heads == 0


def slots(max_num_seqs: int, kv_tokens: int, max_tokens: int) -> int:
    """Sequences that a generator works on at once.

    A sequence in the batch has on average written half of its completion, and completions are on
    average well under `max_tokens`: a quarter of it is what a slot is taken to hold in the KV
    cache. With `kv_tokens` 0 (unknown) it is `max_num_seqs`.
    """
    fitting = kv_tokens // max(1, max_tokens // 4)
    return min(max_num_seqs, fitting) if fitting else max_num_seqs


def check_shape(shape: ModelShape | None, hf_config: Mapping[str, Any]) -> None:
    """Hold a stated shape against a model's own config.json.

    A shape of None states nothing, and a field that config.json lacks is not checked.

    Args:
        shape: what the run's configuration says.
        hf_config: fields of the model's Hugging Face configuration.

    Raises:
        ConfigError: naming every field that differs.
    """
    if shape is None:
        return
    heads, hidden = hf_config.get("num_attention_heads"), hf_config.get("hidden_size")
    own = {
        "layers": hf_config.get("num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": hf_config.get("num_key_value_heads") or heads,
        "head_dim": hf_config.get("head_dim") or (hidden // heads if hidden and heads else None),
        "vocab": hf_config.get("vocab_size"),
        "positions": hf_config.get("max_position_embeddings"),
        "dtype": _name(hf_config.get("dtype") or hf_config.get("torch_dtype")),
    }
    stated = shape.model_dump() | {"head_dim": shape.head_dim or shape.hidden // shape.heads}
    differing = [
        f"{name} {stated[name]} (the model has {value})"
        for name, value in own.items()
        if value is not None and value != stated[name]
    ]
    if differing:
        raise ConfigError(f"shape must be that of the model, got {', '.join(differing)}")


def gib(count: float) -> str:
    """Bytes in GiB with one digit."""
    return f"{count / GIB:.1f} GiB"


def _dtype(model: ModelConfig, shape: ModelShape) -> str:
    return shape.dtype if model.dtype == "auto" else model.dtype


def _name(dtype: Any) -> str | None:
    """``torch.bfloat16`` and ``bfloat16`` alike."""
    return None if dtype is None else str(dtype).removeprefix("torch.")
