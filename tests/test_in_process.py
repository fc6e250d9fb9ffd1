"""vLLM's engine in this process, with faults put into it."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from actors.engines.vllm_engine import InProcess

pytestmark = pytest.mark.vllm


class Faulty:
    """In place of LLMEngine: requests end where their prompt says, and steps fail on demand."""

    vllm_config = model_config = None

    def __init__(self) -> None:
        self.states: dict[str, Any] = {}
        self.output_processor = SimpleNamespace(request_states=self.states)
        self.engine_core = SimpleNamespace(shutdown=lambda: None)
        self.breaks, self.aborted = threading.Event(), threading.Event()

    def add_request(self, request_id: str, prompt: Any, params: Any, priority: int = 0) -> str:
        if isinstance(prompt, Exception):
            raise prompt
        self.states[request_id] = SimpleNamespace(prompt=prompt, queue=None)
        return request_id

    def has_unfinished_requests(self) -> bool:
        return bool(self.states)

    def step(self) -> None:
        if self.breaks.wait(0.005):
            raise RuntimeError("out of memory")
        for name in [name for name, state in self.states.items() if state.prompt == "short"]:
            self.states.pop(name).queue.put("done")

    def abort_request(self, names: list[str]) -> None:
        for name in names:
            if (state := self.states.pop(name, None)) is not None:
                state.queue.put("aborted")
                self.aborted.set()


async def output(llm: InProcess, prompt: Any, name: str) -> Any:
    """What a request comes to."""
    return [each async for each in llm.generate(prompt, None, name)]


async def test_a_request_that_is_refused_costs_no_other_one() -> None:
    """A ValueError stays one, anything else is an error of generation, and others are served."""
    from vllm.v1.engine.exceptions import EngineGenerateError

    llm = InProcess(Faulty())
    with pytest.raises(ValueError, match="too long"):
        await output(llm, ValueError("too long"), "a")
    with pytest.raises(EngineGenerateError):
        await output(llm, KeyError("x"), "b")

    assert await output(llm, "short", "c") == ["done"]
    llm.shutdown()


async def test_a_request_ends_in_the_engine_when_it_is_aborted_or_cancelled() -> None:
    """An aborted one has its output; of a cancelled one nothing is left either."""
    engine = Faulty()
    llm = InProcess(engine)
    task = asyncio.create_task(output(llm, "long", "a"))
    await output(llm, "short", "b")  # the first is in the engine by now
    await llm.abort("a")
    assert await task == ["aborted"]
    engine.aborted.clear()
    task = asyncio.create_task(output(llm, "long", "c"))
    await output(llm, "short", "d")
    task.cancel()
    assert await asyncio.to_thread(engine.aborted.wait, 30)

    assert not engine.states
    llm.shutdown()


async def test_a_step_that_fails_ends_every_request_now_and_later() -> None:
    """None waits for ever, those that come later included, and the health check says why."""
    from vllm.v1.engine.exceptions import EngineDeadError

    engine = Faulty()
    llm = InProcess(engine)
    tasks = [asyncio.create_task(output(llm, "long", name)) for name in "ab"]
    await output(llm, "short", "c")
    engine.breaks.set()
    ends = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(end) for end in ends] == [EngineDeadError] * 2
    with pytest.raises(EngineDeadError):
        await output(llm, "short", "d")
    with pytest.raises(EngineDeadError):
        await llm.check_health()
    llm.shutdown()
