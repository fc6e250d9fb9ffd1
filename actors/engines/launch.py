"""*start_engines*: checks that a cluster has room for the engine pools of a run, starts and stops
them."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import ray

from actors.engines.engine_stats import EngineStats
from actors.engines.hosts import Host, PoolSpec, started
from actors.routing.calls import GENERATOR, JUDGE, ROLES, VERIFIER, Call, GenerateCall, ScoreCall
from actors.routing.transport import EnginesAddress
from pipeline.config.models import ModelConfig
from pipeline.config.run import RunConfig
from pipeline.config.runtime import PoolConfig, RuntimeConfig
from pipeline.config.science import ScienceConfig
from pipeline.config.strategies import strategies_of
from pipeline.core.errors import ConfigError, MarkovScaleError
from pipeline.core.protocol import Completion, Priors, Question, Request, Strategy, decisions
from pipeline.planning.admission import usual
from pipeline.planning.capacity import Ask, asks_of, shortage
from pipeline.planning.sizing import slots

logger = logging.getLogger(__name__)


FIRST_S = 15.0
EVERY_S = 60.0
_MONITOR_S = 10.0  # within which Ray's monitor first tells what nodes there are


def require_room(asks: Sequence[Ask]) -> None:
    """See that the cluster that was joined can hold all of this.

    What other jobs have taken counts as there, since it comes back; so does what an autoscaler may
    add, which is not known here.

    Raises:
        ConfigError: where it never can.
    """
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    lacking = shortage(asks, machines)
    if lacking is not None and not autoscales():
        raise ConfigError(lacking)


def require_room_for(config: RunConfig) -> None:
    """`require_room`, for everything that a run needs before its first chain can move."""
    pools = config.runtime.pools
    placed = [role for role in config.science.models if pools[role].endpoint is None]
    require_room(asks_of(config.runtime, placed))


def autoscales() -> bool:
    """Whether something adds nodes to this cluster when processes find no place.

    Ray's monitor runs in every cluster. Its second version does so by name of the cluster's
    settings; its first tells types of nodes, and where nobody adds nodes each node is its own type.
    """
    from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
    from ray.autoscaler.v2.utils import is_autoscaler_v2
    from ray.experimental.internal_kv import _internal_kv_get

    if is_autoscaler_v2(fetch_from_server=True):
        return True
    give_up = time.monotonic() + _MONITOR_S
    while (status := _internal_kv_get(DEBUG_AUTOSCALING_STATUS)) is None:
        if time.monotonic() > give_up:
            return False
        time.sleep(0.5)
    types = json.loads(status).get("autoscaler_report", {}).get("active_nodes", {})
    return any(not name.startswith("node_") for name in types)


class Waiting:
    """Says what is waited for: once after a while, then from time to time.

    Args:
        what: is not up yet, in the plural.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()
        self._next_s = FIRST_S

    def look(self) -> None:
        """Say it where it is time to."""
        waited = time.monotonic() - self._began
        if waited < self._next_s:
            return
        self._next_s = waited + EVERY_S
        logger.warning(
            "%s are not up after %.0f s: they load, or wait for a node (ray status shows it)",
            self._what,
            waited,
        )


@contextmanager
def waited_for(what: str) -> Iterator[None]:
    """Say what is waited for as long as this lasts."""
    waiting, over = Waiting(what), threading.Event()

    def watch() -> None:
        while not over.wait(1):
            waiting.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


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
    if science.judge is not None:
        samples[JUDGE] = (GenerateCall(science.judge.request(science.judge.prompt)),)
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
        # only what Ray places can wait for a place; a run of endpoints alone may have no Ray
        placed = any(pools[role].endpoint is None for role in hosts)
        with waited_for("engines") if placed else nullcontext():
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
    """Chains that a run begins with (`pipeline.planning.admission.usual`)."""
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


QUESTION = Question(
    benchmark="sample",
    question_id="sample",
    text="What is 1 + 1?",
    priors=Priors(p0=0.5, a=0.1, b=0.3),
)
REPLY = "One and one are two.\n\nThe answer is \\boxed{2}."
_ROUNDS = 4


def sample_requests(strategies: Iterable[Strategy]) -> list[Request]:
    """The first request of each kind: kinds differ in roles of turns and in having a prefix.

    Strategies go a few rounds without agreement. Phases that need what earlier ones learnt of
    benchmarks are left out.
    """
    found: dict[object, Request] = {}
    for strategy in strategies:
        for phase in strategy.phases():
            for request in _requests_of(phase.strategy):
                roles = tuple(turn.role for turn in request.messages)
                found.setdefault((roles, bool(request.assistant_prefix)), request)
    return list(found.values())


def _requests_of(strategy: Strategy) -> list[Request]:
    asked: list[Request] = []
    with suppress(StopIteration, MarkovScaleError, ValueError, LookupError):
        game = decisions(strategy, QUESTION)
        requests = next(game)
        for number in range(_ROUNDS):
            asked += requests
            replies = [
                Completion(
                    text=REPLY.replace("2", str(number)),
                    answer=str(number),
                    completion_tokens=1,
                    step_scores=(0.5, 0.5),
                    score=0.5,
                )
                for _ in requests
            ]
            requests = game.send(replies)
    return asked
