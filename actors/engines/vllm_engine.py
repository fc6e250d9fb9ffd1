"""*VllmEngine*: starts vLLM, sends requests, keeps deadlines, aborts, and checks health.

`vllm_setup` has their arguments. On a GPU an engine is an AsyncLLM, which has its core in another
process and sends it every request, and back every token, through a socket. On a CPU that is a
seventh of what a token of a small model costs, and a second copy of Python and vLLM: there an
`InProcess` stands for it, in which a thread makes the steps and the event loop hears of a request
once, when it ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import tempfile
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock

from actors.engines import vllm_setup
from actors.engines.engine_stats import EngineStats, Meter
from actors.engines.prompting import Tokenizing
from actors.engines.vllm_setup import PROCESSES, engine_args, environment, on_cpu
from actors.routing.calls import Call
from pipeline.config.models import ModelConfig
from pipeline.config.runtime import PoolConfig
from pipeline.core.confidence import TOP_LOGPROBS, Confidence, confidence_of
from pipeline.core.errors import EngineDeadError, ErrorKind, VerifierError
from pipeline.core.protocol import Failure

logger = logging.getLogger(__name__)


ASKS_LOGPROBS = {"logprobs": TOP_LOGPROBS, "flat_logprobs": True}
"""Fields of SamplingParams."""


def confidence(made: Any) -> Confidence | None:
    """The confidence of a completion of vLLM's that was asked for with `ASKS_LOGPROBS`."""
    flat = made.logprobs
    if flat is None:
        return None
    places = zip(flat.start_indices, flat.end_indices, strict=True)
    # the token that was sampled stands first, and again among the most likely ones if it is one
    return confidence_of(flat.logprobs[start + 1 : end] for start, end in places)


async def completed(
    llm: Any, ids: list[int], request_id: str, priority: int, **sampling: Any
) -> Any:
    """vLLM's output for a prompt, once it is complete; see `guarded`.

    Args:
        llm: a generator.
        ids: the prompt's tokens.
        request_id: unique; for ``llm.abort``.
        priority: lower is served first.
        sampling: fields of vLLM's SamplingParams.
    """
    from vllm import SamplingParams, TokensPrompt
    from vllm.sampling_params import RequestOutputKind

    async def last() -> Any:
        params = SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, **sampling)
        prompt = TokensPrompt(prompt_token_ids=ids)
        return await _last(llm.generate(prompt, params, request_id, priority=priority))

    return await guarded(last())


async def token_rows(llm: Any, ids: list[int], places: Sequence[int], request_id: str) -> Any:
    """The rows of a prompt's tokens at `places`, of floats each; see `guarded`.

    Args:
        llm: an engine started with `vllm_setup.token_rows`.
        ids: the prompt's tokens.
        places: of them, from 0.
        request_id: unique.
    """
    from vllm import PoolingParams, TokensPrompt

    async def last() -> Any:
        params = PoolingParams(task="token_classify")
        prompt = TokensPrompt(prompt_token_ids=ids)
        output = await _last(llm.encode(prompt, params, request_id))
        data = output.outputs.data
        if len(data) != len(ids):
            raise VerifierError(f"count: {len(ids)} tokens must have a row each, got {len(data)}")
        return data[list(places)].float().tolist()

    return await guarded(last())


async def next_token(llm: Any, ids: list[int], candidates: Sequence[int], request_id: str) -> Any:
    """Log-probabilities of `candidates` as the next token, by token; see `guarded`."""
    options = {"logprob_token_ids": list(candidates)} if candidates else {}
    output = await completed(llm, ids, request_id, 0, max_tokens=1, temperature=0.0, **options)
    if isinstance(output, Failure):
        return output
    found = (output.outputs[0].logprobs or [{}])[0]
    return {token: found[token].logprob for token in candidates if token in found}


async def _last(stream: AsyncIterator[Any]) -> Any:
    final = None
    async for output in stream:
        final = output
    assert final is not None  # the stream of a request ends with its output
    return final


async def guarded(call: Coroutine[Any, Any, Any]) -> Any:
    """Await a vLLM call; errors of the request itself become a `Failure`.

    Raises:
        EngineDeadError: if the engine cannot serve any request any more.
    """
    from vllm.v1.engine import exceptions

    try:
        return await call
    except exceptions.EngineDeadError as error:
        raise EngineDeadError(f"vLLM engine died: {error}") from error
    except ValueError as error:  # vLLM's own errors of validation are ValueErrors
        return Failure.of(ErrorKind.BAD_REQUEST, error, completion_tokens=0)
    except exceptions.EngineGenerateError as error:
        return Failure.of(ErrorKind.ENGINE, repr(error.__cause__ or error))


