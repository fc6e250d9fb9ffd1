"""*Transport*: the protocol for the way of a call to one replica of a pool; *StickyLeastLoaded*
chooses that replica.

A chain's rounds share a prefix that one replica has in its cache, so a session stays where it is;
a new session goes to the least loaded replica, and a session leaves its replica once that has
clearly more to do than another. Ties are broken at random: callers that break them alike would all
pile onto one replica. The state is one caller's own view; no call is made to learn of others.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter, OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import ray

from actors.cluster.run_monitor import NAMESPACE
from actors.routing.calls import A, Answer, Call
from pipeline.core.protocol import Failure

_MOST_PINS = 200_000  # the oldest sessions are forgotten: they only lose their cached prefix


@dataclass
class StickyLeastLoaded:
    """The policy; `choose` decides, `sent`, `expect` and `done` keep the counts."""

    margin: int = 8
    """A session leaves its replica once that has more than this many requests above the least."""
    rng: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._pins: OrderedDict[str, str] = OrderedDict()
        self._loads: Counter[str] = Counter()

    def choose(
        self, session: str, replicas: Sequence[str], avoid: Collection[str] = ()
    ) -> str | None:
        """The replica for a request of `session`; None where `replicas` is empty.

        Args:
            session: requests with the same session share a prefix.
            replicas: those that live.
            avoid: those that failed this request before; taken only if no other lives.
        """
        candidates = [replica for replica in replicas if replica not in avoid] or list(replicas)
        if not candidates:
            return None
        least = min(self._loads[replica] for replica in candidates)
        pinned = self._pins.get(session)
        if pinned in candidates and self._loads[pinned] - least <= self.margin:
            return pinned
        return self.rng.choice([each for each in candidates if self._loads[each] == least])

    def sent(self, session: str, replica: str) -> None:
        """Note that a request of `session` went to `replica`, and pin the session there."""
        self._pins[session] = replica
        self._pins.move_to_end(session)
        if len(self._pins) > _MOST_PINS:
            self._pins.popitem(last=False)
        self._loads[replica] += 1

    def expect(self, replica: str) -> None:
        """Note that a request is on its way to `replica`; `done` must follow, then `sent`."""
        self._loads[replica] += 1

    def done(self, replica: str) -> None:
        """Note that a request sent to `replica`, or expected there, ended, in whatever way."""
        self._loads[replica] -= 1


def worker_policy() -> StickyLeastLoaded:
    """The routing policy of one caller, a worker of Ray."""
    # callers must not break ties alike, and a run should not depend on the clock
    seed = zlib.crc32(ray.get_runtime_context().get_worker_id().encode())
    return StickyLeastLoaded(rng=random.Random(seed))  # noqa: S311 (no secret)


__all__ = ["NAMESPACE", "EnginesAddress", "PoolAddress"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAddress:
    """One pool of engines; picklable."""

    host: str
    """What started it, and so how it is reached (`actors.engines.hosts.HOSTS`)."""
    role: str
    """What it serves (`actors.routing.calls.ROLES`)."""
    at: dict[str, Any] = field(default_factory=dict)
    """What the host's own transport needs to find it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginesAddress:
    """All that a controller needs to reach the engines of a run; picklable."""

    pools: dict[str, PoolAddress]
    """By role."""
    in_flight: int
    """Chains that keep the generator pool full without swamping it, over all controllers: what a
    run begins with."""
    most: int
    """Chains that the controllers are sized for."""


class NoReplicaError(Exception):
    """No replica of the pool lives at this moment.

    Args:
        why: in words.
        absent_s: for how long none has lived while the transport waited for one.
    """

    def __init__(self, why: str = "", *, absent_s: float = 0.0) -> None:
        super().__init__(why)
        self.absent_s = absent_s


class ReplicaLostError(Exception):
    """The replica went away with the request in it."""


AnswerT = TypeVar("AnswerT", bound=Answer, covariant=True)


class Placed(Protocol[AnswerT]):
    """A call that a replica holds."""

    @property
    def replica(self) -> str:
        """Its name, for `Transport.place` to avoid."""
        ...

    async def result(self) -> AnswerT | Failure:
        """What the engine answered.

        Raises:
            ReplicaLostError: if the replica went away; what the request cost is not known.
        """
        ...

    def abort(self) -> None:
        """Stop it in the engine; does not wait."""
        ...


class Transport(Protocol):
    """Places calls on replicas; made with a `PoolAddress` and a `RequestConfig`
    (`actors.engines.hosts.HOSTS`), on the event loop that uses it."""

    isolates: bool
    """Whether a replica runs a call that is `alone` without others beside it."""

    async def place(self, call: Call[A], *, avoid: Collection[str]) -> Placed[A]:
        """Hand a call to a replica, chosen by its session and without those in `avoid`.

        Raises:
            NoReplicaError: if none lives.
        """
        ...
