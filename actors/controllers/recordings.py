"""Reads what is recorded of a question off the event loop, for one question at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from actors.controllers.chain_types import Work
from actors.controllers.journal_writer import JournalError
from pipeline.records.journal import Recording


class Recordings:
    """Recordings of questions, read in a thread of their own.

    Args:
        find: what is recorded of a question; it reads files.
    """

    def __init__(self, find: Callable[[Work], Recording | None]) -> None:
        self._find = find
        self._thread = ThreadPoolExecutor(1, "recordings")

    async def of(self, work: Work) -> Recording | None:
        """What is recorded of a question; None where nothing is.

        Raises:
            JournalError: where it cannot be read, which is no failure of the question.
        """
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._find, work)
        except MemoryError:
            raise
        except Exception as error:
            raise JournalError(
                f"what is recorded of {work.session} must be readable, got {error}"
            ) from error
