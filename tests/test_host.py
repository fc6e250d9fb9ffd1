"""The process around an engine: ready once the engine is warm, ended once it is dead."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from actors.engines import actor_host
from actors.engines.actor_host import EngineHost
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import ConfigError, EngineDeadError, EngineError


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
        await asyncio.wait_for(host.ping(), 0.01)
    asking = [asyncio.create_task(host.ping()) for _ in range(2)]
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
    """Nothing else would ever replace it: Ray does not limit how long a start takes."""

    class Ended(Exception):
        pass

    def exit_(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(os, "_exit", exit_)

    with pytest.raises(Ended):
        await asyncio.wait_for(hosted(Cold(), start_timeout_s=0.05).ping(), 5)


class Checked(Cold):
    """A warm engine whose health checks do as told, one after the other, and the last one again.

    Each takes a twentieth of a second by the clock of its host, which nothing else moves.
    """

    def __init__(self, *checks: Any) -> None:
        super().__init__()
        self.warm.set()
        self.checks, self.done, self.now = list(checks), 0, 0.0

    def monotonic(self) -> float:
        return self.now

    async def health(self, stall_s: float) -> None:
        check = self.checks[min(self.done, len(self.checks) - 1)]
        self.done, self.now = self.done + 1, self.now + 0.05
        if check == "hangs":
            await asyncio.Event().wait()
        elif check is not None:
            raise check


async def ended(engine: Checked, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a host ends its process within eight checks."""
    exits: list[int] = []

    def exit_(status: int) -> None:
        exits.append(status)
        raise EOFError

    monkeypatch.setattr(os, "_exit", exit_)
    monkeypatch.setattr(actor_host, "time", engine)
    host = hosted(engine, health_timeout_s=0.2)
    host._health_s = 0.2
    await host.ping()
    (watching,) = host._watching
    while engine.done < 8 and not exits:
        await asyncio.sleep(0.01)
    watching.cancel()
    await asyncio.wait({watching})
    return bool(exits)


@pytest.mark.parametrize("check", [RuntimeError("always"), "hangs"])
async def test_an_engine_whose_health_cannot_be_told_is_replaced(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks that only raise, or never answer, end the process as a dead engine does."""
    engine = Checked(check)
    assert await ended(engine, monkeypatch)
    assert engine.now == pytest.approx(0.2)


async def test_an_engine_that_cannot_warm_up_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, with its model's name; a fault of the configuration stays one."""
    engine = Cold()
    for raised, expected in (
        (ValueError("Unsupported\ntask"), r"^None: ValueError: Unsupported task"),
        (ConfigError("never"), r"^never$"),
    ):

        async def fail(raised: Exception = raised) -> None:
            raise raised

        monkeypatch.setattr(engine, "warm_up", fail)
        with pytest.raises((EngineError, ConfigError), match=expected):
            await hosted(engine).ping()
