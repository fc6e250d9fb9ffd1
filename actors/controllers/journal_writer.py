"""*JournalWriter*: collects rounds in memory and makes them durable every few seconds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Callable

from pipeline.core.errors import MarkovScaleError
from pipeline.core.text import encodable
from pipeline.records.segments import Base, Epoch, write_segment
from pipeline.records.trajectory import Row, table_of
from pipeline.store.storage import Folder

logger = logging.getLogger(__name__)

_MOST_ROWS = 5_000  # a segment is written early once this many rows wait
_WOKEN_AT_ONCE = 32


class JournalError(MarkovScaleError, OSError):
    """The storage of the journal failed for longer than the run may wait."""


class JournalWriter:
    """One writer of one journal, on one event loop.

    Args:
        journal: folder of segments.
        flush_s: longest time a row stays in memory only, in seconds.
        most_waiting: a segment is written early once so many wait for one; None never is.
        give_up_s: how long failing storage is retried before the writer fails for good.
        epoch: of this life of the writer; None for a writer without predecessors.
        base: what this life has read of its predecessors (`pipeline.records.segments`).
        run: whose attempts are all written down (`pipeline.records.segments.write_segment`).
    """

    def __init__(
        self,
        journal: Folder,
        *,
        flush_s: float,
        most_waiting: int | None = None,
        give_up_s: float = 600.0,
        epoch: Epoch | None = None,
        base: Base | None = None,
        run: str | None = None,
    ) -> None:
        self._journal = journal
        self._flush_s = flush_s
        self._most_waiting = most_waiting
        self._give_up_s = give_up_s
        self._epoch = epoch or Epoch(1, secrets.token_hex(3), 0, "alone", 1)
        self._base = {} if base is None else base
        self._run_id = run
        self._sequence = 0
        self._waiting: list[Row] = []
        self._appended = 0
        self._durable = 0
        self._wake = asyncio.Event()
        self._awaited: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._closing = False
        self._failure: JournalError | None = None
        self._loop_task: asyncio.Task[None] | None = None
        self.trouble: str | None = None
        """What storage says while a segment waits for it; None while all is well."""
        self.on_failure: Callable[[JournalError], None] | None = None
        """Called once when storage is given up."""

    @property
    def failure(self) -> JournalError | None:
        """Why nothing can be made durable any more; None while all is well."""
        return self._failure

    @property
    def reached(self) -> tuple[str, int]:
        """(epoch, sequence) of the last durable segment; -1 before the first."""
        return self._epoch.name, self._sequence - 1

    def append(self, row: Row) -> None:
        """Take a row; it is durable within `flush_s` where storage works."""
        self._waiting.append(row)
        self._appended += 1
        self._keep_running()
        if len(self._waiting) >= _MOST_ROWS:
            self._wake.set()

    async def durable(self) -> None:
        """Wait until everything appended so far is durable, and the writer's claim in any case.

        Raises:
            JournalError: where storage was given up.
        """
        claimed = self._sequence > 0
        if (self._durable < self._appended or not claimed) and self._failure is None:
            self._keep_running()
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._awaited.append((self._appended, future))
            if self._most_waiting is not None and len(self._awaited) >= self._most_waiting:
                self._wake.set()
            await future
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Make everything durable and stop."""
        self._closing = True
        self._wake.set()
        if self._loop_task is not None:
            await self._loop_task
        if self._failure is not None:
            raise self._failure

    def _keep_running(self) -> None:
        if self._loop_task is None or self._loop_task.done():
            self._loop_task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._flush_on_time()
        except MemoryError:
            await self._give_up(no_memory())
        except Exception as error:  # nobody else would tell those that wait
            logger.exception("the writer of the journal broke")
            await self._give_up(f"{type(error).__name__}: {error}")

    async def _flush_on_time(self) -> None:
        while self._failure is None:
            if not self._closing:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self._flush_s)
            self._wake.clear()
            if self._waiting or not self._sequence:
                await self._flush()
            elif self._closing:
                return

    async def _flush(self) -> None:
        rows, self._waiting = self._waiting, []
        deadline, pause = time.monotonic() + self._give_up_s, 0.5
        refused: Exception | None = None
        while True:
            try:
                await asyncio.to_thread(self._write, rows)
                break
            except UnicodeEncodeError:
                rows = [_encodable(row) for row in rows]
            except OSError as error:
                if time.monotonic() + pause > deadline:
                    await self._give_up(f"failed for {self._give_up_s:g} s: {error}")
                    return
                self.trouble = f"journal segment of {len(rows)} rows not written: {error}"
                logger.warning("%s; again in %.1f s", self.trouble, pause)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 15.0)
            except MemoryError:
                raise
            except Exception as error:  # rows that no file can hold; the others are kept
                if refused is not None:
                    raise
                refused, rows = error, [row for row in rows if _fits(row)]
        self.trouble = None
        self._sequence += 1
        if refused is not None:
            await self._give_up(f"a row has what no segment can hold: {refused}")
            return
        self._durable += len(rows)
        await self._wake_waiting(self._durable)

    def _write(self, rows: list[Row]) -> None:
        write_segment(self._journal, self._epoch, self._sequence, rows, self._base, self._run_id)

    async def _give_up(self, why: str) -> None:
        self._failure = JournalError(f"{self._journal.address} must take segments, {why}")
        self.trouble = None
        try:
            if self.on_failure is not None:
                self.on_failure(self._failure)
        finally:
            await self._wake_waiting(self._appended)

    async def _wake_waiting(self, reached: int) -> None:
        """Let those go on who wait for row number `reached` or an earlier one, a few at a time:
        what they do next must not hold up the loop all at once."""
        woken = 0
        while self._awaited and self._awaited[0][0] <= reached:
            _, future = self._awaited.popleft()
            if not future.done():  # its chain may have been cancelled
                future.set_result(None)
            woken += 1
            if woken % _WOKEN_AT_ONCE == 0:
                await asyncio.sleep(0)


def no_memory() -> str:
    """What is said where this process has no memory left."""
    return (
        f"a controller on {os.uname().nodename} has no memory left: it needs fewer "
        "controllers.in_flight, or its node more memory"
    )


def _fits(row: Row) -> bool:
    try:
        table_of([row])
    except Exception:  # whatever Arrow says of it
        return False
    return True


def _encodable(row: Row) -> Row:
    return {n: encodable(value) if isinstance(value, str) else value for n, value in row.items()}
