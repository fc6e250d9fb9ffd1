"""*shortage*: checks that a cluster has the CPUs, GPUs and other resources that a run asks for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.config.runtime import PoolConfig, RuntimeConfig

_SLACK = 1e-6  # Ray counts in ten-thousandths

Machine = Mapping[str, float]
"""What one node of a cluster has, by Ray's names: CPU, GPU and custom resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Processes of one kind that must all have a place before the run can go on."""

    what: str
    setting: str
    """The section of the configuration that asks for them."""
    count: int
    each: Mapping[str, float]
    """What one process takes; all of it on one node."""


def pool_ask(what: str, setting: str, pool: PoolConfig) -> Ask:
    """What a pool asks for: all replicas of a fixed one, the fewest of an elastic one."""
    each = {**pool.resources, "CPU": pool.num_cpus, "GPU": pool.gpus}
    return Ask(what=what, setting=setting, count=pool.least_replicas, each=_positive(each))


def asks_of(runtime: RuntimeConfig, roles: Iterable[str]) -> list[Ask]:
    """What a run asks for before its first chain can move.

    Args:
        runtime: the configuration.
        roles: of the models whose engines are processes of their own.
    """
    pools, controllers = runtime.pools, runtime.controllers
    return [
        *(pool_ask(role, f"runtime.{role}", pools[role]) for role in roles),
        Ask(
            what="controller",
            setting="runtime.controllers",
            count=controllers.actors,
            each=_positive({"CPU": controllers.num_cpus}),
        ),
        READING,
    ]


READING = Ask(
    what="task that reads or writes", setting="runtime.controllers", count=1, each={"CPU": 1.0}
)
"""The one task at a time of Ray Data."""


def shortage(asks: Sequence[Ask], machines: Sequence[Machine]) -> str | None:
    """Why a cluster can never hold all of this at once, however empty it is; None where it may.

    Labels of nodes, and how processes of different size share a node, are left to Ray.

    Returns:
        One sentence with what the run needs, what there is, and the sections to lower.
    """
    total: Counter[str] = Counter()
    required: Counter[str] = Counter()
    for machine in machines:
        total.update(machine)
    for ask in asks:
        required.update({name: ask.count * amount for name, amount in ask.each.items()})
    why = [
        f"it has places for {places:g} of {ask.count} x {ask.what}"
        for ask in asks
        if (places := sum(_places(ask.each, node) for node in machines)) < ask.count
    ] or [
        f"all of it takes {amount:g} {name}"
        for name, amount in required.items()
        if amount > total[name] + _SLACK
    ]
    if not why:
        return None
    settings = ", ".join(dict.fromkeys(ask.setting for ask in asks))
    nodes = "1 node" if len(machines) == 1 else f"{len(machines)} nodes"
    return (
        f"the cluster must have room for {', '.join(map(_described, asks))}, got {nodes} with "
        f"{_amounts(total, ' and ')}: {why[0]}; lower what {settings} ask for, or add nodes"
    )


def _places(each: Mapping[str, float], node: Machine) -> float:
    """Processes that an empty node holds."""
    fitting = [(node.get(name, 0.0) + _SLACK) // amount for name, amount in each.items()]
    return min(fitting, default=math.inf)


def _described(ask: Ask) -> str:
    return f"{ask.count} x {ask.what} ({_amounts(ask.each, ', ')})"


def _amounts(resources: Mapping[str, float], sign: str) -> str:
    shown = [
        f"{amount:g} {name}"
        for name, amount in sorted(resources.items())
        if ":" not in name and name not in ("memory", "object_store_memory")
    ]
    return sign.join(shown) or "nothing"


def _positive(amounts: Mapping[str, float]) -> dict[str, float]:
    return {name: float(amount) for name, amount in amounts.items() if amount > 0}
