"""What the generator engine makes of an abort, with a stand-in for vLLM's AsyncLLM."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from actors.engines.engine_stats import Meter
from actors.engines.generator import GeneratorEngine
from actors.engines.prompting import Tokenizing


class Llm:
    """Knows a request only a moment after it was asked, and takes no abort before: as vLLM 0.32
    does, which looks at a request in a thread first."""

    def __init__(self) -> None:
        self.knows, self.ends = asyncio.Event(), asyncio.Event()
        self.aborts = 0

    async def generate(self) -> Any:
        """The output, once the request is aborted; it never ends by itself."""
        await self.knows.wait()
        await self.ends.wait()
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=[1, 2, 3])])

    async def abort(self, request_id: str) -> None:
        """Lost where the request is not known."""
        self.aborts += 1
        if self.knows.is_set():
            self.ends.set()
        self.knows.set()


async def test_an_abort_that_comes_before_vllm_knows_the_request_ends_it() -> None:
    """The completion is not made to its end, and what it cost is told and counted."""
    engine, llm = object.__new__(GeneratorEngine), Llm()
    engine._llm, engine._meter = llm, Meter(1)
    engine._tokenizing = Tokenizing()
    engine._running = {"r": asyncio.create_task(llm.generate())}
    async with asyncio.timeout(30):
        tokens = await engine.abort("r")

    assert (tokens, llm.aborts) == (3, 2)
    assert (engine._meter.aborted, engine._meter.aborted_tokens) == (1, 3)
