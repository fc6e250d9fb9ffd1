"""Transports: how a call reaches one replica of a pool; the protocol, and plain Ray actors."""

from __future__ import annotations

import asyncio
import logging
import random
import zlib
from collections.abc import Collection
from typing import Any, Generic, Protocol, TypeVar

import ray

from actors.routing.address import NAMESPACE, PoolAddress
from actors.routing.calls import A, Answer, Call
from actors.routing.router import RouterStats, StickyLeastLoaded
from pipeline.config.runtime import RequestConfig
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Failure

logger = logging.getLogger(__name__)

_REVIVAL_POLL_S = 0.5
_REVIVAL_POLL_MOST_S = 5.0


class NoReplicaError(Exception):
    """No replica of the pool lives at this moment."""


class ReplicaLostError(Exception):
    """The replica went away with the request in it."""


Told = TypeVar("Told", bound=Answer, covariant=True)


class Placed(Protocol[Told]):
    """A call that a replica holds."""

    @property
    def replica(self) -> str:
        """Its name, for `Transport.place` to avoid."""
        ...

    async def result(self) -> Told | Failure:
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

    async def place(self, call: Call[A], *, avoid: Collection[str]) -> Placed[A]:
        """Hand a call to a replica, chosen by its session and without those in `avoid`.

        Raises:
            NoReplicaError: if none lives.
        """
        ...

    def router_stats(self) -> RouterStats | None:
        """How routing went; None where this process does not see it."""
        ...


class ActorTransport:
    """Named Ray actors, which Ray restarts under the same name when they die."""

    def __init__(self, address: PoolAddress, settings: RequestConfig) -> None:
        self._handles = {
            name: ray.get_actor(name, namespace=NAMESPACE) for name in address.at["replicas"]
        }
        # callers must not break ties alike, and a run should not depend on the clock
        seed = zlib.crc32(ray.get_runtime_context().get_worker_id().encode())
        self._policy = StickyLeastLoaded(
            settings.affinity_margin,
            random.Random(seed),  # noqa: S311 (no secret)
        )
        self._reviving: dict[str, asyncio.Task[None]] = {}

    async def place(self, call: Call[A], *, avoid: Collection[str]) -> ActorCall[A]:
        """Hand a call to an actor at once; it has no queue in front of the engine."""
        alive = [name for name in self._handles if name not in self._reviving]
        replica = self._policy.choose(call.session, alive, avoid)
        if replica is None:
            raise NoReplicaError
        self._policy.sent(call.session, replica)
        handle = self._handles[replica]
        return ActorCall(self, replica, handle, handle.serve.remote(call), call.request_id)

    def router_stats(self) -> RouterStats:
        """How routing went from this process."""
        return self._policy.stats()

    def ended(self, replica: str, *, lost: bool) -> None:
        """Note a request's end; a lost replica gets no request until it answers again."""
        self._policy.done(replica)
        if lost and replica not in self._reviving:
            logger.warning("%s is lost; waiting for Ray to restart it", replica)
            self._reviving[replica] = asyncio.create_task(self._revive(replica))

    async def _revive(self, replica: str) -> None:
        wait_s = _REVIVAL_POLL_S
        while True:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _REVIVAL_POLL_MOST_S)
            try:
                await self._handles[replica].ping.remote()
            except ray.exceptions.RayError:
                continue
            del self._reviving[replica]
            logger.warning("%s answers again", replica)
            return


class ActorCall(Generic[A]):
    """A call that a plain actor holds."""

    def __init__(
        self, transport: ActorTransport, replica: str, handle: Any, ref: Any, request_id: str
    ) -> None:
        self.replica = replica
        self._transport, self._handle, self._ref = transport, handle, ref
        self._request_id = request_id

    async def result(self) -> A | Failure:
        """What the engine answered; see `Placed.result`."""
        lost = False
        try:
            answer: A | Failure = await answer_of(self._ref, self.replica)
            return answer
        except ReplicaLostError:
            lost = True
            self.abort()  # Ray may only have lost the connection: then it still runs there
            raise
        finally:
            self._transport.ended(self.replica, lost=lost)

    def abort(self) -> None:
        """Stop it in the engine. Cancelling the Ray call would not say what it had cost."""
        self._handle.abort.remote(self._request_id)


async def answer_of(ref: Any, replica: str) -> Any:
    """What a replica answered; an exception of the engine's code becomes a `Failure`.

    Raises:
        ReplicaLostError: if the replica went away.
    """
    try:
        return await ref
    except (ray.exceptions.RayActorError, ray.exceptions.RaySystemError) as error:
        raise ReplicaLostError(f"{replica} went away ({type(error).__name__})") from error
    except ray.exceptions.RayTaskError as error:
        logger.exception("%s raised", replica)
        return Failure.of(ErrorKind.ENGINE, repr(error.cause))
