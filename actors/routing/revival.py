"""Replicas that went away: each gets no request until it answers again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import ray

logger = logging.getLogger(__name__)

_POLL_S = 0.5
_POLL_MOST_S = 5.0


class Revival:
    """The lost replicas of one caller, on one event loop.

    Args:
        ping: asks a replica whether it serves; raises Ray's errors where it does not, and a
            LookupError where it will not come back.
    """

    def __init__(self, ping: Callable[[str], Awaitable[object]]) -> None:
        self._ping = ping
        self._polling: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, replica: str) -> bool:
        """Whether it is lost."""
        return replica in self._polling

    def lost(self, replica: str) -> None:
        """Begin to ask it."""
        if replica not in self._polling:
            logger.warning("%s is lost; waiting until it answers again", replica)
            self._polling[replica] = asyncio.create_task(self._poll(replica))

    async def _poll(self, replica: str) -> None:
        wait_s = _POLL_S
        while True:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _POLL_MOST_S)
            try:
                await self._ping(replica)
            except ray.exceptions.RayError:
                continue
            except LookupError:
                logger.warning("%s does not come back", replica)
            else:
                logger.warning("%s answers again", replica)
            del self._polling[replica]
            return
