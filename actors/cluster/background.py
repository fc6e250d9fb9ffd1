"""*supervised*: background tasks that no exception ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

_PAUSE_S = 1.0


def supervised(run: Callable[[], Awaitable[None]], name: str) -> asyncio.Task[None]:
    """Start a task that runs until it returns or is cancelled; the caller keeps the reference.

    Args:
        run: called again, a moment later, after each exception, which is logged.
        name: of the task, for the log.
    """

    async def again_and_again() -> None:
        while True:
            try:
                return await run()
            except Exception:
                logger.exception("%s broke and is started again", name)
            await asyncio.sleep(_PAUSE_S)

    return asyncio.get_running_loop().create_task(again_and_again(), name=name)
