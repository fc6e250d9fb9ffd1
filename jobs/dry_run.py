"""``--dry-run``: the resolved configuration and the plan of a run, without a GPU, a hub or Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from jobs.forecast import read_pilot
from jobs.terminal import terminal
from pipeline.config.extends import differing, merged, overlay_of
from pipeline.config.gpus import GPUS
from pipeline.config.planning import PlanConfig
from pipeline.config.run import RunConfig
from pipeline.config.runtime import PoolConfig, RuntimeConfig
from pipeline.config.strategies import strategies_of
from pipeline.core.errors import ConfigError
from pipeline.planning.pool_plan import PoolPlan
from pipeline.planning.proposal import Proposal, applied, proposal_of
from pipeline.planning.run_plan import RunPlan, plan_of
from pipeline.planning.sizing import gib
from pipeline.report.pilot_forecast import planned_from
from pipeline.store.atomic import appearing
from pipeline.store.yaml_text import write_yaml


class PlanFile(NamedTuple):
    """A file to be written that runs the proposed split."""

    target: str
    config: str
    """Of which it is a split."""
    overrides: Sequence[str]
    """That stand over it."""


def print_dry_run(
    config: RunConfig, pilot: str | None = None, file: PlanFile | None = None
) -> None:
    """Print what a run would be; nothing is started.

    Args:
        config: of the run.
        pilot: address of a run or exported pool whose tokens a completion, and completions a
            question, take the place of those of `runtime.plan`.
        file: to write the proposed split to.

    Raises:
        ConfigError: where the run would not fit the GPUs that its configuration names, or the
            pilot is of none of its benchmarks.
    """
    config = applied(config)
    print(write_yaml(config.model_dump(mode="json", exclude_defaults=True)), end="")
    plan = config.runtime.plan
    served = config.runtime.generator.endpoint is not None
    if file is not None and (plan is None or served):
        raise ConfigError("--write-plan must be given with a runtime.plan, and without an endpoint")
    if file is not None and not Path(file.target).parent.is_dir():
        raise ConfigError(f"--write-plan must be in a folder that exists, got {file.target}")
    if plan is None:
        print("\nno runtime.plan: the configuration is valid, and names no GPUs to fit")
        return
    if served:
        print("\nruntime.generator.endpoint answers: the configuration is valid, nothing to fit")
        return
    if pilot is not None:
        plan = with_pilot(config, plan, pilot)
        runtime = config.runtime.model_copy(update={"plan": plan})
        config = config.model_copy(update={"runtime": runtime})
    found = proposal_of(config)
    planned = _planned(config, found, file)
    if planned is not None:
        print()
        for line in plan_lines(config, plan, planned):
            print(line)
        terminal().print(load_table(planned))
        for line in hour_lines(plan, planned):
            print(line)
    if found is not None:
        for line in proposal_lines(found):
            print(line)
    if file is not None:
        _write(file, config, planned, found)
        print(f"  written to {file.target}: run it with --config {file.target}")


def _planned(config: RunConfig, found: Proposal | None, file: PlanFile | None) -> RunPlan | None:
    """The plan of a configuration; None where it does not fit and a split that does is written."""
    try:
        return plan_of(config)
    except ConfigError as error:
        if found is None:
            raise
        if file is None:
            raise ConfigError(f"{error}; a split that fits: {_settings(found)}") from error
        print(f"\nas configured it would not run: {error}")
        return None


def _write(
    file: PlanFile, config: RunConfig, planned: RunPlan | None, found: Proposal | None
) -> None:
    """Write the proposed split, or the configured one where none is better, as an overlay."""
    plan = config.runtime.plan
    assert plan is not None
    values = RunConfig.read(file.config, file.overrides)
    before = values.get("runtime") or {}
    proposed = (config if found is None else found.config).runtime.model_dump(mode="json")
    proposed["plan"]["apply"] = False  # it is, in the file
    given = RuntimeConfig.model_validate(before).model_dump(mode="json")
    values["runtime"] = merged(before, differing(given, proposed))
    gpus = f"{plan.nodes} x {plan.gpus_per_node} {plan.gpu}"
    hours = "would not run" if planned is None else f"takes {planned.hours:,.1f} h"
    said = (
        f"No split of {gpus} is clearly better than that of {file.config}, which {hours}."
        if found is None
        else f"A split of {gpus} for {file.config}: about {found.plan.hours:,.1f} h; "
        f"as it stands there it {hours}."
    )
    text = f"# {said}\n{write_yaml(overlay_of(file.config, values, file.target))}"
    with appearing(Path(file.target)) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def with_pilot(config: RunConfig, plan: PlanConfig, address: str) -> PlanConfig:
    """The plan with what a pilot measured, which is printed; other benchmarks and other settings of
    a strategy stay as assumed."""
    names = {source.name for source in config.science.benchmarks}
    wanted = strategies_of(config.science)
    cells = [c for c in read_pilot(address).cells if c.benchmark in names and any(c.tokens)]
    if not cells:
        raise ConfigError(
            f"a pilot must have finished questions of {', '.join(sorted(names))} with completions, "
            f"got none of them in {address}"
        )
    same = {cell.label for cell in cells if wanted.get(cell.label) == cell.strategy}
    found = planned_from(plan, cells, same)
    for name in dict.fromkeys(cell.benchmark for cell in cells):
        print(f"from {address}: {found.benchmarks[name].tokens:,.0f} tokens a completion of {name}")
    for label in sorted(found.completions.keys() & same):
        print(f"from {address}: {found.completions[label]:,.2f} completions a question of {label}")
    return found


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
        yield (
            f"  grows while more than {settings.target_requests} requests a replica are open for "
            f"{settings.upscale_delay_s:g} s, shrinks after {settings.downscale_delay_s:g} s below"
            f"{_unreached(pool)}"
        )


def load_table(planned: RunPlan) -> Table:
    """Completions and tokens by strategy and benchmark."""
    table = Table(title="at most, unless runtime.plan.completions says less", title_justify="left")
    for name in ("strategy", "benchmark"):
        table.add_column(name)
    for name in ("questions", "completions", "tokens", "longest chain, tokens"):
        table.add_column(name, justify="right")
    for load in planned.loads:
        table.add_row(
            load.strategy,
            load.benchmark,
            f"{load.questions:,}",
            f"{load.completions:,.0f}",
            f"{load.tokens / 1e6:,.1f} M",
            f"{load.chain_tokens:,.0f}",
        )
    table.add_row(
        "all",
        "",
        f"{sum(load.questions for load in planned.loads):,}",
        f"{sum(load.completions for load in planned.loads):,.0f}",
        f"{sum(load.tokens for load in planned.loads) / 1e6:,.1f} M",
        "",
    )
    return table


def hour_lines(plan: PlanConfig, planned: RunPlan) -> Iterator[str]:
    """How long it takes, and on what assumptions."""
    speed = (
        f"{plan.tokens_per_s:,g} tokens/s of a full replica, as stated"
        if plan.tokens_per_s is not None
        else f"{plan.bandwidth_efficiency:.0%} of the memory bandwidth (measured on an H200)"
    )
    yield (
        f"assumed, not measured: decoding at {speed}, reading at "
        f"{plan.compute_efficiency:.0%} of the GPU's speed, "
        f"{plan.scored_tokens:,.0f} tokens a score, "
        f"{plan.overhead_gib:g} GiB overhead a GPU (fields of runtime.plan)"
    )
    parts = {
        "generating with full batches": planned.generate_h,
        "scoring, meanwhile,": planned.verify_h,
        "the longest chain, were it alone,": planned.chain_h,
    }
    generating, scoring, alone = parts
    slowest = generating if planned.generate_h >= planned.chain_h else alone
    if planned.verify_h >= planned.chains_h:
        slowest = scoring
    yield ", ".join(f"{name} takes {hours:,.1f} h" for name, hours in parts.items())
    yield (
        f"about {planned.hours:,.1f} h, decided by {slowest.split(',')[0]}, "
        f"and {planned.gpu_hours:,.0f} GPU hours on {planned.gpus:g} GPUs"
    )


def proposal_lines(found: Proposal) -> Iterator[str]:
    """The split of the same GPUs that would take fewer hours, and how to use it."""
    pools = ", ".join(
        f"{pool.replicas} {pool.kind}{'s' if pool.replicas > 1 else ''} of {pool.gpus:g} "
        f"GPU{'s' if pool.gpus > 1 else ''}"
        for pool in found.plan.pools
    )
    yield (
        f"a better split of these GPUs: {pools}, {found.plan.pools[0].slots} sequences a "
        f"generator: about {found.plan.hours:,.1f} h (full batches {found.plan.generate_h:,.1f} h, "
        f"scoring {found.plan.verify_h:,.1f} h, the longest chain alone "
        f"{found.plan.chain_h:,.1f} h)"
    )
    yield f"  use it with {_settings(found)}, or with --set runtime.plan.apply=true"


def _settings(found: Proposal) -> str:
    return " ".join(f"--set runtime.{name}={value}" for name, value in found.changes.items())


def _unreached(pool: PoolPlan) -> str:
    if pool.reached == pool.replicas:
        return ""
    return f"; this run's chains call for {pool.reached}"
