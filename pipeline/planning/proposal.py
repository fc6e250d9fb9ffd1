"""A better use of the GPUs at hand: replicas, tensor parallelism, verifier's share and slots.

Each split that fits is planned (`pipeline.planning.run_plan`), throughput and longest chain
together, and the one with the fewest hours is proposed. With tensor parallelism or fewer slots a
chain goes faster and the whole batch slower, so that it depends on the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.config.run import RunConfig
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import ConfigError
from pipeline.planning.run_plan import RunPlan, plan_of

_LEAST_GAIN = 0.03
"""Of the hours: less than that is below what the model of speed can tell."""
_PARALLEL = (1, 2, 4, 8)
_SLOTS = (16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A split of the GPUs that takes fewer hours than the configured one."""

    config: RunConfig
    plan: RunPlan
    changes: dict[str, Any]
    """Fields of `runtime` that differ, dotted."""


def proposal_of(config: RunConfig) -> Proposal | None:
    """The best split for the GPUs of `runtime.plan`; None where none is clearly better, or where
    pools share GPUs. Of an elastic pool the largest size is proposed.

    Raises:
        ConfigError: where there is no `runtime.plan`.
    """
    runtime, plan = config.runtime, config.runtime.plan
    if plan is None:
        raise ConfigError("runtime.plan must name the GPUs that a split is proposed for")
    pools = [runtime.generator, *([runtime.verifier] if config.science.verifier else [])]
    if any(pool.num_gpus is not None for pool in pools):
        return None
    try:
        best_h = plan_of(config).hours * (1 - _LEAST_GAIN)
    except ConfigError:
        best_h = float("inf")
    best: Proposal | None = None
    for changes in _splits(config):
        changed = _with(config, changes)
        try:
            planned = plan_of(changed)
        except ConfigError:
            continue
        if planned.hours < best_h - 1e-9:
            best_h = planned.hours
            best = Proposal(config=changed, plan=planned, changes=_differing(config, changes))
    return best


def applied(config: RunConfig) -> RunConfig:
    """The configuration as proposed, where `runtime.plan.apply` asks for that."""
    plan = config.runtime.plan
    found = proposal_of(config) if plan is not None and plan.apply else None
    return config if found is None else found.config


def _splits(config: RunConfig) -> Iterator[dict[str, Any]]:
    """Fields of every split that uses as many GPUs as it can, dotted."""
    plan, runtime = config.runtime.plan, config.runtime
    assert plan is not None
    verifies = config.science.verifier is not None
    judge_gpus = round(runtime.verifier.gpus) if verifies else 0
    configured = runtime.generator.engine.max_num_seqs
    gpus = plan.nodes * plan.gpus_per_node
    for judges in range(1, gpus // judge_gpus + 1) if verifies else (0,):
        left = gpus - judges * judge_gpus
        for parallel in (p for p in _PARALLEL if p <= min(plan.gpus_per_node, left)):
            for slots in sorted({configured, *(s for s in _SLOTS if s < configured)}, reverse=True):
                changes = {
                    **_sized("generator", runtime.generator, left // parallel),
                    "generator.engine.tensor_parallel_size": parallel,
                    "generator.engine.max_num_seqs": slots,
                }
                if verifies:
                    changes |= _sized("verifier", runtime.verifier, judges)
                yield changes


def _sized(role: str, pool: PoolConfig, replicas: int) -> dict[str, Any]:
    """The fields that give a pool so many replicas; an elastic one at its largest."""
    if pool.max_replicas is None:
        return {f"{role}.replicas": replicas}
    return {
        f"{role}.max_replicas": replicas,
        f"{role}.min_replicas": min(pool.min_replicas or 0, replicas),
        f"{role}.replicas": min(pool.replicas, replicas),
    }


def _with(config: RunConfig, changes: dict[str, Any]) -> RunConfig:
    values = config.runtime.model_dump()
    for name, value in changes.items():
        *path, last = name.split(".")
        place = values
        for part in path:
            place = place[part]
        place[last] = value
    runtime = type(config.runtime).model_validate(values)
    return config.model_copy(update={"runtime": runtime})


def _differing(config: RunConfig, changes: dict[str, Any]) -> dict[str, Any]:
    def configured(name: str) -> Any:
        value: Any = config.runtime
        for part in name.split("."):
            value = getattr(value, part)
        return value

    return {name: value for name, value in changes.items() if configured(name) != value}
