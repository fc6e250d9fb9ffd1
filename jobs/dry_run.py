"""``--dry-run``: the resolved configuration and the plan of a run, without a GPU, a hub or Ray."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from jobs.cli import terminal
from jobs.tables import text_table
from pipeline.config.planning import GPUS, PlanConfig
from pipeline.config.run import RunConfig
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import ConfigError
from pipeline.planning.pool_plan import BANDWIDTH, COMPUTE, PoolPlan
from pipeline.planning.run_plan import RunPlan, plan_of
from pipeline.planning.sizing import check_shape, gib
from pipeline.report import words
from pipeline.store.local import shipped_path, write_yaml


def print_dry_run(config: RunConfig) -> None:
    """Print what a run would take; nothing is started.

    Args:
        config: of the run.

    Raises:
        ConfigError: where the run would not fit the GPUs that its configuration names.
    """
    print(write_yaml(config.model_dump(mode="json", exclude_defaults=True)), end="")
    plan = config.runtime.plan
    if plan is None:
        print("\nno runtime.plan: the configuration is valid, and names no GPUs to fit")
        return
    if config.runtime.generator.endpoint is not None:
        print("\nruntime.generator.endpoint answers: the configuration is valid, nothing to fit")
        return
    planned = plan_of(config)
    print()
    for line in plan_lines(config, plan, planned):
        print(line)
    terminal().print(load_table(planned))
    for line in hour_lines(plan, planned):
        print(line)


def plan_lines(config: RunConfig, plan: PlanConfig, planned: RunPlan) -> Iterator[str]:
    """What is placed where, and how it grows."""
    gpu = GPUS[plan.gpu]
    yield (
        f"hardware: {plan.nodes} x {plan.gpus_per_node} {plan.gpu} of {gib(gpu.memory_bytes)}, "
        f"{gpu.bandwidth_gb_s:,} GB/s, {gpu.tflops:,} TFLOPS"
    )
    yield f"decoding: {config.science.decoding_in_words}"
    for pool in planned.pools:
        settings = getattr(config.runtime, pool.kind)
        yield from pool_lines(pool, settings)
    for number, node in enumerate(planned.nodes, 1):
        labels = ", ".join(f"{name}={value}" for name, value in node.labels)
        holds = ", ".join(
            f"{count} {kind}{'s' if count > 1 else ''}"
            for kind, count in sorted(node.replicas.items())
        )
        yield (
            f"node {number}{f' ({labels})' if labels else ''}: {holds}"
            f"{f', {node.free_gpus:g} GPUs free' if node.free_gpus else ''}"
        )
    if planned.least_nodes < len(planned.nodes):
        yield (
            f"elastic: from {planned.least_nodes} to {len(planned.nodes)} nodes, so the cluster "
            f"must allow {len(planned.nodes)} and may start with none"
        )
    adapted = (
        "" if planned.bounds is None else " at first, then {:,} to {:,}".format(*planned.bounds)
    )
    yield (
        f"admission: {planned.in_flight:,} chains work at once{adapted}, "
        f"controllers can hold {planned.held:,}"
    )


def pool_lines(pool: PoolPlan, settings: PoolConfig) -> Iterator[str]:
    """One pool: size, memory, places, and what makes it grow."""
    fit = pool.fit
    size = (
        f"{pool.replicas}"
        if pool.least_replicas == pool.replicas
        else (f"{pool.least_replicas} to {pool.replicas}")
    )
    least = "" if pool.least_parallel == 1 else f" ({pool.least_parallel} at least, for room)"
    yield f"{pool.kind}: {size} x {pool.model}, tensor parallel {fit.tensor_parallel}{least}"
    yield (
        f"  each GPU: {gib(fit.usable_bytes)} usable = {gib(fit.weight_bytes)} weights + "
        f"{gib(fit.overhead_bytes)} overhead + {gib(fit.free_bytes)} KV cache"
    )
    yield (
        f"  KV cache of a replica: {fit.kv_tokens:,} tokens of "
        f"{fit.kv_bytes_per_token * fit.tensor_parallel // 1024} KiB; holds "
        f"{fit.full_sequences:,} sequences of the longest context ({fit.context:,} tokens)"
    )
    unit = "tokens" if pool.kind == "generator" else "scores"
    yield (
        f"  works on {pool.slots:,} sequences at once, about {pool.per_s:,.0f} {unit}/s"
        f"{f' with {pool.busy:,} of them' if pool.busy < pool.slots else ''}"
    )
    if settings.max_replicas is not None:
        yield (f"  begins with {settings.least_replicas} and grows while the cluster has room")


def load_table(planned: RunPlan) -> Table:
    """Completions and tokens by strategy and benchmark."""
    loads = planned.loads
    rows = [
        (
            load.strategy,
            load.benchmark,
            f"{load.questions:,}",
            f"{load.completions:,.0f}",
            _tokens(load.tokens),
            f"{load.chain_tokens:,.0f}",
        )
        for load in loads
    ]
    totals = (
        f"{sum(load.questions for load in loads):,}",
        f"{sum(load.completions for load in loads):,.0f}",
        _tokens(sum(load.tokens for load in loads)),
    )
    return text_table(
        "at most, unless runtime.plan.completions says less",
        ("strategy", "benchmark", "questions", "completions", "tokens", "longest chain, tokens"),
        [*rows, ("all", "", *totals, "")],
        left=(0, 1),
    )


def hour_lines(plan: PlanConfig, planned: RunPlan) -> Iterator[str]:
    """How long it takes, and on what assumptions."""
    speed = (
        f"{plan.tokens_per_s:,g} tokens/s of a full replica, as stated"
        if plan.tokens_per_s is not None
        else f"{BANDWIDTH:.0%} of the memory bandwidth (measured on an H200)"
    )
    yield (
        f"assumed, not measured: decoding at {speed}, reading at "
        f"{COMPUTE:.0%} of the GPU's speed, "
        f"{plan.scored_tokens:,.0f} tokens a score, {plan.overhead_gib:g} GiB overhead a GPU (the "
        "last two are fields of runtime.plan, as is tokens_per_s)"
    )
    parts = {
        "generating with full batches": planned.generate_h,
        "scoring, meanwhile,": planned.verify_h,
        "the longest chain, were it alone,": planned.chain_h,
    }
    generating, scoring, longest = parts
    slowest = generating if planned.generate_h >= planned.chain_h else longest
    if planned.verify_h >= planned.chains_h:
        slowest = scoring
    yield ", ".join(f"{name} takes {_time(hours)}" for name, hours in parts.items())
    yield (
        f"about {_time(planned.hours)}, decided by {slowest.split(',')[0]}, "
        f"and {planned.gpu_hours:,.1f} GPU hours on {planned.gpus:g} GPUs; starting the engines "
        "takes minutes more"
    )


def check_model_folders(config: RunConfig) -> None:
    """Checks models that are folders of this machine, before anything starts.

    Raises:
        ConfigError: where a folder does not exist, holds no config.json, or has another shape than
            the configuration states.
    """
    if config.runtime.scripted is not None:
        return
    for role in ("generator", "verifier"):
        model, pool = getattr(config.science, role), getattr(config.runtime, role)
        if model is None or pool.endpoint is not None:
            continue
        where, folder = f"science.{role}.model", Path(shipped_path(model.model)).expanduser()
        if not folder.is_dir():
            if model.model.startswith(("/", ".", "~")) or model.model.count("/") > 1:
                raise ConfigError(
                    f"{where} must be a folder or a Hugging Face id, got {model.model}"
                )
            if Path(model.model).parts[0] == "models":
                raise ConfigError(f"{where} must be a folder that exists, got {model.model}")
            continue
        try:
            found = json.loads((folder / "config.json").read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{where} must hold a config.json, got {error}") from error
        made = [str(name) for name in found.get("architectures") or ()]
        if role == "generator" and made and not any(name.endswith(_WRITES) for name in made):
            raise ConfigError(
                f"{where} must be a model that generates text, got {', '.join(made)} in {folder}"
            )
        check_shape(model.shape, found)


_WRITES = ("CausalLM", "LMHeadModel", "ConditionalGeneration")
"""How Transformers ends the names of architectures that generate text."""


def _tokens(count: float) -> str:
    return f"{count / 1e6:,.1f} M" if count >= 1e6 else f"{count:,.0f}"


def _time(hours: float) -> str:
    return f"{hours:,.1f} h" if hours >= 2 else words.duration(3600 * hours)
