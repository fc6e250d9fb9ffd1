"""*supervised*, *with_retries*: background tasks that no exception ends, and storage operations
that are repeated while they fail."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pipeline.core.errors import MarkovScaleError

T = TypeVar("T")

GIVE_UP_S = 600.0
"""How long storage may fail before a run ends for it."""
_FIRST_PAUSE_S = 0.5
_MOST_PAUSE_S = 15.0


class StorageError(MarkovScaleError, OSError):
    """The run directory could not be read or written for longer than the run may wait."""


def with_retries(call: Callable[[], T], what: str, give_up_s: float = GIVE_UP_S) -> T:
    """The result of a call that reads or writes files, tried again while storage fails.

    Args:
        call: may be made several times.
        what: names it in the log, such as ``read the journal``.
        give_up_s: how long.

    Raises:
        StorageError: where it still fails then.
    """
    give_up, pause = time.monotonic() + give_up_s, _FIRST_PAUSE_S
    while True:
        try:
            return call()
        except OSError as error:
            if time.monotonic() + pause > give_up:
                raise StorageError(f"could not {what} for {give_up_s:g} s: {error}") from error
            logger.warning("could not %s, again in %.1f s: %s", what, pause, error)
        time.sleep(pause)
        pause = min(2 * pause, _MOST_PAUSE_S)


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
