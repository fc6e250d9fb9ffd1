"""*PoolPlan*: one engine pool on given GPUs: memory, concurrent sequences, speed, placement."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.config.models import ModelConfig, ModelShape, VerifierModel
from pipeline.config.planning import GPUS, PlanConfig
from pipeline.config.runtime import PoolConfig
from pipeline.config.science import ScienceConfig
from pipeline.core.errors import ConfigError
from pipeline.planning.sizing import GIB, Fit, fitted, least_tensor_parallel, shape_of, slots

Labels = tuple[tuple[str, str], ...]

FIXED_S = 1.13e-3
"""Of a step: scheduling, launching."""
SEQUENCE_S = 8.0e-6
"""Of a step, a sequence: sampling."""
ARITHMETIC = 0.737
"""Share of the GPU's stated matrix throughput that large batches reach."""
BANDWIDTH = 0.85
"""Share of the memory bandwidth that reading weights and KV cache reaches in a step of decoding;
measured on an H200."""
COMPUTE = 0.4
"""Share of the GPU's matrix throughput that reading prompts reaches; an assumption."""
ALL_REDUCE_S = 12e-6
"""Before each of the two sums over GPUs in a layer moves anything; measured with NCCL on two
H200."""
LINK = 0.3
"""Share of the link between GPUs that sums of a megabyte reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """One pool of engine replicas at its largest."""

    kind: str
    model: str
    replicas: int
    least_replicas: int
    """Equal to `replicas` for a fixed pool."""
    gpus: float
    """GPUs that Ray sets aside a replica."""
    fit: Fit
    least_parallel: int
    """The smallest tensor parallelism with which a replica fits."""
    slots: int
    """Sequences that one replica can work on at once."""
    busy: int
    """Sequences that it has at the start of this run: fewer than `slots` where chains are few."""
    per_s: float
    """Of one replica that is as busy: completion tokens for a generator, scores for a verifier."""
    step_s: Callable[[float], float]
    """Seconds of a step of one replica, by the sequences in its batch; of a verifier a batch."""
    labels: Labels
    """Labels that its nodes must have."""


class Node(NamedTuple):
    """One GPU node and the replicas on it, by kind."""

    labels: Labels
    replicas: Counter[str]
    free: list[float]
    """Of each GPU."""

    @property
    def free_gpus(self) -> float:
        """GPUs and parts of GPUs without a replica."""
        return sum(self.free)


def generator_plan(
    science: ScienceConfig, pool: PoolConfig, plan: PlanConfig, *, chains: int, held_tokens: float
) -> PoolPlan:
    """The generator pool.

    Args:
        chains: of the whole run, and samples of one question that are drawn side by side.
        held_tokens: mean tokens that a sequence of the batch holds in the KV cache.

    Raises:
        ConfigError: where it does not fit, or a completion leaves no room for its prompt.
    """
    model, max_tokens = science.generator, science.most_tokens
    fit, least = _fit(model, pool, plan, "science.generator")
    if max_tokens >= fit.context:
        raise ConfigError(
            f"max_tokens, of science.decoding or a benchmark, must leave room for a prompt in a "
            f"context of {fit.context:,} tokens, got {max_tokens:,}"
        )
    places = slots(pool.engine.max_num_seqs, fit.kv_tokens, max_tokens)
    places = max(1, min(places, math.floor(fit.kv_tokens / held_tokens)))
    busy = min(places, math.ceil(chains / pool.most_replicas))

    def modelled(sequences: float) -> float:
        return step_s(model, fit, plan, sequences, held_tokens) / pool.gpu_share

    stated = plan.tokens_per_s
    slower = 1.0 if stated is None else places / stated / modelled(places)

    def step(sequences: float) -> float:
        return slower * modelled(sequences)

    return _pool("generator", model, pool, fit, least, places, busy, step)


def verifier_plan(model: VerifierModel, pool: PoolConfig, plan: PlanConfig) -> PoolPlan:
    """The verifier pool: bound by reading, so by compute.

    Raises:
        ConfigError: where it does not fit, one step cannot hold its longest sequence, or it writes.
    """
    if model.kind == "generative":
        raise ConfigError(
            "science.verifier.kind must be one that only reads to be sized: a generative verifier "
            "writes as long as it likes, got generative"
        )
    fit, least = _fit(model, pool, plan, "science.verifier")
    if pool.engine.max_num_batched_tokens < fit.context:
        raise ConfigError(
            f"runtime.verifier.engine.max_num_batched_tokens must be at least the verifier's "
            f"context of {fit.context:,}, since step scores are not computed in chunks, got "
            f"{pool.engine.max_num_batched_tokens:,}"
        )
    operations = 2 * shape_of(model, "science.verifier").parameters * plan.scored_tokens
    per_gpu = GPUS[plan.gpu].tflops * 1e12 * COMPUTE * pool.gpu_share
    speed = per_gpu * fit.tensor_parallel / operations
    places = pool.engine.max_num_seqs
    return _pool("verifier", model, pool, fit, least, places, places, lambda _: places / speed)


def place(pools: Sequence[PoolPlan], plan: PlanConfig) -> list[Node]:
    """Put replicas on nodes, the widest first; pools with different labels share no node.

    Raises:
        ConfigError: where a replica is wider than a node, or there are too few nodes.
    """
    nodes: list[Node] = []
    for pool in sorted(pools, key=lambda pool: -pool.gpus):
        if pool.gpus > plan.gpus_per_node:
            raise ConfigError(
                f"a {pool.kind} must fit one node of {plan.gpus_per_node} GPUs, "
                f"got {pool.gpus:g} GPUs"
            )
        index = 0  # a node without room for a replica has none for the next
        for _ in range(pool.replicas):
            while True:
                if index == len(nodes):
                    nodes.append(Node(pool.labels, Counter(), [1.0] * plan.gpus_per_node))
                node = nodes[index]
                if node.labels == pool.labels and _take(node.free, pool.gpus):
                    node.replicas[pool.kind] += 1
                    break
                index += 1
    if len(nodes) > plan.nodes:
        wanted = " and ".join(f"{p.replicas} {p.kind}s of {p.gpus:g} GPUs" for p in pools)
        raise ConfigError(
            f"the pools must fit on runtime.plan.nodes {plan.nodes} of {plan.gpus_per_node} GPUs, "
            f"got {wanted}, which take {len(nodes)} nodes"
        )
    return nodes


def _take(free: list[float], gpus: float) -> bool:
    """Takes the GPUs of one replica and returns whether there was room; a part of one lies on one
    GPU, the fullest that has room."""
    each, width = (gpus, 1) if gpus < 1 else (1.0, math.ceil(gpus))
    fits = sorted((part, i) for i, part in enumerate(free) if part >= each - 1e-9)[:width]
    if len(fits) < width:
        return False
    for _, i in fits:
        free[i] = max(0.0, free[i] - each)
    return True


def _fit(model: ModelConfig, pool: PoolConfig, plan: PlanConfig, where: str) -> tuple[Fit, int]:
    """The memory of a replica, and the least tensor parallelism that has it."""
    if pool.num_gpus == 0:
        raise ConfigError("runtime.plan is for pools on GPUs, got num_gpus 0")
    if pool.memory_share > pool.gpu_share:
        raise ConfigError(
            f"gpu_memory_utilization of a replica with num_gpus {pool.gpu_share:g} must be at most "
            f"that, got {pool.memory_share:g}"
        )
    uncounted = sorted(name for name in pool.engine.extra if "parallel" in name)
    if uncounted:
        raise ConfigError(
            f"runtime.plan counts engine.tensor_parallel_size alone, got {', '.join(uncounted)} in "
            "engine.extra: leave runtime.plan out to run with it"
        )
    gpu, overhead = GPUS[plan.gpu], round(plan.overhead_gib * GIB)
    fit = fitted(model, pool, gpu, overhead_bytes=overhead, where=where)
    least = least_tensor_parallel(model, pool, gpu, overhead_bytes=overhead, where=where)
    return fit, least or fit.tensor_parallel


def _pool(
    kind: str,
    model: ModelConfig,
    pool: PoolConfig,
    fit: Fit,
    least_parallel: int,
    places: int,
    busy: int,
    step: Callable[[float], float],
) -> PoolPlan:
    elastic = pool.max_replicas is not None
    least = 1 if pool.min_replicas is None else pool.min_replicas
    return PoolPlan(
        kind=kind,
        model=model.model,
        replicas=pool.max_replicas or pool.replicas,
        least_replicas=least if elastic else pool.replicas,
        gpus=fit.tensor_parallel if pool.num_gpus is None else pool.num_gpus,
        fit=fit,
        least_parallel=least_parallel,
        slots=places,
        busy=busy,
        per_s=busy / step(busy),
        step_s=step,
        labels=tuple(sorted(pool.label_selector.items())),
    )


def step_s(
    model: ModelConfig, fit: Fit, plan: PlanConfig, sequences: float, held_tokens: float
) -> float:
    """Seconds of one step of a replica that has its GPUs to itself.

    A step makes one token a sequence. It takes a fixed time, then reads all weights or does its
    arithmetic, whichever is slower, then reads the KV cache of its sequences, and samples. With
    tensor parallelism its GPUs add up their sums twice a layer. The constants are fitted to
    measured steps of a 7B shape (benchmarks/RESULTS.md) on one H200 (within 2.6 %) and on two
    (within 3.7 %, vLLM 0.26). Other GPUs are assumed to reach the same shares of what their
    vendors state.

    Args:
        model: with its shape.
        fit: its memory; its tensor parallelism divides weights, KV cache and arithmetic.
        plan: names the GPU, the share of its bandwidth and the cost of a GPU more.
        sequences: in the batch, > 0.
        held_tokens: mean tokens that a sequence holds in the KV cache.
    """
    gpu = GPUS[plan.gpu]
    bandwidth = gpu.bandwidth_gb_s * 1e9 * BANDWIDTH
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
    each_s = ALL_REDUCE_S + moved_bytes / (GPUS[plan.gpu].link_gb_s * 1e9 * LINK)
    return 2 * shape.layers * each_s
