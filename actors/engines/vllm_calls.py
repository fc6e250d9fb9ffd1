"""Calls of a running vLLM engine; `vllm_setup` configures it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any

from actors.engines.engine_stats import Meter
from pipeline.core.confidence import TOP_LOGPROBS, Confidence, confidence_of
from pipeline.core.errors import EngineDeadError, ErrorKind, VerifierError
from pipeline.core.protocol import Failure

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
    asked = {"logprob_token_ids": list(candidates)} if candidates else {}
    output = await completed(llm, ids, request_id, 0, max_tokens=1, temperature=0.0, **asked)
    if isinstance(output, Failure):
        return output
    told = (output.outputs[0].logprobs or [{}])[0]
    return {token: told[token].logprob for token in candidates if token in told}


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
        EngineDeadError: if it died, or neither made a step nor answered the probe in `stall_s`.
    """
    from vllm.v1.engine import exceptions

    try:
        await llm.check_health()
    except exceptions.EngineDeadError as error:
        raise EngineDeadError(f"vLLM engine died: {error}") from error
    if meter.in_flight and meter.stalled_s() < stall_s:
        return
    task = asyncio.ensure_future(probe(f"health-{uuid.uuid4().hex}"))
    _, pending = await asyncio.wait({task}, timeout=stall_s)
    if pending:
        task.cancel()
        raise EngineDeadError(f"vLLM engine answered nothing within {stall_s:g} s")
    if isinstance(answer := task.result(), Failure):
        raise EngineDeadError(f"vLLM engine failed its health check: {answer.error}")
