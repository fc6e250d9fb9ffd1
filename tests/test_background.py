"""Background tasks of actors: an exception restarts them, and none is left to die in silence."""

from __future__ import annotations

import asyncio

import pytest

from actors.cluster import background
from actors.cluster.background import supervised

"""Where tasks are started without `supervised`, by file and function, and what watches them."""


async def test_a_task_that_breaks_is_started_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After any exception, with the exception in the log, until it returns; cancelling ends it."""
    monkeypatch.setattr(background, "_PAUSE_S", 0.01)
    runs = iter([TypeError("odd"), MemoryError(), None])

    async def run() -> None:
        if error := next(runs):
            raise error

    await asyncio.wait_for(supervised(run, "the test"), 20)
    assert next(runs, "all") == "all"
    assert caplog.text.count("the test broke and is started again") == 2
    assert "TypeError: odd" in caplog.text

    task = supervised(asyncio.Event().wait, "for ever")  # type: ignore[arg-type]
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
