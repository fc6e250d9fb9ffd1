"""*start_engines*: starts and stops the engine pools of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.engines.capacity_check import waited_for
from actors.engines.engine_stats import EngineStats
from actors.engines.hosts import Host, PoolSpec, started
from actors.routing.calls import GENERATOR, ROLES, VERIFIER, Call, GenerateCall, ScoreCall
from actors.routing.transport import EnginesAddress
from pipeline.config.models import ModelConfig
from pipeline.config.runtime import PoolConfig, RuntimeConfig
from pipeline.config.science import ScienceConfig
from pipeline.config.strategies import strategies_of
from pipeline.planning.admission_bounds import usual
from pipeline.planning.sample_requests import QUESTION, REPLY, sample_requests
from pipeline.planning.sizing import slots


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of a run."""

    hosts: dict[str, Host]
    """By role."""
    address: EnginesAddress
    """What controllers need to reach them (`actors.engines.hosts.clients_of`)."""

    def stats(self) -> dict[str, list[EngineStats]]:
        """Of every replica that answers, by role."""
        return {role: host.stats() for role, host in self.hosts.items()}

    def stop(self) -> None:
        """End all of them; may be called twice."""
        for host in self.hosts.values():
            host.stop()


def start_engines(
    science: ScienceConfig, runtime: RuntimeConfig, run_id: str, max_tokens: int | None = None
) -> Engines:
    """Start a run's engines; see `start_pools`. `max_tokens` None: as its benchmarks ask."""
    requests = sample_requests(strategies_of(science).values())
    samples: dict[str, tuple[Call[Any], ...]] = {
        GENERATOR: tuple(GenerateCall(request) for request in requests),
        VERIFIER: (ScoreCall(QUESTION.text, REPLY),),
    }
    return start_pools(science.models, runtime, run_id, max_tokens or science.most_tokens, samples)


def start_pools(
    models: Mapping[str, ModelConfig],
    runtime: RuntimeConfig,
    run_id: str,
    max_tokens: int,
    samples: Mapping[str, tuple[Call[Any], ...]] | None = None,
) -> Engines:
    """Start the pools of a run side by side, and return when their fewest replicas serve.

    Elastic pools then ask for their other replicas, which start when the cluster has room.

    Args:
        models: by role, ``generator`` among them; a role that is not there has no pool.
        runtime: where and how.
        run_id: names actors and applications.
        max_tokens: most new tokens of a completion, for admission.
        samples: by role, a call of each kind that will come, to be checked before weights load.

    Raises:
        ConfigError: if the pools ask for something that cannot be.
        EngineError: if an engine does not start; nothing is left running.
    """
    pools = runtime.pools
    hosts: dict[str, Host] = {}
    try:
        for role in ROLES:
            if role in models:
                hosts[role] = started(
                    PoolSpec(
                        role=role,
                        model=models[role],
                        pool=pools[role],
                        runtime=runtime,
                        run_id=run_id,
                        samples=(samples or {}).get(role, ()),
                    )
                )
        with waited_for("engines"):
            for host in hosts.values():
                host.wait()
        pool, fixed = pools[GENERATOR], runtime.controllers.in_flight
        replicas = hosts[GENERATOR].stats()
        in_flight = fixed or admitted(pool, replicas, max_tokens)
        most = fixed or max(in_flight, usual(_places(pool, replicas)))
        for role in _growth(pools, hosts):
            hosts[role].grow()
    except BaseException:
        for host in hosts.values():
            host.stop()
        raise
    addresses = {role: host.address for role, host in hosts.items()}
    return Engines(hosts, EnginesAddress(pools=addresses, in_flight=in_flight, most=most))


def slots_of(replicas: Sequence[EngineStats], max_tokens: int) -> int:
    """Sequences that generators work on at once; 0 where none tells."""
    return sum(slots(r.max_num_seqs, r.kv_capacity_tokens, max_tokens) for r in replicas)


def admitted(pool: PoolConfig, replicas: Sequence[EngineStats], max_tokens: int) -> int:
    """Chains that a run begins with (`pipeline.planning.admission_bounds.usual`)."""
    return usual(slots_of(replicas, max_tokens) or _places(pool, replicas))


def _places(pool: PoolConfig, replicas: Sequence[EngineStats]) -> int:
    """Sequences that all generators would work on at once, were the KV cache no limit."""
    if not replicas:
        return pool.places
    each = sum(replica.max_num_seqs for replica in replicas) / len(replicas)
    return math.ceil(each * pool.most_replicas)


def _growth(pools: Mapping[str, PoolConfig], roles: Iterable[str]) -> list[str]:
    """The roles whose pools grow by a replica, one after the other: all at the same rate, so that a
    cluster with too few places has some of each."""
    steps = [
        (number / pools[role].most_replicas, role)
        for role in roles
        for number in range(pools[role].least_replicas, pools[role].most_replicas)
    ]
    return [role for _, role in sorted(steps)]
