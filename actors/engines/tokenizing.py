"""*Tokenizing*: the threads in which an engine makes prompts and reads replies.

Tokenizers are not thread-safe, so each thread has its own. Long prompts have a second thread: they
take seconds, for which short ones and replies must not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Failure

R = TypeVar("R")
LONG = 50_000
"""Characters from which a prompt is long: about a tenth of a second."""


class Tokenizing:
    """Makes one prompt after the other. A request that is aborted meanwhile gets no further."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "tokenize")
        self._long_thread = ThreadPoolExecutor(1, "tokenize-long")
        self._at_work: set[str] = set()

    async def run(
        self, request_id: str, make: Callable[[], R], *, is_long: bool = False
    ) -> R | Failure:
        """What `make` returns; a `Failure` where it raises a ValueError, or was aborted."""
        self._at_work.add(request_id)
        thread = self._long_thread if is_long else self._thread
        try:
            made = await asyncio.get_running_loop().run_in_executor(thread, make)
        except ValueError as error:
            return Failure.of(ErrorKind.BAD_REQUEST, error, completion_tokens=0)
        else:
            if request_id in self._at_work:
                return made
            return Failure.of(ErrorKind.ABORTED, "before it began", completion_tokens=0)
        finally:
            self._at_work.discard(request_id)

    async def read(self, make: Callable[[], R]) -> R:
        """What `make` returns, of a reply that is complete: there is nothing to abort any more."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, make)

    def abort(self, request_id: str) -> bool:
        """Whether the request's prompt was being made; it goes no further."""
        held = request_id in self._at_work
        self._at_work.discard(request_id)
        return held

    def close(self) -> None:
        """Make no more prompts."""
        for thread in (self._thread, self._long_thread):
            thread.shutdown(wait=False, cancel_futures=True)