async def answer_all(requests: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Await requests of the engine's own, side by side.

    Raises:
        EngineDeadError: if one of them has no answer.
    """
    for answer in await asyncio.gather(*requests):
        if isinstance(answer, Failure):
            raise EngineDeadError(f"vLLM engine could not answer its first request: {answer.error}")


async def prove_alive(
    llm: Any, meter: Meter, probe: Callable[[str], Coroutine[Any, Any, Any]], stall_s: float
) -> None:
    """Prove that an engine can serve: by its steps while it works, else by `probe`.

    Raises:
        EngineDeadError: if it died, or answered no probe: in `stall_s` where it is idle, in a
            quarter of that where it has work and made no step for `stall_s`.
    """
    from vllm.v1.engine import exceptions

    try:
        await llm.check_health()
    except exceptions.EngineDeadError as error:
        raise EngineDeadError(f"vLLM engine died: {error}") from error
    if meter.in_flight and meter.stalled_s() < stall_s:
        return
    # the probe is for a machine that was suspended, where the clock alone would condemn the engine
    limit_s = stall_s / 4 if meter.in_flight else stall_s
    task = asyncio.ensure_future(probe(f"health-{uuid.uuid4().hex}"))
    _, pending = await asyncio.wait({task}, timeout=limit_s)
    if pending:
        task.cancel()
        raise EngineDeadError(f"vLLM engine answered nothing within {limit_s:g} s")
    if isinstance(answer := task.result(), Failure):
        raise EngineDeadError(f"vLLM engine failed its health check: {answer.error}")


@contextmanager
def alone_on_gpu(pool: PoolConfig) -> Iterator[None]:
    """Let the replicas that share a GPU start one after the other, on each node.

    At its start vLLM measures what it needs by how much memory of the whole GPU is taken
    meanwhile, so that it counts what another engine takes at the same time as its own, and its KV
    cache has that much less.
    """
    if not pool.shares_gpu:
        yield
        return
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").replace("/", "-")
    name = f"markovscale-{os.getuid()}-gpu-{gpu}.lock"
    with FileLock(Path(tempfile.gettempdir()) / name):
        yield


def start(arguments: dict[str, Any], pool: PoolConfig, meter: Meter) -> Any:
    """A running vLLM AsyncLLM whose steps `meter` counts; on CPU what stands for one.

    On a GPU the engine needs a process of its own: while a step runs there, Python has time for
    requests and replies. On a CPU that process costs more than it saves.
    """
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.metrics.loggers import StatLoggerBase

    class StepCounter(StatLoggerBase):  # type: ignore[misc]  # vLLM is untyped here
        """Feeds `meter` after every engine step."""

        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            del vllm_config, engine_index

        def record(self, scheduler_stats: Any, iteration_stats: Any, *_: Any, **__: Any) -> None:
            if iteration_stats is not None:
                meter.count(
                    completion_tokens=iteration_stats.num_generation_tokens,
                    preemptions=iteration_stats.num_preempted_reqs,
                )
            if scheduler_stats is not None:
                meter.batch(
                    scheduler_stats.num_running_reqs,
                    scheduler_stats.num_waiting_reqs,
                    scheduler_stats.kv_cache_usage,
                )

        def log_engine_initialized(self) -> None:
            """Nothing to say."""

    with alone_on_gpu(pool):
        options = AsyncEngineArgs(**arguments)
        if on_cpu(pool) and environment(pool).get(PROCESSES) == "0":
            llm: Any = started(options, StepCounter(None))
        else:
            llm = AsyncLLM.from_engine_args(options, stat_loggers=[StepCounter])
    meter.ready()
    return llm


def embedder(model: ModelConfig, pool: PoolConfig, pooling: str) -> Any:
    """vLLM's synchronous engine, for last-layer states pooled by ``last`` or ``mean``."""
    from vllm import LLM
    from vllm.config import PoolerConfig

    arguments = engine_args(
        model,
        pool,
        runner="pooling",
        convert="embed",
        pooler_config=PoolerConfig(pooling_type=pooling.upper(), use_activation=False),
        enable_prefix_caching=False,
        enable_chunked_prefill=False,
    )
    with alone_on_gpu(pool):
        return LLM(**arguments)


_STOP_S = 10.0


def started(options: Any, counter: Any) -> InProcess:
    """An engine that serves.

    Args:
        options: vLLM's EngineArgs.
        counter: a StatLoggerBase, called with each step. Of the loggers that vLLM has besides, one
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
        await self._in_step_thread(lambda ticket: ticket.put(self._engine.reset_prefix_cache()))

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
            return await self._in_step_thread(
                partial(self._add, request_id, prompt, params, priority)
            )
        except asyncio.CancelledError:
            await self.abort(request_id)
            raise

    async def _in_step_thread(self, ask: Callable[[Ticket], Any]) -> Any:
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
        """Sends what is ready, with one call of each event loop."""
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
        self._llm = start(arguments, pool, self._meter)
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
        await prove_alive(self._llm, self._meter, self._probe, stall_s)

    def stats(self, replica: str = "") -> EngineStats:
        """What the engine counted so far."""
        return self._meter.stats(replica, self.kind, vllm_setup.kv_capacity_tokens(self._llm))

    def shutdown(self) -> None:
        """Stop the engine and its processes."""
        self._llm.shutdown()
        self._tokenizing.close()
