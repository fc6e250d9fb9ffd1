"""*VllmEngine*: start, requests, deadlines, aborts and health of all engines on vLLM."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any

from actors.engines import vllm_calls, vllm_setup, vllm_start
from actors.engines.engine_stats import EngineStats, Meter
from actors.engines.prompting import Tokenizing
from actors.routing.calls import Call
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Failure


class VllmEngine(ABC):
    """One vLLM engine. The constructor of a subclass checks its model, then calls `_load`."""

    kind: str

    def _load(self, arguments: Any, pool: PoolConfig) -> None:
        """Load the model; blocks until the engine can serve.

        Args:
            arguments: `vllm_setup.engine_args`.
            pool: the engine's.
        """
        self._tokenizing = Tokenizing()
        self._meter = Meter(pool.engine.max_num_seqs)
        self._llm = vllm_start.start(arguments, pool, self._meter)
        self._context = vllm_setup.context_tokens(self._llm)
        self._running: dict[str, asyncio.Task[Any]] = {}

    @abstractmethod
    async def _probe(self, request_id: str) -> Any:
        """Answer a request of the engine's own, as small as can be."""

    async def _in_time(self, call: Call[Any], run: Coroutine[Any, Any, Any], made: str) -> Any:
        """The output of a request; a `Failure` for errors of its own, or at its deadline.

        Args:
            call: the request.
            run: asks vLLM.
            made: what is made, in the words of the error.
        """
        task = asyncio.create_task(run)
        self._running[call.request_id] = task
        try:
            # a shielded task lives on when this call is cancelled, to tell what it cost
            output = await asyncio.wait_for(asyncio.shield(task), call.deadline_s)
        except TimeoutError:
            tokens = await self.abort(call.request_id)
            late = f"no {made} within {call.deadline_s:g} s"
            return Failure.of(ErrorKind.DEADLINE, late, completion_tokens=tokens)
        except asyncio.CancelledError:
            if task.cancelled():  # by `abort`
                return Failure.of(ErrorKind.ABORTED, "the request was ended")
            await asyncio.shield(self.abort(call.request_id))
            raise
        finally:
            self._running.pop(call.request_id, None)
        if isinstance(output, Failure):
            self._meter.failed += 1
        return output

    @abstractmethod
    async def abort(self, request_id: str) -> int | None:
        """Stop a request in the engine.

        Returns:
            Tokens that it had generated; None for a request that is not running here.
        """

    async def health(self, stall_s: float = 120.0) -> None:
        """Prove that the engine can serve: by its steps while it works, else by a small request.

        Raises:
            EngineDeadError: if it died, or made no step within `stall_s`.
        """
        await vllm_calls.prove_alive(self._llm, self._meter, self._probe, stall_s)

    def stats(self, replica: str = "") -> EngineStats:
        """What the engine counted so far."""
        return self._meter.stats(replica, self.kind, vllm_setup.kv_capacity_tokens(self._llm))

    def shutdown(self) -> None:
        """Stop the engine and its processes."""
        self._llm.shutdown()
        self._tokenizing.close()
