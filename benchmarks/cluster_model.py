"""Chains on a cluster in simulated time: generators, verifiers, controllers and Ray Data's feed.

A discrete-event simulation with one heap. Generators are `benchmarks.replica_model.Replica`s. What
serves one thing after the other is in `Servers`: verifiers read the tokens of a score, controllers
work off rounds (as one that is as fast as all of them), Ray Data hands over questions. A chain
stays on the replica it was admitted to, and the next is admitted where one has ended.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.replica_model import Replica, Speed
from benchmarks.workload import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What the chains run on."""

    generators: int
    slots: int
    speed: Speed
    verifiers: int = 0
    verifier_tokens_per_s: float = 26_000.0
    """That one verifier reads."""
    round_s: float = 0.0
    """Time that the controllers together need for one round: CPU time of one over their number."""
    call_s: float = 0.0
    """Latency of a call of an engine, there and back."""
    feed_s: float = 0.0
    """Time that Ray Data needs to hand over one question."""
    admitted: float = 1.1
    """Chains at work, in slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of it."""

    seconds: float
    rounds: int
    chains: int
    tokens: int
    slots_used: float
    """Share of the generators' slot time."""
    verifiers_used: float
    controllers_used: float
    feed_used: float
    full_s: float
    """Until the last chain was admitted: from then on it is the tail."""
    full_tokens: int
    """Made until then."""


class Servers:
    """So many of a kind; what comes is served by the one that is free first."""

    def __init__(self, number: int) -> None:
        self._free_s = [0.0] * number
        self.busy_s = 0.0

    def serve(self, now_s: float, seconds: float) -> float:
        """When something that comes at `now_s` and takes `seconds` is done."""
        done = max(now_s, self._free_s[0]) + seconds
        heapq.heapreplace(self._free_s, done)
        self.busy_s += seconds
        return done


_LOOK, _REQUEST = 0, 1


class _Simulation:
    def __init__(self, work: Sequence[Job], cluster: Cluster) -> None:
        self._work, self._cluster = work, cluster
        self._replicas = [Replica(cluster.speed, cluster.slots) for _ in range(cluster.generators)]
        self._home = [0] * len(work)
        self._drawn = [0] * len(work)
        self._verifiers = Servers(cluster.verifiers) if cluster.verifiers else None
        self._controllers, self._feed = Servers(1), Servers(1)
        self._events: list[tuple[float, int, int, int]] = []
        self._order = itertools.count()
        self._next = 0
        self._tokens = self._rounds = 0
        self._full_s, self._full_tokens = 0.0, 0
        self._end_s = 0.0

    def run(self) -> Ran:
        """Take every chain to its end."""
        cluster = self._cluster
        at_work = round(cluster.admitted * cluster.slots * cluster.generators)
        for number in range(min(at_work, len(self._work))):
            self._admit(0.0, number % cluster.generators)
        while self._events:
            now, _, kind, number = heapq.heappop(self._events)
            if kind == _REQUEST:
                self._request(now, number)
            else:
                self._look(now, number)
        seconds = self._end_s
        slot_s = sum(replica.slot_s for replica in self._replicas)
        judged = self._verifiers.busy_s if self._verifiers is not None else 0.0
        return Ran(
            seconds=seconds,
            rounds=self._rounds,
            chains=len(self._work),
            tokens=self._tokens,
            slots_used=slot_s / (seconds * cluster.generators),
            verifiers_used=judged / (seconds * cluster.verifiers) if cluster.verifiers else 0.0,
            controllers_used=self._controllers.busy_s / seconds,
            feed_used=self._feed.busy_s / seconds,
            full_s=self._full_s,
            full_tokens=self._full_tokens,
        )

    def _admit(self, now: float, replica: int) -> None:
        """Begin the next chain, as soon as Ray Data has handed it over."""
        if self._next == len(self._work):
            return
        chain, self._next = self._next, self._next + 1
        self._home[chain] = replica
        handed = self._feed.serve(now, self._cluster.feed_s)
        self._push(handed + self._cluster.call_s / 2, _REQUEST, chain)
        if self._next == len(self._work):
            self._full_s, self._full_tokens = now, self._tokens

    def _request(self, now: float, chain: int) -> None:
        job, number = self._work[chain], self._home[chain]
        left = (job.rounds - self._drawn[chain]) * job.tokens
        self._replicas[number].enter(now, chain, job.tokens, -left)
        self._watch(number)

    def _look(self, now: float, number: int) -> None:
        replica = self._replicas[number]
        if now != replica.due:  # an earlier look has taken its place
            return
        replica.due = float("inf")
        for chain in replica.leave(now):
            self._ended(now, chain)
        self._watch(number)

    def _watch(self, number: int) -> None:
        """See to it that a replica is looked at when its next sequence is done, or before."""
        replica = self._replicas[number]
        soon = replica.next_s()
        if soon < replica.due:
            replica.due = soon
            self._push(soon, _LOOK, number)

    def _ended(self, now: float, chain: int) -> None:
        """A completion is made: it is scored, journaled, and the chain goes on or ends."""
        cluster, job = self._cluster, self._work[chain]
        self._drawn[chain] += 1
        self._tokens += job.tokens
        self._rounds += 1
        done = now + cluster.call_s / 2
        if self._verifiers is not None:
            reading_s = job.tokens / cluster.verifier_tokens_per_s
            done = self._verifiers.serve(done, reading_s) + cluster.call_s
        done = self._controllers.serve(done, cluster.round_s)
        self._end_s = max(self._end_s, done)
        if self._drawn[chain] < job.rounds:
            self._push(done + cluster.call_s / 2, _REQUEST, chain)
        else:
            self._admit(done, self._home[chain])

    def _push(self, at_s: float, kind: int, number: int) -> None:
        heapq.heappush(self._events, (at_s, next(self._order), kind, number))


def simulate(work: Sequence[Job], cluster: Cluster) -> Ran:
    """Run chains on a cluster, in the order given."""
    return _Simulation(work, cluster).run()
