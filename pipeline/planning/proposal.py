"""A better use of the GPUs at hand: replicas, tensor parallelism, verifier's share and slots.

Splits that fit are planned (`pipeline.planning.run_plan`), throughput and longest chain together,
and the one with the fewest hours is proposed. With tensor parallelism or fewer slots a chain goes
faster and the whole batch slower, so that it depends on the run.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import ceil
from typing import Any, NamedTuple

from pipeline.config.models import ModelConfig
from pipeline.config.planning import PlanConfig
from pipeline.config.run import RunConfig
from pipeline.config.runtime import MOST_REPLICAS, PoolConfig
from pipeline.core.errors import ConfigError
from pipeline.planning.run_plan import RunPlan, modelled_tokens_per_s, plan_of
from pipeline.planning.sizing import splits

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


class _Split(NamedTuple):
    """All but the number of verifiers."""

    parallel: int
    """Of a generator."""
    judge_parallel: int
    slots: int


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
    best: Proposal | None = None
    try:
        best_h = plan_of(config).hours * (1 - _LEAST_GAIN)
    except ConfigError:
        best_h = float("inf")
    for found in _found(config, plan):
        if found.plan.hours < best_h - 1e-9:
            best_h, best = found.plan.hours, found
    return best


def applied(config: RunConfig) -> RunConfig:
    """The configuration as proposed, where `runtime.plan.apply` asks for that."""
    plan = config.runtime.plan
    found = proposal_of(config) if plan is not None and plan.apply else None
    return config if found is None else found.config


def _found(config: RunConfig, plan: PlanConfig) -> Iterator[Proposal]:
    """The best splits of each kind.

    More verifiers score faster and leave fewer generators, so of each kind only two numbers of
    verifiers can be the best: the least with which scoring does not decide, and one less.
    """
    verifies = config.science.verifier is not None
    most = _most_generators(config, plan)
    for split in _splits(config, plan):

        @cache
        def planned(judges: int, split: _Split = split) -> Proposal | None:
            generators = most(split.parallel, judges, split.judge_parallel)
            return _planned(config, split, generators, judges) if generators else None

        if not verifies:
            candidates = [0]
        else:
            gpus = plan.nodes * plan.gpus_per_node
            low, high = 1, min(MOST_REPLICAS, gpus // split.judge_parallel)
            while low < high:
                middle = (low + high) // 2
                found = planned(middle)
                if found is not None and found.plan.verify_h > found.plan.chains_h:
                    low = middle + 1
                else:
                    high = middle
            candidates = [max(1, low - 1), low]
        yield from (found for found in map(planned, candidates) if found is not None)


def _splits(config: RunConfig, plan: PlanConfig) -> Iterator[_Split]:
    runtime, science = config.runtime, config.science
    slots = runtime.generator.engine.max_num_seqs
    judges = (
        (1,)
        if science.verifier is None
        else _widths(science.verifier, runtime.verifier, plan.gpus_per_node)
    )
    yield from map(
        _Split._make,
        product(
            _widths(science.generator, runtime.generator, plan.gpus_per_node),
            judges,
            sorted({slots, *(s for s in _SLOTS if s < slots)}, reverse=True),
        ),
    )


def _widths(model: ModelConfig, pool: PoolConfig, most: int) -> list[int]:
    """Tensor parallelism, up to `most`, that divides a model."""
    own = pool.engine.tensor_parallel_size
    return [
        width
        for width in sorted({own, *_PARALLEL})
        if width <= most and (model.shape is None or splits(model.shape, width))
    ]


def _most_generators(config: RunConfig, plan: PlanConfig) -> Callable[[int, int, int], int]:
    """How many generators so wide have room beside so many verifiers so wide, the widest placed
    first as `pipeline.planning.pool_plan.place` does."""
    runtime, size = config.runtime, plan.gpus_per_node
    apart = runtime.generator.label_selector != runtime.verifier.label_selector

    def beside(count: int, width: int, other: int) -> int:
        """How many so wide as `other` have room where `count` of `width` fill node after node."""
        each = size // width
        full, rest = divmod(count, each)
        free = plan.nodes - full - bool(rest)
        if free < 0:
            return -1
        left = (size - rest * width) // other if rest else 0
        return full * ((size - each * width) // other) + left + free * (size // other)

    def most(parallel: int, judges: int, judge_parallel: int) -> int:
        if apart:
            nodes = plan.nodes - ceil(judges / (size // judge_parallel))
            return min(MOST_REPLICAS, max(0, nodes) * (size // parallel))
        if judge_parallel > parallel:
            return min(MOST_REPLICAS, max(0, beside(judges, judge_parallel, parallel)))
        every = range(MOST_REPLICAS + 1)
        lacking = bisect(every, 0, key=lambda n: beside(n, parallel, judge_parallel) < judges)
        return max(0, lacking - 1)

    return most


def _planned(config: RunConfig, split: _Split, generators: int, judges: int) -> Proposal | None:
    """The plan of a split; None where it does not fit."""
    runtime = config.runtime
    changes = {
        **_sized("generator", runtime.generator, generators),
        "generator.engine.tensor_parallel_size": split.parallel,
        "generator.engine.max_num_seqs": split.slots,
    }
    if judges:
        changes |= _sized("verifier", runtime.verifier, judges)
        changes["verifier.engine.tensor_parallel_size"] = split.judge_parallel
    try:
        changes |= _speed(config, changes)
        changed = _with(config, changes)
        planned = plan_of(changed)
    except ConfigError:
        return None
    return Proposal(config=changed, plan=planned, changes=_differing(config, changes))


def _speed(config: RunConfig, changes: dict[str, Any]) -> dict[str, float]:
    """The stated speed of a replica, where one is stated, as the model of speed converts it."""
    plan = config.runtime.plan
    assert plan is not None
    if plan.tokens_per_s is None:
        return {}
    before, after = modelled_tokens_per_s(config), modelled_tokens_per_s(_with(config, changes))
    same = before == after
    return {"plan.tokens_per_s": plan.tokens_per_s * (1 if same else round(after / before, 4))}


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
