"""*shortage*: checks that a cluster has the CPUs, GPUs and memory that a run asks for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.config.runtime import PoolConfig, RuntimeConfig

_SLACK = 1e-6  # Ray counts in ten-thousandths


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One node of a cluster."""

    resources: Mapping[str, float]
    """What it says it has, by Ray's names: CPU, GPU and custom ones."""
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Processes of one kind that must all have a place before the run can go on."""

    what: str
    count: int
    each: Mapping[str, float]
    """What one process takes; all of it on one node."""
    labels: Mapping[str, str]
    """Ray's label selector: what the labels of its node must be."""
    settings: Mapping[str, str]
    """Fields of the configuration that make it smaller, by what they lower: a resource, ``count``
    where it is more than one, or ``labels``."""


def pool_ask(what: str, setting: str, pool: PoolConfig) -> Ask:
    """What a pool asks for: all replicas of a fixed one, the fewest of an elastic one."""
    count, counted_by = pool.replicas, f"{setting}.replicas"
    if pool.max_replicas is not None:
        count, counted_by = max(1, pool.min_replicas or 1), f"{setting}.min_replicas"
    gpus = "num_gpus" if pool.num_gpus is not None else "engine.tensor_parallel_size"
    return Ask(
        what=what,
        count=count,
        each=_positive({**pool.resources, "CPU": pool.num_cpus, "GPU": pool.gpus}),
        labels=pool.label_selector,
        settings={
            "count": counted_by,
            "CPU": f"{setting}.num_cpus",
            "GPU": f"{setting}.{gpus}",
            **dict.fromkeys(pool.resources, f"{setting}.resources"),
            "labels": f"{setting}.label_selector",
        },
    )


def asks_of(runtime: RuntimeConfig, roles: Iterable[str]) -> list[Ask]:
    """What a run asks for before its first chain can move.

    Args:
        runtime: the configuration.
        roles: of the models whose engines are processes of their own.
    """
    pools = runtime.pools
    asks = [pool_ask(role, f"runtime.{role}", pools[role]) for role in roles]
    controllers = runtime.controllers
    asks.append(
        Ask(
            what="controller",
            count=controllers.actors,
            each=_positive({"CPU": controllers.num_cpus}),
            labels=controllers.label_selector,
            settings={
                "count": "runtime.controllers.actors",
                "CPU": "runtime.controllers.num_cpus",
                "labels": "runtime.controllers.label_selector",
            },
        )
    )
    asks.append(reading_ask(controllers.label_selector))
    return asks


def reading_ask(labels: Mapping[str, str]) -> Ask:
    """The one task at a time of Ray Data that reads or writes."""
    return Ask(
        what="task that reads or writes", count=1, each={"CPU": 1}, labels=labels, settings={}
    )


def shortage(asks: Sequence[Ask], machines: Sequence[Machine]) -> str | None:
    """Why a cluster can never hold all of this at once, however empty it is; None where it may.

    It is sure of what it says: how well processes of different size share a node is left to Ray.

    Returns:
        One sentence with what is asked for, what there is, and the settings to lower.
    """
    lacking = _unplaced(asks, machines) or _too_little(asks, machines)
    if lacking is None:
        return None
    why, short, names = lacking
    settings = dict.fromkeys(
        ask.settings[name]
        for ask in short
        for name in ("count", *names)
        if name in ask.settings and (name != "count" or ask.count > 1)
    )
    remedy = f"lower {', '.join(settings)}, or add nodes" if settings else "add nodes"
    return (
        f"the cluster must have room for {', '.join(map(_described, asks))}, got "
        f"{cluster_words(machines)}: {why}; {remedy}"
    )


def cluster_words(machines: Sequence[Machine]) -> str:
    """Nodes of a cluster and what they have, such as ``2 nodes with 8 CPU and 4 GPU``."""
    total = _total(machines)
    nodes = "1 node" if len(machines) == 1 else f"{len(machines)} nodes"
    return f"{nodes} with {' and '.join(_amounts(total)) or 'nothing'}"


_Lacking = tuple[str, list[Ask], list[str]]
"""Why, who lacks it, and what."""


def _unplaced(asks: Sequence[Ask], machines: Sequence[Machine]) -> _Lacking | None:
    """An ask that would not fit even if it had the cluster to itself."""
    for ask in asks:
        nodes = _open_to(ask, machines)
        places = sum(_places(ask.each, node) for node in nodes)
        if places < ask.count:
            labelled = f", {len(nodes)} of its nodes have the labels" if ask.labels else ""
            why = f"it has places for {places:g} of {ask.count} x {ask.what}{labelled}"
            short = [
                name
                for name, amount in ask.each.items()
                if sum(_places({name: amount}, node) for node in nodes) < ask.count
            ]
            names = [*(short or ask.each), *(["labels"] if ask.labels else [])]
            return why, [ask], names
    return None


def _too_little(asks: Sequence[Ask], machines: Sequence[Machine]) -> _Lacking | None:
    """A resource of which some nodes have less than those take who can go nowhere else."""
    choices = [frozenset(map(id, _open_to(ask, machines))) for ask in asks]
    for choice in sorted(set(choices), key=len, reverse=True):
        bound = [ask for ask, own in zip(asks, choices, strict=True) if own <= choice]
        asked: Counter[str] = Counter()
        for ask in bound:
            asked.update({name: ask.count * amount for name, amount in ask.each.items()})
        there = _total(node for node in machines if id(node) in choice)
        for name, amount in asked.items():
            if amount > there.get(name, 0.0) + _SLACK:
                where = "" if len(choice) == len(machines) else " on the nodes with the labels"
                short = [ask for ask in bound if name in ask.each]
                return f"all of it takes {amount:g} {name}{where}", short, [name]
    return None


def _open_to(ask: Ask, machines: Sequence[Machine]) -> list[Machine]:
    return [
        node
        for node in machines
        if all(admits(rule, node.labels.get(key)) for key, rule in ask.labels.items())
    ]


def admits(rule: str, value: str | None) -> bool:
    """Whether a label has what Ray's selector wants: ``a``, ``!a``, ``in(a,b)`` or ``!in(a,b)``."""
    wanted = rule.removeprefix("!")
    listed = wanted.startswith("in(") and wanted.endswith(")")
    values = [part.strip() for part in wanted[3:-1].split(",")] if listed else [wanted]
    return (value in values) != rule.startswith("!")


def _places(each: Mapping[str, float], node: Machine) -> float:
    """Processes that an empty node holds."""
    fitting = [(node.resources.get(name, 0.0) + _SLACK) // amount for name, amount in each.items()]
    return min(fitting, default=math.inf)


def _total(machines: Iterable[Machine]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for node in machines:
        total.update(node.resources)
    return dict(total)


def _described(ask: Ask) -> str:
    labels = ", ".join(f"{key}={value}" for key, value in ask.labels.items())
    where = f" on {labels}" if labels else ""
    return f"{ask.count} x {ask.what} ({', '.join(_amounts(ask.each)) or 'nothing'}{where})"


def _amounts(resources: Mapping[str, float]) -> list[str]:
    return [f"{amount:g} {name}" for name, amount in sorted(resources.items()) if _is_shown(name)]


def _is_shown(name: str) -> bool:
    return ":" not in name and name not in ("memory", "object_store_memory")


def _positive(amounts: Mapping[str, float]) -> dict[str, float]:
    return {name: float(amount) for name, amount in amounts.items() if amount > 0}
