"""The process around an engine: ready once the engine is warm, ended once it is dead."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from actors.engines.engine_host import EngineHost
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import EngineDeadError


def hosted(engine: Any, **pool: Any) -> EngineHost:
    """A host whose engine is `engine`."""
    fields = PoolConfig.model_validate(pool).model_dump(mode="json")
    host = EngineHost("r", "generator", {}, fields, scripted={})
    host._engine = engine
    return host


class Cold:
    """An engine that notes how often it is warmed up, and waits for `warm`."""

    def __init__(self) -> None:
        self.warmed, self.warm = 0, asyncio.Event()

    async def warm_up(self) -> None:
        self.warmed += 1
        await self.warm.wait()


async def test_a_host_is_ready_once_its_engine_is_warm() -> None:
    """However many ask, and a caller that gives up does not begin it again."""
    engine = Cold()
    host = hosted(engine)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(host.check_health(), 0.01)
    asking = [asyncio.create_task(host.ping()), asyncio.create_task(host.check_health())]
    await asyncio.sleep(0.01)
    before = [task.done() for task in asking]
    engine.warm.set()
    process, _ = await asyncio.gather(*asking)

    assert before == [False, False]
    assert (process, engine.warmed) == (os.getpid(), 1)


async def test_an_engine_that_cannot_answer_ends_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray then starts another, or the start fails with what it says."""

    class Dead(Exception):
        pass

    def exit_(status: int) -> None:
        raise Dead(status)

    async def fail() -> None:
        raise EngineDeadError("no answer")

    engine = Cold()
    monkeypatch.setattr(engine, "warm_up", fail)
    monkeypatch.setattr(os, "_exit", exit_)

    with pytest.raises(Dead):
        await hosted(engine).ping()


async def test_an_engine_that_hangs_while_it_warms_up_ends_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing else would ever replace it: neither Ray nor Serve limits how long a start takes."""

    class Ended(Exception):
        pass

    def exit_(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(os, "_exit", exit_)

    with pytest.raises(Ended):
        await asyncio.wait_for(hosted(Cold(), start_timeout_s=0.05).check_health(), 5)
