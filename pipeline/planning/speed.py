"""How fast one replica writes: milliseconds a step, from the model's shape and the GPU.

A step makes one token a sequence. It takes a fixed time, then reads all weights or does its
arithmetic, whichever is slower, then reads what the sequences hold in the KV cache, and something a
sequence for sampling. With tensor parallelism its GPUs add up what each has, twice a layer. The
constants are fitted to `benchmarks.decode_speed` of a 7B shape on one H200, which the fit meets
within 2.6 %, and on two of them, within 3.7 % (vLLM 0.26); docs/performance.md holds it against
whole runs. Other GPUs are taken to reach the same shares of what their vendors state.
"""

from __future__ import annotations

from pipeline.config.gpus import GPUS
from pipeline.config.models import ModelConfig, ModelShape
from pipeline.config.planning import PlanConfig
from pipeline.planning.sizing import Fit, shape_of

FIXED_S = 1.13e-3
"""Of a step: scheduling, launching."""
SEQUENCE_S = 8.0e-6
"""Of a step, a sequence: sampling."""
ARITHMETIC = 0.737
"""Share of the GPU's stated matrix throughput that large batches reach."""
LINK = 0.3
"""Share of the link between GPUs that sums of a megabyte reach."""


def step_s(
    model: ModelConfig, fit: Fit, plan: PlanConfig, sequences: float, held_tokens: float
) -> float:
    """Seconds of one step of a replica that has its GPUs to itself.

    Args:
        model: with its shape.
        fit: its memory; its tensor parallelism divides weights, KV cache and arithmetic.
        plan: names the GPU, the share of its bandwidth and the cost of a GPU more.
        sequences: in the batch, > 0.
        held_tokens: mean tokens that a sequence holds in the KV cache.
    """
    gpu = GPUS[plan.gpu]
    bandwidth = gpu.bandwidth_gb_s * 1e9 * plan.bandwidth_efficiency
    shape = shape_of(model, "science.generator")
    operations = 2 * shape.parameters / fit.tensor_parallel * sequences
    weights_s = max(fit.weight_bytes / bandwidth, operations / (gpu.tflops * 1e12 * ARITHMETIC))
    cache_s = sequences * held_tokens * fit.kv_bytes_per_token / bandwidth
    return (
        FIXED_S
        + weights_s
        + cache_s
        + sequences * SEQUENCE_S
        + _sums_s(shape, fit.tensor_parallel, plan, sequences)
    )


def _sums_s(shape: ModelShape, parallel: int, plan: PlanConfig, sequences: float) -> float:
    """What tensor parallelism adds to a step: two sums over the GPUs a layer."""
    if parallel == 1:
        return 0.0
    moved_bytes = 2 * (parallel - 1) / parallel * sequences * shape.hidden * 2
    each_s = plan.all_reduce_us * 1e-6 + moved_bytes / (GPUS[plan.gpu].link_gb_s * 1e9 * LINK)
    return 2 * shape.layers * each_s
