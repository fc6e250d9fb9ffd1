"""*GeneratorEngine*: answers requests with completions, on vLLM's AsyncLLM.

It is a plain class: a Ray actor, a Serve deployment or a test can hold it
(`actors.engines.launch`). Prompts go in as token ids made here from the model's chat template, and
one output comes back a request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from actors.engines import vllm_engine, vllm_setup
from actors.engines.prompting import LONG, Prompt, Prompter, characters_of
from actors.engines.vllm_engine import VllmEngine
from actors.engines.vllm_setup import check_prompts, context_of, generator_tokenizer
from actors.routing.calls import GenerateCall, Generated
from pipeline.config.models import GeneratorModel
from pipeline.config.runtime import PoolConfig
from pipeline.core.protocol import Failure, Request

logger = logging.getLogger(__name__)

_FIRST = -(2**31)  # vLLM serves the lowest priority first
_WARM_REQUESTS = 64
_ABORT_EVERY_S = 0.05


class GeneratorEngine(VllmEngine):
    """One vLLM engine. Its constructor loads the model and blocks until it can serve."""

    kind = "generator"
    _long_prompter: Prompter | None = None
    """Of the thread for long prompts; made when the first one comes."""

    def __init__(
        self, model: dict[str, Any], pool: dict[str, Any], samples: Sequence[GenerateCall] = ()
    ) -> None:
        """Start the engine.

        Args:
            model: fields of `GeneratorModel`, JSON-able so that a restarted actor gets them again.
            pool: fields of `PoolConfig`.
            samples: a call of each kind that will come.

        Raises:
            ConfigError: where the chat template refuses a sample, before any weights are loaded.
        """
        self._model = GeneratorModel.model_validate(model)
        pool_config = PoolConfig.model_validate(pool)
        vllm_setup.check_shape(self._model)
        tokenizer = generator_tokenizer(self._model)
        check_prompts(self._model, tokenizer, samples)
        arguments = vllm_setup.engine_args(
            self._model,
            pool_config,
            enable_prefix_caching=True,
            **vllm_setup.reasoning_args(self._model.reasoning),
            **vllm_setup.prefill_args(pool_config, context_of(self._model)),
        )
        self._load(arguments, pool_config)
        self._prompter = Prompter(
            tokenizer,
            self._context,
            self._model.open_thinking,
            reasoning=self._model.reasoning,
            template=self._model.chat_template_kwargs,
        )
        self._skips_special_tokens = not self._prompter.keeps_special_tokens
        self._ends_thinking = vllm_setup.ends_thinking(self._llm)
        self._probe_ids: list[int] = tokenizer.encode("1", add_special_tokens=False)

    async def serve(self, call: GenerateCall) -> Generated | Failure:
        """See `Engine.serve`."""
        request, request_id = call.request, call.request_id
        with self._meter.request():
            prompt = await self._prompt(request, request_id)
            if isinstance(prompt, Failure):
                return prompt
            self._meter.prompt_tokens += len(prompt.ids)
            run = self._run(request, prompt, request_id, call.priority)
            output = await self._in_time(call, run, "completion")
            if isinstance(output, Failure):
                return output
            # half a second of a long reply, in which the loop would take nothing from vLLM
            return await self._tokenizing.read(lambda: self._answer(request, prompt, output))

    async def _prompt(self, request: Request, request_id: str) -> Prompt | Failure:
        is_long = characters_of(request) >= LONG

        def make() -> Prompt:
            if not is_long:
                return self._prompter.prompt(request)
            if self._long_prompter is None:
                self._long_prompter = self._prompter.copy()
            return self._long_prompter.prompt(request)

        return await self._tokenizing.run(request_id, make, is_long=is_long)

    def _answer(self, request: Request, prompt: Prompt, output: Any) -> Generated | Failure:
        """What a final output of vLLM's comes to."""
        made = output.outputs[0]
        return self._prompter.answer(
            prompt,
            made.text if request.form is None else request.form.as_calls(made.text),
            list(made.token_ids),
            made.finish_reason,
            output.num_cached_tokens or 0,
            vllm_engine.confidence(made),
        )

    async def warm_up(self) -> None:
        """Answer a batch of short requests, sampled as those of a run are.

        What is loaded and compiled at first use (kernels, the sampler) thus belongs to the start.

        Raises:
            EngineDeadError: if it cannot answer.
        """
        batch = min(_WARM_REQUESTS, self._meter.max_num_seqs)
        await vllm_engine.answer_all(
            self._probe(f"warm-up-{number}", max_tokens=2, temperature=0.7, top_p=0.95, seed=number)
            for number in range(batch)
        )
        self._meter.ready()

    async def _run(self, request: Request, prompt: Prompt, request_id: str, priority: float) -> Any:
        """Final output of a request, aborted or not; a Failure for errors of its own."""
        sampling = request.sampling
        if sampling.thinking_budget is not None and not self._ends_thinking:
            _warn_of_budget()
            sampling = replace(sampling, thinking_budget=None)
        return await vllm_engine.completed(
            self._llm,
            prompt.ids,
            request_id,
            max(_FIRST + 1, round(priority * 1000)),
            max_tokens=min(request.max_tokens, self._context - len(prompt.ids)),
            min_tokens=request.min_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            stop_token_ids=list(request.stop_token_ids) or None,
            seed=request.seed,
            skip_special_tokens=self._skips_special_tokens,
            **(vllm_engine.ASKS_LOGPROBS if self._model.logprobs else {}),
            **vllm_setup.sampling_params(sampling),
            **vllm_setup.structured(request.form),
        )

    async def abort(self, request_id: str) -> int | None:
        """Stop a request in the engine.

        Returns:
            Tokens that it had generated; None for a request that is not running here.
        """
        if self._tokenizing.abort(request_id):
            return 0
        task = self._running.get(request_id)
        if task is None or task.done():
            return None
        while not task.done():
            # vLLM knows a request only once it has looked at it, in a thread: an abort that comes
            # before is lost, and the completion would be made to its end
            await self._llm.abort(request_id)
            await asyncio.wait({task}, timeout=_ABORT_EVERY_S)
        output = task.result()
        if isinstance(output, Failure):
            return output.completion_tokens
        tokens = self._generated(output)
        self._meter.aborted += 1
        self._meter.aborted_tokens += tokens
        return tokens

    def _generated(self, output: Any) -> int:
        return len(output.outputs[0].token_ids)

    async def _probe(self, request_id: str, max_tokens: int = 1, **sampling: Any) -> Any:
        """Generate a token or two, ahead of everything else; they belong to no run."""
        output = await vllm_engine.completed(
            self._llm, self._probe_ids, request_id, _FIRST, max_tokens=max_tokens, **sampling
        )
        if not isinstance(output, Failure):
            self._meter.count(completion_tokens=-self._generated(output))
        return output


@cache
def _warn_of_budget() -> None:
    """Said once a process: every request of the run has the same budget."""
    logger.warning(
        "science.decoding.thinking_budget is ignored: vLLM does not know what ends the thinking; "
        "name it in science.generator.reasoning, or set reasoning_parser in "
        "runtime.generator.engine.extra"
    )
