"""*InProcess*: vLLM's engine in this process, behind the used part of AsyncLLM's interface.

AsyncLLM has its engine in another process and sends it every request, and back every token, through
a socket. On a CPU that is a seventh of what a token of a small model costs, and a second copy of
Python and vLLM. Here a thread makes the steps, and the event loop hears of a request once, when it
ends. A step that hangs without letting go of the interpreter hangs the actor too: only Serve would
see that.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any

logger = logging.getLogger(__name__)

_STOP_S = 10.0


def started(options: Any, counter: Any) -> InProcess:
    """An engine that serves.

    Args:
        options: vLLM's EngineArgs.
        counter: a StatLoggerBase, told of each step. Of the loggers that vLLM has besides, one
            feeds Prometheus at every step, whether anyone reads it or not.
    """
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.llm_engine import LLMEngine
    from vllm.v1.executor import Executor

    config = options.create_engine_config(UsageContext.ENGINE_CONTEXT)
    engine = LLMEngine(config, Executor.get_class(config), log_stats=True, multiprocess_mode=False)
    engine.logger_manager = counter
    return InProcess(engine)


class Ticket:
    """What somebody waits for; vLLM's output processor puts the final output into it."""

    def __init__(self, ready: list[tuple[Ticket, Any]]) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self._ready = ready

    def put(self, outcome: Any) -> None:
        """Called in the thread that makes the steps."""
        self._ready.append((self, outcome))


class InProcess:
    """One engine: requests and aborts take effect between two steps.

    Args:
        engine: vLLM's LLMEngine, with its core in this process.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.vllm_config, self.model_config = engine.vllm_config, engine.model_config
        self._asked: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._ready: list[tuple[Ticket, Any]] = []
        self._open: set[Ticket] = set()
        self._dead: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="vllm-steps", daemon=True)
        self._thread.start()

    async def generate(
        self, prompt: Any, params: Any, request_id: str, *, priority: int = 0
    ) -> AsyncIterator[Any]:
        """The final output of a request, aborted or not; see `AsyncLLM.generate`.

        Raises:
            ValueError: where vLLM refuses the request.
            EngineGenerateError: where it cannot take it for another reason.
            EngineDeadError: where it serves nothing any more.
        """
        yield await self._output(prompt, params, request_id, priority)

    async def encode(self, prompt: Any, params: Any, request_id: str) -> AsyncIterator[Any]:
        """The output of a pooling model; see `generate`."""
        yield await self._output(prompt, params, request_id, 0)

    async def abort(self, request_id: str) -> None:
        """End a request after the step that runs; `generate` gives what it made."""
        self._asked.put(partial(self._engine.abort_request, [request_id]))

    async def reset_prefix_cache(self) -> None:
        """Forget all prompts."""
        await self._told(lambda ticket: ticket.put(self._engine.reset_prefix_cache()))

    async def check_health(self) -> None:
        """Raise an EngineDeadError where a step has failed."""
        if self._dead is not None:
            raise self._dead

    def shutdown(self) -> None:
        """Make no further step and give back the memory; may be called twice."""
        self._asked.put(None)
        self._thread.join(_STOP_S)
        self._engine.engine_core.shutdown()

    async def _output(self, prompt: Any, params: Any, request_id: str, priority: int) -> Any:
        try:
            return await self._told(partial(self._add, request_id, prompt, params, priority))
        except asyncio.CancelledError:
            await self.abort(request_id)
            raise

    async def _told(self, ask: Callable[[Ticket], Any]) -> Any:
        """What is put into the ticket that `ask` gets, in the thread that makes the steps."""
        ticket = Ticket(self._ready)
        self._open.add(ticket)
        try:
            self._asked.put(partial(ask, ticket))
            await self.check_health()  # after the put: a thread that has ended takes nothing
            return await ticket.future
        finally:
            self._open.discard(ticket)

    def _work(self) -> None:
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            while True:
                self._deliver()
                if self._asked.empty() and self._engine.has_unfinished_requests():
                    self._engine.step()
                elif (ask := self._asked.get()) is not None:
                    ask()
                else:
                    break
        except BaseException:
            logger.exception("vLLM's engine died")
        self._dead = EngineDeadError()
        for ticket in list(self._open):
            ticket.put(self._dead)
        self._deliver()

    def _add(
        self, request_id: str, prompt: Any, params: Any, priority: int, ticket: Ticket
    ) -> None:
        from vllm.v1.engine.exceptions import EngineGenerateError

        try:
            own = self._engine.add_request(request_id, prompt, params, priority=priority)
            # with a queue vLLM tells of aborted requests too, as it does for AsyncLLM
            self._engine.output_processor.request_states[own].queue = ticket
        except ValueError as error:
            ticket.put(error)
        except Exception as error:
            broken = EngineGenerateError()
            broken.__cause__ = error
            ticket.put(broken)

    def _deliver(self) -> None:
        """Hand over what is ready, with one call of each event loop."""
        if not self._ready:
            return
        ready, self._ready[:] = self._ready[:], []
        for loop in {ticket.loop for ticket, _ in ready}:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, [one for one in ready if one[0].loop is loop])


def _settle(ready: list[tuple[Ticket, Any]]) -> None:
    for ticket, outcome in ready:
        if ticket.future.done():
            continue
        if isinstance(outcome, Exception):
            ticket.future.set_exception(outcome)
        else:
            ticket.future.set_result(outcome)
