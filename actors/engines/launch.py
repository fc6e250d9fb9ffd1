"""Starting and stopping the engine pools of a run."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from actors.engines.actor_host import ActorHost
from actors.engines.capacity_check import waited_for
from actors.engines.engine_stats import EngineStats
from actors.engines.script_rules import script_of
from actors.routing.address import EnginesAddress, Kind, PoolAddress
from pipeline.config.models import GeneratorModel, ModelConfig, VerifierModel
from pipeline.config.runtime import PoolConfig, RuntimeConfig
from pipeline.planning.admission_bounds import usual
from pipeline.planning.sizing import slots

if TYPE_CHECKING:
    from pipeline.config.science import ScienceConfig


class Host(Protocol):
    """One started pool."""

    address: PoolAddress

    def wait(self) -> None:
        """Return once every replica serves.

        Raises:
            EngineError: if one does not start, or not in time.
        """
        ...

    def stats(self) -> list[EngineStats]:
        """Of every replica that answers."""
        ...

    def stop(self) -> None:
        """End the pool and its processes; may be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of a run."""

    generator: Host
    verifier: Host | None
    address: EnginesAddress
    """What controllers need to reach them (`actors.engines.connect.clients_of`)."""

    def stats(self) -> dict[str, list[EngineStats]]:
        """Of every replica that answers, by pool."""
        verifier = [] if self.verifier is None else self.verifier.stats()
        return {"generator": self.generator.stats(), "verifier": verifier}

    def stop(self) -> None:
        """End all of them; may be called twice.

        Side by side: Serve lets a replica end in peace, and the driver may soon be killed.
        """
        hosts = [host for host in (self.generator, self.verifier) if host is not None]
        with ThreadPoolExecutor(len(hosts)) as threads:
            for ended in [threads.submit(host.stop) for host in hosts]:
                ended.result()


def start_engines(science: ScienceConfig, runtime: RuntimeConfig, run_id: str) -> Engines:
    """Start a run's engines; see `start_pools`."""
    return start_pools(
        science.generator, science.verifier, runtime, run_id, science.decoding.max_tokens
    )


def start_pools(
    generator: GeneratorModel,
    verifier: VerifierModel | None,
    runtime: RuntimeConfig,
    run_id: str,
    max_tokens: int,
) -> Engines:
    """Start the pools of a run side by side, and return when all of them serve.

    With ``runtime.host: serve`` the run's watch actor must live
    (`actors.cluster.run_monitor.watch_name`): it is how `actors.engines.serve_host.reap` knows that
    the run does.

    Args:
        generator: the model that answers.
        verifier: the model that scores; None where nothing is scored.
        runtime: where and how.
        run_id: names actors and applications.
        max_tokens: most new tokens of a completion, for admission.

    Raises:
        ConfigError: if the pools ask for something that cannot be.
        EngineError: if an engine does not start; nothing is left running.
    """
    hosts: list[Host] = []
    try:
        hosts.append(_start("generator", generator, runtime.generator, runtime, run_id))
        if verifier is not None:
            hosts.append(_start("verifier", verifier, runtime.verifier, runtime, run_id))
        with waited_for("engines"):
            for host in hosts:
                host.wait()
        made, judged = hosts[0], hosts[1] if len(hosts) > 1 else None
        pool, fixed, replicas = runtime.generator, runtime.controllers.in_flight, made.stats()
        in_flight = fixed or admitted(pool, replicas, max_tokens)
        most = fixed or max(in_flight, usual(pool, _places(pool, replicas)))
    except BaseException:
        for host in hosts:
            host.stop()
        raise
    return Engines(
        made,
        judged,
        {
            "generator": made.address,
            "verifier": None if judged is None else judged.address,
            "in_flight": in_flight,
            "most": most,
        },
    )


def _start(
    kind: Kind, model: ModelConfig, pool: PoolConfig, runtime: RuntimeConfig, run_id: str
) -> Host:
    fields = model.model_dump(mode="json")
    margin = runtime.requests.affinity_margin
    if runtime.scripted is not None and script_of(runtime.scripted).in_process:
        return InProcess(kind, runtime.scripted)
    if runtime.host == "actors":
        return ActorHost(kind, fields, pool, run_id, runtime.scripted)
    from actors.engines.serve_host import ServeHost

    return ServeHost(kind, fields, pool, run_id, runtime.scripted, margin)


class InProcess:
    """Scripted engines in each caller's own process: nothing to start, nothing to stop."""

    def __init__(self, kind: Kind, scripted: dict[str, Any]) -> None:
        self.address: PoolAddress = {
            "host": "process",
            "kind": kind,
            "replicas": [],
            "app": "",
            "scripted": scripted,
        }

    def wait(self) -> None:
        """See `Host.wait`."""

    def stats(self) -> list[EngineStats]:
        """See `Host.stats`; each caller's engine counts for itself."""
        return []

    def stop(self) -> None:
        """See `Host.stop`."""


def slots_of(replicas: Sequence[EngineStats], max_tokens: int) -> int:
    """Sequences that generators work on at once; 0 where none tells."""
    return sum(slots(r.max_num_seqs, r.kv_capacity_tokens, max_tokens) for r in replicas)


def admitted(pool: PoolConfig, replicas: Sequence[EngineStats], max_tokens: int) -> int:
    """Chains that a run begins with (`pipeline.planning.admission_bounds.usual`)."""
    return usual(pool, slots_of(replicas, max_tokens) or _places(pool, replicas))


def _places(pool: PoolConfig, replicas: Sequence[EngineStats]) -> int:
    """Sequences that generators would work on at once, were the KV cache no limit."""
    told = sum(replica.max_num_seqs for replica in replicas)
    return told or pool.replicas * pool.engine.max_num_seqs
