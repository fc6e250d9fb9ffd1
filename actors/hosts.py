"""Starts the engines of a run, says where they are, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import ray

from actors import vllm_setup
from actors.address import NAMESPACE, EnginesAddress, PoolAddress
from actors.host import EngineHost
from actors.meter import EngineStats
from actors.script import Script
from pipeline.config.models import ModelConfig
from pipeline.config.runtime import PoolConfig, RuntimeConfig
from pipeline.config.science import ScienceConfig
from pipeline.errors import ConfigError, EngineError

Kind = Literal["generator", "verifier"]

_CALLS_AT_ONCE = 10_000  # of one actor; admission is the controllers' business
_STATS_S = 5.0


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


class ActorHost:
    """A fixed pool of plain named actors. They die with the driver's job."""

    def __init__(
        self,
        kind: Kind,
        model: dict[str, Any],
        pool: PoolConfig,
        run_id: str,
        scripted: dict[str, Any] | None = None,
    ) -> None:
        if pool.min_replicas is not None or pool.max_replicas is not None:
            raise ConfigError("runtime.host must be serve for a pool with min_ or max_replicas")
        token = uuid.uuid4().hex[:6]  # an earlier attempt's actors may still be dying
        names = [f"markovscale-{run_id}-{token}-{kind}-{i}" for i in range(pool.replicas)]
        actor = ray.remote(EngineHost)
        self._timeout_s = pool.start_timeout_s
        self._actors = [
            actor.options(
                name=name,
                namespace=NAMESPACE,
                max_restarts=-1,
                max_task_retries=0,  # retries are the client's: they have a deadline and an account
                max_concurrency=_CALLS_AT_ONCE,
                **ray_options(pool),
            ).remote(kind, name, model, pool.model_dump(mode="json"), scripted)
            for name in names
        ]
        self.address: PoolAddress = {
            "host": "actors",
            "kind": kind,
            "replicas": names,
            "app": "",
            "scripted": None,
        }

    def wait(self) -> None:
        """See `Host.wait`."""
        kind = self.address["kind"]
        pending = [actor.ping.remote() for actor in self._actors]
        try:
            ray.get(pending, timeout=self._timeout_s)
        except ray.exceptions.GetTimeoutError as error:
            raise EngineError(f"a {kind} did not start within {self._timeout_s:g} s") from error
        except ray.exceptions.RayError as error:
            raise EngineError(f"a {kind} did not start: {error}") from error

    def stats(self) -> list[EngineStats]:
        """See `Host.stats`."""
        pending = [actor.stats.remote() for actor in self._actors]
        done, _ = ray.wait(pending, num_returns=len(pending), timeout=_STATS_S)
        return answered(done)

    def stop(self) -> None:
        """See `Host.stop`."""
        actors, self._actors = self._actors, []
        for actor in actors:
            ray.kill(actor, no_restart=True)  # Ray ends the engine's own processes with it


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of a run."""

    generator: Host
    verifier: Host | None
    address: EnginesAddress
    """What controllers need to reach them (`actors.client.clients_of`)."""

    def stats(self) -> dict[str, list[EngineStats]]:
        """Of every replica that answers, by pool."""
        verifier = [] if self.verifier is None else self.verifier.stats()
        return {"generator": self.generator.stats(), "verifier": verifier}

    def stop(self) -> None:
        """End all of them; may be called twice."""
        for host in (self.generator, self.verifier):
            if host is not None:
                host.stop()


def start_engines(science: ScienceConfig, runtime: RuntimeConfig, run_id: str) -> Engines:
    """Start a run's engines side by side, and return when all of them serve.

    With ``runtime.host: serve`` the run's watch actor must live (`actors.watch.watch_name`): it is
    how `actors.serve_host.reap` knows that the run does.

    Raises:
        ConfigError: if the pools ask for something that cannot be.
        EngineError: if an engine does not start; nothing is left running.
    """
    hosts: list[Host] = []
    try:
        hosts.append(_start("generator", science.generator, runtime.generator, runtime, run_id))
        if science.verifier is not None:
            hosts.append(_start("verifier", science.verifier, runtime.verifier, runtime, run_id))
        for host in hosts:
            host.wait()
        generator, verifier = hosts[0], hosts[1] if len(hosts) > 1 else None
        in_flight = runtime.controllers.in_flight or admitted(
            runtime.generator, generator.stats(), science.decoding.max_tokens
        )
    except BaseException:
        for host in hosts:
            host.stop()
        raise
    return Engines(
        generator,
        verifier,
        {
            "generator": generator.address,
            "verifier": None if verifier is None else verifier.address,
            "in_flight": in_flight,
        },
    )


def _start(
    kind: Kind, model: ModelConfig, pool: PoolConfig, runtime: RuntimeConfig, run_id: str
) -> Host:
    fields = model.model_dump(mode="json")
    margin = runtime.requests.affinity_margin
    if runtime.scripted is not None and Script.model_validate(runtime.scripted).in_process:
        return InProcess(kind, runtime.scripted)
    if runtime.host == "actors":
        return ActorHost(kind, fields, pool, run_id, runtime.scripted)
    from actors.serve_host import ServeHost

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


def admitted(pool: PoolConfig, replicas: Sequence[EngineStats], max_tokens: int) -> int:
    """Chains that keep a generator pool full without swamping it.

    A chain is in the verifier, or between rounds, for part of its time: half as many again as
    there are slots. An elastic pool must see more requests than its largest size aims at, else
    Serve never grows it that far. A sequence in the batch has on average written half of its
    completion, and completions are on average well under `max_tokens`: a quarter of it is
    what a slot is taken to hold in the KV cache.
    """
    if pool.max_replicas is not None:
        return math.ceil(1.2 * pool.target_requests * pool.max_replicas)
    slots = 0
    for replica in replicas:
        fitting = replica.kv_capacity_tokens // max(1, max_tokens // 4)
        slots += min(replica.max_num_seqs, fitting) if fitting else replica.max_num_seqs
    return math.ceil(1.5 * (slots or pool.replicas * pool.engine.max_num_seqs))


def ray_options(pool: PoolConfig) -> dict[str, Any]:
    """What Ray is asked for one replica."""
    options: dict[str, Any] = {
        "num_cpus": pool.num_cpus,
        "num_gpus": vllm_setup.gpus(pool),
        "runtime_env": {"env_vars": vllm_setup.environment(pool)},
    }
    if pool.resources:
        options["resources"] = dict(pool.resources)
    if pool.label_selector:
        options["label_selector"] = dict(pool.label_selector)
    return options


def answered(refs: Sequence[Any]) -> list[EngineStats]:
    """The results of calls that did not fail: a replica may just be restarting."""
    results = []
    for ref in refs:
        with contextlib.suppress(ray.exceptions.RayError):
            results.append(ray.get(ref))
    return results
